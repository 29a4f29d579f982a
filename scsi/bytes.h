// Big-endian fields of CDBs, parameter lists and pages, by offset: SCSI puts them at odd places, so that loads go byte
// by byte (the compiler makes one bswap of them). The caller has checked that the bytes are there. No state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zvolt::scsi {

template <size_t kBytes>
constexpr uint64_t get_be(const uint8_t* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < kBytes; ++i) value = (value << 8) | from[i];
  return value;
}
constexpr uint16_t get16(const uint8_t* from) {
  return static_cast<uint16_t>(get_be<2>(from));
}
constexpr uint32_t get24(const uint8_t* from) {
  return static_cast<uint32_t>(get_be<3>(from));
}
constexpr uint32_t get32(const uint8_t* from) {
  return static_cast<uint32_t>(get_be<4>(from));
}
constexpr uint64_t get64(const uint8_t* from) {
  return get_be<8>(from);
}

template <size_t kBytes>
constexpr void put_be(uint8_t* to, uint64_t value) {
  for (size_t i = kBytes; i-- > 0; value >>= 8) to[i] = static_cast<uint8_t>(value);
}
constexpr void put16(uint8_t* to, uint64_t value) {
  put_be<2>(to, value);
}
constexpr void put24(uint8_t* to, uint64_t value) {
  put_be<3>(to, value);
}
constexpr void put32(uint8_t* to, uint64_t value) {
  put_be<4>(to, value);
}
constexpr void put64(uint8_t* to, uint64_t value) {
  put_be<8>(to, value);
}

}  // namespace zvolt::scsi
