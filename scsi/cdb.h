// Cdb: a command descriptor block decoded once, at the edge, into plain values. Made by ItNexus from the command
// table's format; handlers never parse positions of LBA, length or control again. No state. SPC-4 4.3, SBC-3 clause 5.
#pragma once

#include <array>
#include <cstdint>

namespace zvolt::scsi {

// Where the LBA and the length (blocks, allocation length or parameter list length) of a command stand.
enum class CdbFormat : uint8_t {
  plain6,  // neither
  plain10,
  length6,       // length: byte 4
  length6_wide,  // length: bytes 3-4 (INQUIRY)
  length10,      // length: bytes 7-8
  length12,      // length: bytes 6-9
  lba6,          // LBA: 21 bits of bytes 1-3, length: byte 4, 0 means 256 (READ(6), WRITE(6))
  lba10,         // LBA: bytes 2-5, length: bytes 7-8
  lba12,         // LBA: bytes 2-5, length: bytes 6-9
  lba16,         // LBA: bytes 2-9, length: bytes 10-13
};

struct Cdb {
  uint64_t lba = 0;
  uint64_t length = 0;
  uint8_t flags = 0;       // byte 1 (in the 6-byte forms of READ and WRITE it is part of the LBA, and this is 0)
  uint8_t control = 0;     // last byte
  uint8_t control_at = 0;  // its position, for field pointers
  const uint8_t* bytes = nullptr;  // the CDB itself, for single-byte fields of rare commands

  bool flag(uint8_t mask) const { return (flags & mask) != 0; }
};

inline constexpr uint8_t kDpo = 0x10;  // byte 1 of READ and WRITE
inline constexpr uint8_t kFua = 0x08;
inline constexpr uint8_t kProtect = 0xe0;
inline constexpr uint8_t kNaca = 0x04;  // control byte

constexpr uint8_t cdb_length(CdbFormat format) {
  switch (format) {
    case CdbFormat::plain6:
    case CdbFormat::length6:
    case CdbFormat::length6_wide:
    case CdbFormat::lba6:
      return 6;
    case CdbFormat::plain10:
    case CdbFormat::length10:
    case CdbFormat::lba10:
      return 10;
    case CdbFormat::length12:
    case CdbFormat::lba12:
      return 12;
    case CdbFormat::lba16:
      return 16;
  }
  return 16;
}

Cdb decode_cdb(const std::array<uint8_t, 16>& bytes, CdbFormat format);

}  // namespace zvolt::scsi
