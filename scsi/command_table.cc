// See command_table.h.
#include "scsi/command_table.h"

#include <iterator>

#include "scsi/handlers.h"

namespace zvolt::scsi {

namespace {

using Usage = std::array<uint8_t, 16>;

// Usage data, SPC-4 6.35.3: a set bit is looked at. The last byte is CONTROL, of which NACA is.
constexpr uint8_t kReadWriteFlags = kProtect | kDpo | kFua;
constexpr Usage usage6(uint8_t opcode, uint8_t b1, uint8_t b2, uint8_t b3, uint8_t b4) {
  return {opcode, b1, b2, b3, b4, kNaca};
}
constexpr Usage usage_lba10(uint8_t opcode, uint8_t b1) {
  return {opcode, b1, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, kNaca};
}
constexpr Usage usage_lba12(uint8_t opcode, uint8_t b1) {
  return {opcode, b1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, kNaca};
}
constexpr Usage usage_lba16(uint8_t opcode, uint8_t b1) {
  return {opcode, b1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, kNaca};
}

using enum CdbFormat;
constexpr int16_t kNone = kNoServiceAction;
constexpr uint8_t kAttach = kBypassesAttention | kWithoutMedium;
constexpr OpClass kRead = OpClass::read, kWrite = OpClass::write, kFlush = OpClass::flush, kOther = OpClass::other;

// Ascending by operation code and service action: the index below and the all-commands report count on it.
constexpr CommandEntry kTable[] = {
    // TEST UNIT READY
    {0x00, kNone, plain6, kOther, kNoFlags, test_unit_ready, nullptr, usage6(0x00, 0, 0, 0, 0)},
    // REQUEST SENSE
    {0x03, kNone, length6, kOther, kAttach, request_sense, nullptr, usage6(0x03, 0x01, 0, 0, 0xff)},
    // READ(6), WRITE(6)
    {0x08, kNone, lba6, kRead, kNoFlags, read_media, nullptr, usage6(0x08, 0x1f, 0xff, 0xff, 0xff)},
    {0x0a, kNone, lba6, kWrite, kWrites, write_media, nullptr, usage6(0x0a, 0x1f, 0xff, 0xff, 0xff)},
    // INQUIRY
    {0x12, kNone, length6_wide, kOther, kAttach, inquiry, nullptr, usage6(0x12, 0x03, 0xff, 0xff, 0xff)},
    // MODE SENSE(6)
    {0x1a, kNone, length6, kOther, kWithoutMedium, mode_sense_6, nullptr, usage6(0x1a, 0x08, 0xff, 0xff, 0xff)},
    // START STOP UNIT
    {0x1b, kNone, plain6, kOther, kNoFlags, start_stop_unit, nullptr, usage6(0x1b, 0, 0, 0, 0xf5)},
    // READ CAPACITY(10)
    {0x25, kNone, plain10, kOther, kNoFlags, read_capacity_10, nullptr, {0x25, 0, 0, 0, 0, 0, 0, 0, 0, kNaca}},
    // READ(10), WRITE(10), VERIFY(10)
    {0x28, kNone, lba10, kRead, kNoFlags, read_media, nullptr, usage_lba10(0x28, kReadWriteFlags)},
    {0x2a, kNone, lba10, kWrite, kWrites, write_media, nullptr, usage_lba10(0x2a, kReadWriteFlags)},
    {0x2f, kNone, lba10, kRead, kNoFlags, verify_medium, verify_pattern, usage_lba10(0x2f, kProtect | kDpo | 0x06)},
    // SYNCHRONIZE CACHE(10)
    {0x35, kNone, lba10, kFlush, kNoFlags, synchronize_cache, nullptr, usage_lba10(0x35, 0x02)},
    // WRITE SAME(10)
    {0x41, kNone, lba10, kWrite, kWrites, write_same, write_same_data, usage_lba10(0x41, kProtect | 0x1e)},
    // UNMAP
    {0x42,
     kNone,
     length10,
     OpClass::unmap,
     kWrites | kNeedsUnmap,
     unmap,
     unmap_list,
     {0x42, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, kNaca}},
    // MODE SENSE(10)
    {0x5a,
     kNone,
     length10,
     kOther,
     kWithoutMedium,
     mode_sense_10,
     nullptr,
     {0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, kNaca}},
    // READ(16), WRITE(16), VERIFY(16)
    {0x88, kNone, lba16, kRead, kNoFlags, read_media, nullptr, usage_lba16(0x88, kReadWriteFlags)},
    {0x8a, kNone, lba16, kWrite, kWrites, write_media, nullptr, usage_lba16(0x8a, kReadWriteFlags)},
    {0x8f, kNone, lba16, kRead, kNoFlags, verify_medium, verify_pattern, usage_lba16(0x8f, kProtect | kDpo | 0x06)},
    // SYNCHRONIZE CACHE(16)
    {0x91, kNone, lba16, kFlush, kNoFlags, synchronize_cache, nullptr, usage_lba16(0x91, 0x02)},
    // WRITE SAME(16)
    {0x93, kNone, lba16, kWrite, kWrites, write_same, write_same_data, usage_lba16(0x93, kProtect | 0x1f)},
    // SERVICE ACTION IN(16): READ CAPACITY(16)
    {0x9e,
     0x10,
     lba16,
     kOther,
     kNoFlags,
     read_capacity_16,
     nullptr,
     {0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, kNaca}},
    // SERVICE ACTION IN(16): GET LBA STATUS
    {0x9e, 0x12, lba16, kOther, kNoFlags, get_lba_status, nullptr, usage_lba16(0x9e, 0x1f)},
    // REPORT LUNS
    {0xa0,
     kNone,
     length12,
     kOther,
     kAttach,
     report_luns,
     nullptr,
     {0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, kNaca}},
    // MAINTENANCE IN: REPORT SUPPORTED OPERATION CODES
    {0xa3,
     0x0c,
     length12,
     kOther,
     kWithoutMedium,
     report_supported_operation_codes,
     nullptr,
     {0xa3, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, kNaca}},
    // READ(12), WRITE(12), VERIFY(12)
    {0xa8, kNone, lba12, kRead, kNoFlags, read_media, nullptr, usage_lba12(0xa8, kReadWriteFlags)},
    {0xaa, kNone, lba12, kWrite, kWrites, write_media, nullptr, usage_lba12(0xaa, kReadWriteFlags)},
    {0xaf, kNone, lba12, kRead, kNoFlags, verify_medium, verify_pattern, usage_lba12(0xaf, kProtect | kDpo | 0x06)},
};

constexpr uint8_t kAbsent = 0xff;
constexpr size_t kRows = std::size(kTable);
static_assert(kRows < kAbsent);

constexpr bool ascending() {
  for (size_t i = 1; i < kRows; ++i) {
    const CommandEntry &a = kTable[i - 1], &b = kTable[i];
    if (a.opcode > b.opcode || (a.opcode == b.opcode && a.service_action >= b.service_action)) return false;
  }
  return true;
}
static_assert(ascending());

// The first row of every operation code.
constexpr std::array<uint8_t, 256> kFirstRow = [] {
  std::array<uint8_t, 256> first{};
  first.fill(kAbsent);
  for (size_t i = kRows; i-- > 0;) first[kTable[i].opcode] = static_cast<uint8_t>(i);
  return first;
}();

Found available(const CommandEntry& entry, bool unmap) {
  if (entry.has(kNeedsUnmap) && !unmap) return {Lookup::no_opcode, nullptr};
  return {Lookup::found, &entry};
}

}  // namespace

Found find_command(uint8_t opcode, uint8_t byte1, bool unmap) {
  const uint8_t first = kFirstRow[opcode];
  if (first == kAbsent) return {Lookup::no_opcode, nullptr};
  if (kTable[first].service_action == kNoServiceAction) [[likely]] {
    return available(kTable[first], unmap);
  }
  for (size_t row = first; row < kRows && kTable[row].opcode == opcode; ++row) {
    if (kTable[row].service_action == (byte1 & 0x1f)) return available(kTable[row], unmap);
  }
  return {Lookup::no_service_action, nullptr};
}

std::span<const CommandEntry> all_commands() {
  return kTable;
}

}  // namespace zvolt::scsi
