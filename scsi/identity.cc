// See identity.h.
#include "scsi/identity.h"

#include "scsi/bytes.h"

namespace zvolt::scsi {

namespace {

// The finalizer of SplitMix64: every input bit changes half of the output bits, so UUIDs that were pinned by hand and
// differ in their last digit only still differ in the first characters.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t hash(const Uuid& uuid) {
  return mix(mix(get64(uuid.data()) + 0x9e3779b97f4a7c15ULL) ^ get64(uuid.data() + 8));
}

std::string hex(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace

std::string unit_serial(const Uuid& uuid) {
  return hex(uuid.data(), uuid.size());
}

uint64_t unit_naa(const Uuid& uuid) {
  return (uint64_t{3} << 60) | (hash(uuid) >> 4);
}

std::string unit_t10_suffix(const Uuid& uuid) {
  uint8_t bytes[8];
  put64(bytes, hash(uuid));
  return hex(bytes, sizeof bytes);
}

}  // namespace zvolt::scsi
