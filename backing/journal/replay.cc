// See replay.h.
#include "backing/journal/replay.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "backing/aligned_buffer.h"

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes looked through at a time

class Reader {
 public:
  Reader(BlockStore& log, const Superblock& superblock, Blocking& io)
      : log_(log), sb_(superblock), io_(io), end_(superblock.tail.position + superblock.span) {}

  Result<RingEnd> read(const OnGroup& on_group);

 private:
  struct Found {
    Group group;
    uint64_t position = 0;
  };

  bool fetch(uint64_t position, uint64_t bytes);
  bool whole(const Tail& at, std::optional<Group>& group, std::string& fault);
  std::string fault_of(const Group& group, const Tail& at) const;
  std::string payload_fault(const Group& group) const;
  bool remains(const Tail& at);
  std::optional<Found> later_than(const Tail& at);
  std::optional<Found> later_in(uint64_t position, uint64_t bytes, uint64_t sequence);
  Error corrupt(const Tail& at, const std::string& fault, const std::optional<Found>& later) const;
  Error unreadable() const {
    return Error{error_, "cannot read the journal " + log_.describe() + ": " + strerror(error_)};
  }

  BlockStore& log_;
  const Superblock& sb_;
  Blocking& io_;
  const uint64_t end_;  // no group reaches beyond this position
  uint64_t last_epoch_ = 0;
  AlignedBuffer memory_;
  uint64_t capacity_ = 0;
  int error_ = 0;
};

// `bytes` from a position of the ring into memory_. False: error_.
bool Reader::fetch(uint64_t position, uint64_t bytes) {
  if (bytes > capacity_) {
    memory_ = make_aligned(bytes);
    capacity_ = memory_ == nullptr ? 0 : bytes;
    if (memory_ == nullptr) error_ = ENOMEM;
    if (memory_ == nullptr) return false;
  }
  const uint64_t at = position % sb_.ring_bytes;
  const uint64_t first = std::min(bytes, sb_.ring_bytes - at);
  error_ = io_.read(log_, kRingStart + at, memory_.get(), first);
  if (error_ == 0 && first < bytes) error_ = io_.read(log_, kRingStart, memory_.get() + first, bytes - first);
  return error_ == 0;
}

// A group in its place? Leaves it in memory_. False: an I/O error.
bool Reader::whole(const Tail& at, std::optional<Group>& group, std::string& fault) {
  group.reset();
  if (!fetch(at.position, sb_.sector)) return false;
  const auto header = peek_group({memory_.get(), sb_.sector}, sb_.sector, sb_.ring_bytes);
  if (!header || header->group_bytes > end_ - at.position) {
    fault = "no group header";
    return true;
  }
  if (!fetch(at.position, header->group_bytes)) return false;
  auto decoded = decode_group({memory_.get(), header->header_bytes}, sb_.sector, sb_.ring_bytes);
  fault = decoded ? fault_of(*decoded, at) : decoded.error().message;
  if (fault.empty()) fault = payload_fault(*decoded);
  if (fault.empty()) group = std::move(*decoded);
  return true;
}

std::string Reader::fault_of(const Group& group, const Tail& at) const {
  const GroupHeader& header = group.header;
  if (header.uuid != sb_.uuid) return "a group of another journal";
  if (header.first_sequence != at.sequence) return "another sequence";
  if (header.position != at.position) return "a group of another lap";
  if (header.chain != at.chain) return "it does not follow the group before it";
  if (header.watermark >= header.first_sequence) return "a watermark above itself";
  // Records of this epoch begin at a known sequence; before it, epochs only rise.
  if (at.sequence >= sb_.epoch_first_sequence ? header.epoch != sb_.epoch
                                              : header.epoch >= sb_.epoch || header.epoch < last_epoch_) {
    return "a group of another epoch";
  }
  return {};
}

std::string Reader::payload_fault(const Group& group) const {
  const uint8_t* data = memory_.get() + group.header.header_bytes;
  for (const Descriptor& record : group.records) {
    const uint64_t bytes = payload_bytes(record, sb_.sector);
    if (bytes != 0 && payload_crc(group.header.epoch, data, bytes) != record.payload_crc) return "wrong data checksum";
    data += bytes;
  }
  return {};
}

