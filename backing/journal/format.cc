// See format.h.
#include "backing/journal/format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/crc32c.h"

namespace zvolt::backing::journal {

namespace {

constexpr std::array<uint8_t, 8> kSuperblockMagic{'Z', 'V', 'O', 'L', 'T', 'J', 'S', 'B'};
constexpr std::array<uint8_t, 8> kGroupMagic{'Z', 'V', 'O', 'L', 'T', 'J', 'G', 'R'};
constexpr size_t kCrcAt = 8;
constexpr uint32_t kCleanFlag = 1;

template <typename Int>
void put(uint8_t* at, Int value) {
  for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename Int>
Int get(const uint8_t* at) {
  Int value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value = static_cast<Int>(value | Int{at[i]} << (8 * i));
  return value;
}

Uuid get_uuid(const uint8_t* at) {
  Uuid uuid;
  memcpy(uuid.data(), at, uuid.size());
  return uuid;
}

// The CRC of a block whose CRC field counts as zero.
uint32_t block_crc(std::span<const uint8_t> block) {
  constexpr std::array<uint8_t, 4> kZero{};
  uint32_t crc = crc32c(block.data(), kCrcAt);
  crc = crc32c(kZero.data(), kZero.size(), crc);
  return crc32c(block.data() + kCrcAt + 4, block.size() - kCrcAt - 4, crc);
}

bool has_magic(std::span<const uint8_t> block, const std::array<uint8_t, 8>& magic) {
  return block.size() >= magic.size() && memcmp(block.data(), magic.data(), magic.size()) == 0;
}

Error broken(std::string what) {
  return Error{EBADMSG, std::move(what)};
}

void put_descriptor(uint8_t* at, const Descriptor& record) {
  put(at, record.sequence);
  memcpy(at + 8, record.lun.data(), record.lun.size());
  put(at + 24, record.offset);
  put(at + 32, record.length);
  put(at + 40, record.payload_crc);
  at[44] = static_cast<uint8_t>(record.kind);
  at[45] = record.flags;
}

Descriptor get_descriptor(const uint8_t* at) {
  Descriptor record;
  record.sequence = get<uint64_t>(at);
  record.lun = get_uuid(at + 8);
  record.offset = get<uint64_t>(at + 24);
  record.length = get<uint64_t>(at + 32);
  record.payload_crc = get<uint32_t>(at + 40);
  record.kind = static_cast<RecordKind>(at[44]);
  record.flags = at[45];
  return record;
}

// What is wrong with a descriptor, or null.
const char* descriptor_fault(const Descriptor& record) {
  const bool ranged =
      record.kind == RecordKind::write || record.kind == RecordKind::write_zeroes || record.kind == RecordKind::discard;
  if (record.kind == RecordKind::pointer) return "pointer records are not known to this version";
  if (!ranged && record.kind != RecordKind::superseded && record.kind != RecordKind::barrier) return "unknown kind";
  if (!ranged && (record.length != 0 || record.offset != 0)) return "a record without a range has one";
  if (ranged && record.length == 0) return "an empty range";
  if (record.length > UINT64_MAX - record.offset) return "a range beyond all devices";
  if (has_payload(record.kind) && record.length > kMostPayload) return "a payload that is too long";
  if ((record.flags & ~kForwarded) != 0) return "unknown flags";
  return nullptr;
}

}  // namespace

std::string uuid_text(const Uuid& uuid) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[uuid[i] >> 4];
    text += kHex[uuid[i] & 15];
  }
  return text;
}

uint32_t payload_crc(uint64_t epoch, const uint8_t* data, size_t padded_bytes) {
  std::array<uint8_t, 8> seed;
  put(seed.data(), epoch);
  return crc32c(data, padded_bytes, crc32c(seed.data(), seed.size()));
}

void encode_superblock(const Superblock& s, std::span<uint8_t, kSuperblockBytes> into) {
  std::fill(into.begin(), into.end(), uint8_t{0});
  uint8_t* at = into.data();
  memcpy(at, kSuperblockMagic.data(), kSuperblockMagic.size());
  put(at + 12, kFormatVersion);
  memcpy(at + 16, s.uuid.data(), s.uuid.size());
  put(at + 32, s.generation);
  put(at + 40, s.epoch);
  put(at + 48, s.epoch_first_sequence);
  put(at + 56, s.ring_bytes);
  put(at + 64, s.sector);
  put(at + 68, s.clean ? kCleanFlag : uint32_t{0});
  put(at + 72, s.tail.sequence);
  put(at + 80, s.tail.position);
  put(at + 88, s.tail.chain);
  put(at + 96, s.watermark);
  put(at + 104, s.span);
  put(at + kCrcAt, block_crc(into));
}

