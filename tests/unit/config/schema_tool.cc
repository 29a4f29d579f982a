// For schema_check.py: without arguments it prints the JSON Schema of the configuration; with a file it loads that and
// exits with 0 when the loader takes it, 1 when it does not.
#include <cstdio>

#include "config/json_schema.h"
#include "config/loader.h"

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs(zvolt::config::json_schema().c_str(), stdout) < 0 ? 2 : 0;
  const auto loaded = zvolt::config::load_file(argv[1]);
  for (const auto& problem : loaded.problems) std::puts(problem.text().c_str());
  return loaded.ok() ? 0 : 1;
}
