// See model.h.
#include "config/model.h"

namespace zvolt::config {

std::string Problem::text() const {
  return where.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": " + message;
}

const Volume* Config::volume(const std::string& name) const {
  for (const Volume& v : volumes)
    if (v.name == name) return &v;
  return nullptr;
}

const Journal* Config::journal(const std::string& name) const {
  for (const Journal& j : journals)
    if (j.name == name) return &j;
  return nullptr;
}

}  // namespace zvolt::config