Result<Superblock> decode_superblock(std::span<const uint8_t> slot, uint64_t device_bytes) {
  if (slot.size() < kSuperblockBytes) return broken("too short");
  slot = slot.first(kSuperblockBytes);
  const uint8_t* at = slot.data();
  if (!has_magic(slot, kSuperblockMagic)) return broken("not a zvolt journal superblock");
  if (get<uint32_t>(at + kCrcAt) != block_crc(slot)) return broken("wrong checksum");
  const auto version = get<uint32_t>(at + 12);
  if (version != kFormatVersion) return broken("format version " + std::to_string(version) + " is not known");
  Superblock s;
  s.uuid = get_uuid(at + 16);
  s.generation = get<uint64_t>(at + 32);
  s.epoch = get<uint64_t>(at + 40);
  s.epoch_first_sequence = get<uint64_t>(at + 48);
  s.ring_bytes = get<uint64_t>(at + 56);
  s.sector = get<uint32_t>(at + 64);
  const auto flags = get<uint32_t>(at + 68);
  s.clean = (flags & kCleanFlag) != 0;
  s.tail = {get<uint64_t>(at + 72), get<uint64_t>(at + 80), get<uint32_t>(at + 88)};
  s.watermark = get<uint64_t>(at + 96);
  s.span = get<uint64_t>(at + 104);
  if ((flags & ~kCleanFlag) != 0) return broken("unknown flags");
  if (s.sector != kSmallSector && s.sector != kLargeSector) return broken("sector size");
  if (s.generation == 0 || s.tail.sequence == 0 || s.epoch_first_sequence == 0) return broken("a number is zero");
  if (s.ring_bytes == 0 || s.ring_bytes % s.sector != 0) return broken("ring size");
  if (device_bytes < kRingStart || s.ring_bytes > device_bytes - kRingStart) {
    return broken("the ring is longer than the device (" + std::to_string(device_bytes) + " bytes): was it shortened?");
  }
  if (s.span > s.ring_bytes) return broken("span");
  if (s.tail.position % s.sector != 0 || s.tail.position > UINT64_MAX / 2) return broken("tail position");
  if (s.tail.sequence > UINT64_MAX / 2 || s.watermark > UINT64_MAX / 2) return broken("sequence");
  return s;
}

void encode_group(GroupHeader& header, std::span<const Descriptor> records, std::span<uint8_t> block) {
  std::fill(block.begin(), block.end(), uint8_t{0});
  uint8_t* at = block.data();
  memcpy(at, kGroupMagic.data(), kGroupMagic.size());
  put(at + 12, header.header_bytes);
  memcpy(at + 16, header.uuid.data(), header.uuid.size());
  put(at + 32, header.epoch);
  put(at + 40, header.first_sequence);
  put(at + 48, header.watermark);
  put(at + 56, header.count);
  put(at + 60, header.chain);
  put(at + 64, header.group_bytes);
  put(at + 72, header.position);
  for (size_t i = 0; i < records.size(); ++i) {
    put_descriptor(at + kGroupHeaderBytes + i * kDescriptorBytes, records[i]);
  }
  header.crc = block_crc(block);
  put(at + kCrcAt, header.crc);
}

std::optional<GroupHeader> peek_group(std::span<const uint8_t> begin, uint32_t sector, uint64_t ring_bytes) {
  if (begin.size() < kGroupHeaderBytes || !has_magic(begin, kGroupMagic)) return std::nullopt;
  const uint8_t* at = begin.data();
  GroupHeader h;
  h.crc = get<uint32_t>(at + kCrcAt);
  h.header_bytes = get<uint32_t>(at + 12);
  h.uuid = get_uuid(at + 16);
  h.epoch = get<uint64_t>(at + 32);
  h.first_sequence = get<uint64_t>(at + 40);
  h.watermark = get<uint64_t>(at + 48);
  h.count = get<uint32_t>(at + 56);
  h.chain = get<uint32_t>(at + 60);
  h.group_bytes = get<uint64_t>(at + 64);
  h.position = get<uint64_t>(at + 72);
  if (h.count == 0 || h.count > kMostRecords) return std::nullopt;
  if (h.header_bytes != header_block_bytes(h.count, sector)) return std::nullopt;
  if (h.first_sequence == 0 || h.first_sequence > UINT64_MAX / 2) return std::nullopt;
  if (h.group_bytes % sector != 0 || h.group_bytes < h.header_bytes) return std::nullopt;
  if (h.group_bytes > std::min(kMostGroup, ring_bytes)) return std::nullopt;
  if (h.position % sector != 0 || h.position > UINT64_MAX / 2) return std::nullopt;
  return h;
}

Result<Group> decode_group(std::span<const uint8_t> block, uint32_t sector, uint64_t ring_bytes) {
  const std::optional<GroupHeader> header = peek_group(block, sector, ring_bytes);
  if (!header) return broken("not a group header");
  if (block.size() < header->header_bytes) return broken("a header block cut short");
  block = block.first(header->header_bytes);
  if (header->crc != block_crc(block)) return broken("wrong header checksum");
  Group group{*header, {}};
  group.records.reserve(header->count);
  uint64_t bytes = header->header_bytes;
  for (uint32_t i = 0; i < header->count; ++i) {
    const Descriptor record = get_descriptor(block.data() + kGroupHeaderBytes + i * kDescriptorBytes);
    if (const char* fault = descriptor_fault(record)) return broken(fault);
    if (record.sequence != header->first_sequence + i) return broken("records out of sequence");
    bytes += payload_bytes(record, sector);
    group.records.push_back(record);
  }
  if (bytes != header->group_bytes) return broken("payloads do not fill the group");
  return group;
}

}  // namespace zvolt::backing::journal
