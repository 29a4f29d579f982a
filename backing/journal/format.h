// The journal's format on the log device: every byte of it. Encoding and decoding only, no I/O; used by commit, replay,
// inspect and the fuzzer. Pure functions, any thread. DO NOT CHANGE ANY NUMBER HERE: they are on disks. A change of
// meaning is a new format version.
//
// All integers are little endian. A *sector* is the unit in which the log is written: 512 or 4096 bytes, fixed when the
// journal is made. "CRC" is CRC32C (crc32c.h).
//
// The device
//   byte 0        superblock slot 0   \ each 512 bytes, alone in a 64 KiB area (never one sector, one flash page or one
//   byte 65536    superblock slot 1   / erase block together); the rest of the areas is zeros and not looked at
//   byte 131072   the ring, ring_bytes long (a multiple of the sector)
//
// Superblock (512 bytes). Generation g stands in slot g % 2, so the last good one is never written over.
//   0   8  magic "ZVOLTJSB"
//   8   4  CRC of these 512 bytes with this field zero
//   12  4  format version: 1
//   16  16 journal UUID
//   32  8  generation, 1 or more
//   40  8  epoch: raised, in both slots, by each opening of the journal for writing, before its first group
//   48  8  first sequence of that epoch
//   56  8  ring_bytes
//   64  4  sector bytes: 512 or 4096
//   68  4  flags: bit 0 closed cleanly (nothing of the ring is needed); others zero
//   72  8  tail: sequence of the first record of the tail group
//   80  8  tail: position of the tail group
//   88  4  tail: chain value that the tail group must have
//   92  4  zero
//   96  8  watermark: every record up to this sequence was durable when the superblock was written (0: none yet)
//   104 8  span: groups stand in [tail position, tail position + span), nowhere else. At most ring_bytes
//   112    zeros to 512
// Whatever lies before the tail is in the stores, flushed. The tail group is the first one that replay looks at.
//
// Positions count bytes written to the ring since the journal was made and never go down; position p is byte
// 131072 + p % ring_bytes of the device. A group may run over the end of the ring into its beginning.
//
// Commit group: one header block of whole sectors, then the payloads of its records in their order, each padded with
// zeros to whole sectors. Sequences of records are consecutive within a group and from group to group.
//   0   8  magic "ZVOLTJGR"
//   8   4  CRC of the whole header block, record descriptors and padding included, with this field zero
//   12  4  header block bytes
//   16  16 journal UUID
//   32  8  epoch in which it was written
//   40  8  sequence of its first record, 1 or more
//   48  8  watermark: every record up to this sequence was durable when the group was written. Always first sequence
//          - 1 today: one group is on its way at a time
//   56  4  number of records, 1 to 510
//   60  4  chain: the CRC field of the group before this one (0 for the first of all)
//   64  8  group bytes: header block and payloads
//   72  8  position of this group: a group of an earlier lap or of a copied ring is not taken for one of now
//   80  16 zeros
//   96     record descriptors, 64 bytes each, then zeros to the end of the block
//
// Record descriptor
//   0   8  sequence
//   8   16 UUID of the LUN
//   24  8  byte offset on the LUN
//   32  8  length in bytes. superseded, barrier: 0
//   40  4  CRC of the payload with its padding, begun with the CRC of the 8 bytes of the epoch. No payload: 0
//   44  1  kind, see RecordKind
//   45  1  flags: bit 0: a copy of an older record that was brought forward; others zero
//   46  2  zero
//   48  16 zero; kept for pointer records
// A write has a payload of its length; every other kind has none.
//
// A group is what its header says only when UUID, sequence, position, chain and epoch are the expected ones and every
// CRC is right; see replay.h for what a wrong one means.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backing/result.h"

