// Sizes as people write them -> bytes: "1GiB", "512", "10g", "1.5TiB". Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zvolt::config {

struct ParsedSize {
  std::optional<uint64_t> bytes;
  std::string error;  // why there are no bytes: "expects a size like 10GiB"
};

// B, KiB MiB GiB TiB PiB EiB, and k m g t p e (either case), which are powers of 1024 as ZFS writes them. A fraction is
// taken when it is a whole number of bytes. KB, MB and the like mean different things to different people: refused.
ParsedSize parse_size(std::string_view text);

// 1073741824 -> "1GiB", 1500 -> "1500".
std::string format_size(uint64_t bytes);

// For sentences: "20 GiB", "1.5 GiB", "about 1.43 GiB", "512 bytes".
std::string readable_size(uint64_t bytes);

}  // namespace zvolt::config
