// Times as people write them -> milliseconds: "500ms", "30s", "5min", "1h", "30" (seconds). Pure functions,
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zvolt::config {

// Whole numbers of ms, s, m or min, h, d; a number alone is seconds.
std::optional<uint64_t> parse_duration(std::string_view text);

// 300000 -> "5min", 1500 -> "1500ms", 0 -> "0s".
std::string format_duration(uint64_t ms);

}  // namespace zvolt::config
