// HistoryScan, see zfs_output.h. The lines that count, as OpenZFS 2.1 to 2.3 write them (ID is the dataset's number):
//   2026-12-01.00:05:34 [txg:11] set tank/a (76) org.zvolt:journal=VALUE
//   2026-12-01.00:05:35 [txg:18] clone swap tank/a/%rollback (148) parent=a       a rollback
//   2026-12-01.00:05:39 [txg:30] clone swap tank/b/%recv (176) parent=b           the end of a receive into it
//   2026-12-01.00:05:41 [txg:33] rename tank/a (76) -> tank/c
//   2026-12-01.00:05:41 [txg:36] destroy tank/a (76)
// The commands and ioctls between them are for people: a name in them may be relative, and they may be missing.
#include <utility>

#include "backing/zfs/zfs_output.h"

namespace zvolt::backing {

namespace {

// Bytes. Names and values are at most 255 and 8192; a longer line is an ioctl's argument.
constexpr size_t kLongestLine = 16384;

bool begins(std::string_view& text, std::string_view with) {
  if (!text.starts_with(with)) return false;
  text.remove_prefix(with.size());
  return true;
}

// "NAME (ID)REST": names have blanks and no parentheses.
struct Subject {
  std::string name;
  std::string_view rest;
};
std::optional<Subject> subject(std::string_view text) {
  const size_t open = text.find(" (");
  const size_t close = open == std::string_view::npos ? open : text.find(')', open);
  if (close == std::string_view::npos) return std::nullopt;
  return Subject{std::string(text.substr(0, open)), text.substr(close + 1)};
}

}  // namespace

HistoryScan::HistoryScan(std::string property, std::string value)
    : set_to_(std::move(property) + "=" + std::move(value)) {}

void HistoryScan::take(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (partial_.size() <= kLongestLine) partial_ += text.substr(0, end);
    if (end == std::string_view::npos) return;
    if (partial_.size() <= kLongestLine) line(partial_);
    partial_.clear();
    text.remove_prefix(end + 1);
  }
}

void HistoryScan::line(std::string_view text) {
  const size_t stamp = text.find(" [txg:");
  const size_t end = stamp == std::string_view::npos ? stamp : text.find("] ", stamp);
  if (end == std::string_view::npos || stamp == 0 || text[0] == ' ') return;
  const std::string when(text.substr(0, stamp));
  text.remove_prefix(end + 2);
  const bool set = begins(text, "set "), swap = !set && begins(text, "clone swap ");
  const bool rename = !set && !swap && begins(text, "rename ");
  const bool destroy = !set && !swap && !rename && begins(text, "destroy ");
  if (!set && !swap && !rename && !destroy) return;
  auto about = subject(text);
  if (!about) return;
  if (set) {
    if (begins(about->rest, " ") && about->rest == set_to_) since_[about->name] = "";
  } else if (rename) {
    if (begins(about->rest, " -> ")) renamed(about->name, std::string(about->rest));
  } else if (destroy) {
    since_.erase(about->name);
  } else if (const size_t slash = about->name.rfind("/%"); slash != std::string::npos) {
    const auto found = since_.find(about->name.substr(0, slash));
    const bool rollback = about->name.compare(slash, std::string::npos, "/%rollback") == 0;
    if (found != since_.end())
      found->second = (rollback ? "it was rolled back at " : "it was received anew at ") + when;
  }
}

void HistoryScan::renamed(const std::string& from, const std::string& to) {
  std::map<std::string, std::string> moved;
  for (auto at = since_.begin(); at != since_.end();) {
    const bool below = at->first.starts_with(from + "/");
    if (at->first != from && !below) {
      ++at;
      continue;
    }
    moved[to + at->first.substr(from.size())] = std::move(at->second);
    at = since_.erase(at);
  }
  since_.merge(moved);
}

std::optional<std::string> HistoryScan::replaced(const std::string& name) const {
  const auto found = since_.find(name);
  return found == since_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace zvolt::backing
