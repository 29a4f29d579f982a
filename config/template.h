// Templates: one entry of the YAML that makes many volumes or LUNs (`count`, `first`, names with %d or %0Nd). Called by
// the readers of volumes and LUNs. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zvolt::config {

// Volumes and LUNs that all templates of a configuration make together. As many LUNs as one target can have; it keeps a
// mistyped count from filling the memory.
inline constexpr uint64_t kMaxTemplateItems = 16384;

// Digits of %0Nd: names stay short.
inline constexpr unsigned kMaxPatternDigits = 9;

// Numbers first, first + 1, ... of one entry; an entry without `count` makes one and has no numbers.
struct Series {
  bool many = false;  // `count` is given
  uint64_t first = 1;
  uint64_t count = 1;
  uint64_t last() const { return first + count - 1; }
};

// Why `text` is no pattern: it has no %d, several, or anything else behind a '%'. Empty when it is one.
std::string check_pattern(const std::string& text);

// True when text has a '%' at all.
bool has_percent(const std::string& text);

// `text` with its %d or %0Nd replaced by `number`; as it is when it has no '%'. Requires check_pattern() or no '%'.
std::string expand(const std::string& text, uint64_t number);

}  // namespace zvolt::config
