// Command descriptor blocks as tests send them, and test data that tells where it belongs. Pure functions. SBC-4,
// SPC-5.
#pragma once

#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zvolt::test {

using Bytes = std::vector<uint8_t>;
using Cdb = std::vector<uint8_t>;

inline void put16(uint8_t* at, uint16_t value) {
  boost::endian::store_big_u16(at, value);
}
inline void put32(uint8_t* at, uint32_t value) {
  boost::endian::store_big_u32(at, value);
}
inline void put64(uint8_t* at, uint64_t value) {
  boost::endian::store_big_u64(at, value);
}
inline uint16_t get16(const uint8_t* at) {
  return boost::endian::load_big_u16(at);
}
inline uint32_t get32(const uint8_t* at) {
  return boost::endian::load_big_u32(at);
}
inline uint64_t get64(const uint8_t* at) {
  return boost::endian::load_big_u64(at);
}

inline constexpr uint8_t kFua = 0x08;        // byte 1 of READ and WRITE (10) and longer
inline constexpr uint8_t kBytchk = 0x02;     // byte 1 of VERIFY: compare with the data sent
inline constexpr uint8_t kUnmapBit = 0x08;   // byte 1 of WRITE SAME
inline constexpr uint8_t kNoDataOut = 0x01;  // byte 1 of WRITE SAME(16)

inline Cdb cdb6(uint8_t opcode, uint32_t lba = 0, uint8_t length = 0) {
  return {
      opcode, static_cast<uint8_t>(lba >> 16 & 0x1f), static_cast<uint8_t>(lba >> 8), static_cast<uint8_t>(lba), length,
      0};
}

inline Cdb cdb10(uint8_t opcode, uint32_t lba, uint16_t blocks, uint8_t flags = 0) {
  Cdb cdb(10);
  cdb[0] = opcode;
  cdb[1] = flags;
  put32(&cdb[2], lba);
  put16(&cdb[7], blocks);
  return cdb;
}

inline Cdb cdb12(uint8_t opcode, uint32_t lba, uint32_t blocks, uint8_t flags = 0) {
  Cdb cdb(12);
  cdb[0] = opcode;
  cdb[1] = flags;
  put32(&cdb[2], lba);
  put32(&cdb[6], blocks);
  return cdb;
}

inline Cdb cdb16(uint8_t opcode, uint64_t lba, uint32_t blocks, uint8_t flags = 0) {
  Cdb cdb(16);
  cdb[0] = opcode;
  cdb[1] = flags;
  put64(&cdb[2], lba);
  put32(&cdb[10], blocks);
  return cdb;
}

inline Cdb test_unit_ready() {
  return cdb6(0x00);
}
inline Cdb request_sense(uint8_t length) {
  return cdb6(0x03, 0, length);
}
inline Cdb inquiry(uint16_t length, bool evpd = false, uint8_t page = 0) {
  return {0x12, static_cast<uint8_t>(evpd), page, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length), 0};
}
inline Cdb mode_sense6(uint8_t page, uint8_t length) {
  return {0x1a, 0, page, 0, length, 0};
}
inline Cdb read_capacity10() {
  return cdb10(0x25, 0, 0);
}
inline Cdb read_capacity16(uint32_t length = 32) {
  return cdb16(0x9e, 0, length, 0x10);
}
inline Cdb report_luns(uint32_t length) {
  return cdb12(0xa0, 0, length);
}
inline Cdb read6(uint32_t lba, uint8_t blocks) {
  return cdb6(0x08, lba, blocks);
}
inline Cdb write6(uint32_t lba, uint8_t blocks) {
  return cdb6(0x0a, lba, blocks);
}
inline Cdb read10(uint32_t lba, uint16_t blocks, uint8_t flags = 0) {
  return cdb10(0x28, lba, blocks, flags);
}
inline Cdb write10(uint32_t lba, uint16_t blocks, uint8_t flags = 0) {
  return cdb10(0x2a, lba, blocks, flags);
}
inline Cdb read12(uint32_t lba, uint32_t blocks, uint8_t flags = 0) {
  return cdb12(0xa8, lba, blocks, flags);
}
inline Cdb write12(uint32_t lba, uint32_t blocks, uint8_t flags = 0) {
  return cdb12(0xaa, lba, blocks, flags);
}
inline Cdb read16(uint64_t lba, uint32_t blocks, uint8_t flags = 0) {
  return cdb16(0x88, lba, blocks, flags);
}
inline Cdb write16(uint64_t lba, uint32_t blocks, uint8_t flags = 0) {
  return cdb16(0x8a, lba, blocks, flags);
}
inline Cdb verify10(uint32_t lba, uint16_t blocks, uint8_t flags) {
  return cdb10(0x2f, lba, blocks, flags);
}
inline Cdb verify16(uint64_t lba, uint32_t blocks, uint8_t flags) {
  return cdb16(0x8f, lba, blocks, flags);
}
inline Cdb write_same16(uint64_t lba, uint32_t blocks, uint8_t flags) {
  return cdb16(0x93, lba, blocks, flags);
}
inline Cdb synchronize_cache10() {
  return cdb10(0x35, 0, 0);
}
inline Cdb synchronize_cache16() {
  return cdb16(0x91, 0, 0);
}
inline Cdb unmap(uint16_t list_length) {
  return cdb10(0x42, 0, list_length);
}

// Parameter list of UNMAP with one descriptor.
inline Bytes unmap_list(uint64_t lba, uint32_t blocks) {
  Bytes list(24);
  put16(&list[0], 22);
  put16(&list[2], 16);
  put64(&list[8], lba);
  put32(&list[16], blocks);
  return list;
}

// Bytes that depend on their place and on a seed, so that a shifted, repeated or stale stretch does not pass for the
// right one: every 8 bytes hold a hash of (seed, number of the 8 bytes).
inline Bytes pattern(size_t bytes, uint64_t seed) {
  Bytes data((bytes + 7) / 8 * 8);
  for (size_t i = 0; i < data.size() / 8; ++i) {
    uint64_t x = (seed << 32 ^ i) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    put64(&data[i * 8], x * 0xbf58476d1ce4e5b9u);
  }
  data.resize(bytes);
  return data;
}

// KEY/ASC/ASCQ in hex as the standards' tables are read: "05/21/00"; "" for none.
inline std::string sense_text(uint8_t key, uint8_t asc, uint8_t ascq) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t part : {key, asc, ascq}) {
    if (!text.empty()) text += '/';
    text += digits[part >> 4];
    text += digits[part & 15];
  }
  return text;
}

// Of sense data in fixed (70h) or descriptor (72h) form.
inline std::string sense_text(std::span<const uint8_t> sense) {
  if (sense.size() >= 14 && (sense[0] & 0x7e) == 0x70) return sense_text(sense[2] & 0x0f, sense[12], sense[13]);
  if (sense.size() >= 8 && (sense[0] & 0x7e) == 0x72) return sense_text(sense[1] & 0x0f, sense[2], sense[3]);
  return "";
}

}  // namespace zvolt::test