namespace zvolt::backing::journal {

using Uuid = std::array<uint8_t, 16>;
std::string uuid_text(const Uuid& uuid);  // "0a1b2c3d-..."

constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kSuperblockBytes = 512;
constexpr uint64_t kSlotStride = 65536;  // bytes from slot 0 to slot 1, and from there to the ring
constexpr uint64_t kRingStart = 2 * kSlotStride;
constexpr uint32_t kSmallSector = 512;
constexpr uint32_t kLargeSector = 4096;
constexpr uint64_t kGroupHeaderBytes = 96;
constexpr uint64_t kDescriptorBytes = 64;
constexpr uint32_t kMostRecords = 510;                // a header block of 32 KiB, and an iov that fits IOV_MAX
constexpr uint64_t kMostPayload = uint64_t{1} << 20;  // bytes of one record: bounds what a reader must believe
constexpr uint64_t kMostGroup = uint64_t{16} << 20;   // bytes of one group, the same

static_assert(kGroupHeaderBytes + kDescriptorBytes <= kSmallSector, "a record alone needs one sector of header");
static_assert(kGroupHeaderBytes + kMostRecords * kDescriptorBytes <= 32768);

enum class RecordKind : uint8_t {
  // 0 is what preallocated space holds: never a kind.
  write = 1,
  write_zeroes = 2,
  discard = 3,     // reads as zeros too; its space need not be kept
  pointer = 4,     // the payload is in the store. Not written, and refused, by this version
  superseded = 5,  // every earlier record of this LUN is void
  barrier = 6,     // nothing; proves that what was before it is durable
};
constexpr uint8_t kForwarded = 1;  // Descriptor::flags

inline bool has_payload(RecordKind kind) {
  return kind == RecordKind::write;
}

struct Tail {
  uint64_t sequence = 1;
  uint64_t position = 0;
  uint32_t chain = 0;
  bool operator==(const Tail&) const = default;
};

struct Superblock {
  Uuid uuid{};
  uint64_t generation = 0;
  uint64_t epoch = 0;
  uint64_t epoch_first_sequence = 1;
  uint64_t ring_bytes = 0;
  uint32_t sector = kLargeSector;
  bool clean = false;
  Tail tail;
  uint64_t watermark = 0;
  uint64_t span = 0;
  bool operator==(const Superblock&) const = default;
};

struct Descriptor {
  uint64_t sequence = 0;
  Uuid lun{};
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t payload_crc = 0;
  RecordKind kind = RecordKind::write;
  uint8_t flags = 0;
  bool operator==(const Descriptor&) const = default;
};

struct GroupHeader {
  uint32_t crc = 0;           // as stored: the chain value of the next group
  uint32_t header_bytes = 0;  // of the header block
  Uuid uuid{};
  uint64_t epoch = 0;
  uint64_t first_sequence = 0;
  uint64_t watermark = 0;
  uint32_t count = 0;
  uint32_t chain = 0;
  uint64_t group_bytes = 0;
  uint64_t position = 0;
  bool operator==(const GroupHeader&) const = default;
};

inline uint64_t padded(uint64_t bytes, uint32_t sector) {
  return (bytes + sector - 1) / sector * sector;
}
// Bytes of the header block of a group of `count` records.
inline uint64_t header_block_bytes(uint32_t count, uint32_t sector) {
  return padded(kGroupHeaderBytes + count * kDescriptorBytes, sector);
}
inline uint64_t payload_bytes(const Descriptor& record, uint32_t sector) {
  return has_payload(record.kind) ? padded(record.length, sector) : 0;
}

// The CRC of a payload with its padding (`data` is whole sectors).
uint32_t payload_crc(uint64_t epoch, const uint8_t* data, size_t padded_bytes);

void encode_superblock(const Superblock& superblock, std::span<uint8_t, kSuperblockBytes> into);
// Nothing in the result is out of bounds for a device of `device_bytes`. The error says what is wrong with the slot.
Result<Superblock> decode_superblock(std::span<const uint8_t> slot, uint64_t device_bytes);

// Fills the whole header block (header_block_bytes long) and header.crc.
void encode_group(GroupHeader& header, std::span<const Descriptor> records, std::span<uint8_t> block);

// The first 96 bytes of a block that may be a group's header: magic and bounds only (nothing is proven before
// decode_group). Nothing: it is not one.
std::optional<GroupHeader> peek_group(std::span<const uint8_t> begin, uint32_t sector, uint64_t ring_bytes);

struct Group {
  GroupHeader header;
  std::vector<Descriptor> records;
};
// A whole header block of peek_group().header_bytes. Checks the CRC and every descriptor: kinds, lengths, sequences,
// that the payloads fill the group exactly.
Result<Group> decode_group(std::span<const uint8_t> block, uint32_t sector, uint64_t ring_bytes);

}  // namespace zvolt::backing::journal
