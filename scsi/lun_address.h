// The LUN field: eight bytes, of which a single-level address uses two (SAM-5 4.7). Pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace zvolt::scsi {

inline constexpr uint16_t kMaxLunNumber = 16383;  // 14 bits: flat space addressing

// The number in a LUN field (big-endian value), or nothing: other addressing methods, more than one level.
constexpr std::optional<uint16_t> decode_lun(uint64_t field) {
  if ((field & 0x0000ffffffffffffULL) != 0) return std::nullopt;
  const auto first = static_cast<uint16_t>(field >> 48);
  switch (first >> 14) {
    case 0:  // peripheral device addressing. Linux and libiscsi write numbers above 255 this way too, into the bus
             // field
    case 1:  // flat space addressing
      return static_cast<uint16_t>(first & 0x3fff);
    default:
      return std::nullopt;
  }
}

constexpr uint64_t encode_lun(uint16_t number) {
  const uint64_t first = number < 256 ? number : 0x4000u | number;
  return first << 48;
}

}  // namespace zvolt::scsi