// Is there anything of a group that was meant to be here? One wrong bit leaves two of three marks.
bool Reader::remains(const Tail& at) {
  if (end_ - at.position < sb_.sector || !fetch(at.position, sb_.sector)) return false;
  const auto field = [&](size_t offset) {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i) value |= uint64_t{memory_[offset + i]} << (8 * i);
    return value;
  };
  const int marks = (memcmp(memory_.get() + 16, sb_.uuid.data(), sb_.uuid.size()) == 0 ? 1 : 0) +
                    (field(40) == at.sequence ? 1 : 0) + (field(72) == at.position ? 1 : 0);
  return marks >= 2;
}

// A group that was written after the one that should stand at `at` was durable.
std::optional<Reader::Found> Reader::later_than(const Tail& at) {
  for (uint64_t position = at.position; position < end_;) {
    const uint64_t bytes = std::min(kWindow, end_ - position);
    auto found = later_in(position, bytes, at.sequence);
    if (error_ != 0 || found) return found;
    // Header blocks may run over a window's end: the next begins a block's length before it.
    constexpr uint64_t kOverlap = 32768;
    position += bytes == kWindow ? bytes - kOverlap : bytes;
  }
  return std::nullopt;
}

std::optional<Reader::Found> Reader::later_in(uint64_t position, uint64_t bytes, uint64_t sequence) {
  if (!fetch(position, bytes)) return std::nullopt;
  for (uint64_t i = 0; i + sb_.sector <= bytes; i += sb_.sector) {
    const std::span<const uint8_t> block(memory_.get() + i, bytes - i);
    const auto header = peek_group(block, sb_.sector, sb_.ring_bytes);
    if (!header || header->uuid != sb_.uuid || header->position != position + i) continue;
    if (header->first_sequence <= sequence && header->epoch <= sb_.epoch) continue;
    if (auto group = decode_group(block, sb_.sector, sb_.ring_bytes)) return Found{std::move(*group), position + i};
  }
  return std::nullopt;
}

Error Reader::corrupt(const Tail& at, const std::string& fault, const std::optional<Found>& later) const {
  const uint64_t known = std::max(sb_.watermark, later ? later->group.header.first_sequence - 1 : 0);
  std::string text = "the journal " + log_.describe() + " is damaged at ring byte " +
                     std::to_string(at.position % sb_.ring_bytes) + " (" + fault + "): records " +
                     std::to_string(at.sequence) + " to " + std::to_string(known) +
                     " were durable and are lost, and what follows them must not be replayed";
  return Error{EBADMSG, std::move(text)};
}

Result<RingEnd> Reader::read(const OnGroup& on_group) {
  RingEnd end;
  Tail at = sb_.tail;
  std::string fault = "the ring ends";
  while (end_ - at.position >= sb_.sector) {
    std::optional<Group> group;
    if (!whole(at, group, fault)) return unreadable();
    if (!group) break;
    const GroupHeader& header = group->header;
    const GroupSpan span{header.first_sequence, header.first_sequence + header.count - 1,
                         at.position,           header.group_bytes,
                         header.chain,          header.crc};
    on_group(*group, {memory_.get() + header.header_bytes, header.group_bytes - header.header_bytes}, span);
    last_epoch_ = header.epoch;
    at = {span.last_sequence + 1, span.position + span.bytes, span.crc};
    ++end.groups;
    fault = "the ring ends";
  }
  if (at.sequence <= sb_.watermark) return corrupt(at, fault, std::nullopt);
  const auto later = later_than(at);
  if (error_ != 0) return unreadable();
  if (later) return corrupt(at, fault, later);
  end.head = at;
  end.torn = remains(at);
  if (error_ != 0) return unreadable();
  if (end.torn) {
    end.torn_text = "the last group of the journal, from record " + std::to_string(at.sequence) +
                    " on, is incomplete and was dropped (" + fault + "): nothing of it was acknowledged";
  }
  return end;
}

}  // namespace

Result<RingEnd> read_ring(BlockStore& log, const Superblock& superblock, Blocking& io, const OnGroup& on_group) {
  return Reader(log, superblock, io).read(on_group);
}

}  // namespace zvolt::backing::journal
