// UNMAP: the parameter list is checked whole before anything is unmapped. SBC-3 5.28.
#include <vector>

#include "scsi/bytes.h"
#include "scsi/erase.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"
#include "scsi/media.h"

namespace zvolt::scsi {

namespace {

constexpr size_t kHeaderSize = 8;
constexpr size_t kDescriptorSize = 16;

// The block descriptors that are whole, or none (false: the task has been refused). An incomplete last one is ignored,
// as SBC-3 5.28.2 says; a list that claims more than was sent is refused, so that nothing is taken for unmapped that is
// not.
bool descriptor_bytes(Task& task, size_t& out) {
  const size_t size = task.data.size();
  if (size < kHeaderSize) {
    fail(task, sense::kParameterListLength);
    return false;
  }
  const size_t data_length = get16(task.data.data());
  out = get16(task.data.data() + 2);
  if (out > size - kHeaderSize) {
    refuse_parameter(task, 2);
    return false;
  }
  if (data_length < out + kHeaderSize - 2) {
    refuse_parameter(task, 0);
    return false;
  }
  return true;
}

// False: the task has been refused.
bool read_descriptors(const UnitCall& call, size_t bytes, std::vector<ByteRange>& out) {
  const UnitLimits& limits = call.unit.limits();
  const size_t count = bytes / kDescriptorSize;
  if (count > limits.max_unmap_descriptors) {
    refuse_parameter(call.task, 2);
    return false;
  }
  const uint64_t capacity = call.unit.blocks();
  const uint64_t block = call.unit.block_size();
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kHeaderSize + i * kDescriptorSize;
    const uint64_t lba = get64(call.task.data.data() + at);
    const uint64_t blocks = get32(call.task.data.data() + at + 8);
    // Unlike other commands, nothing at the very end of the unit is no error here.
    if (lba > capacity || blocks > capacity - lba) {
      fail(call.task, sense::kLbaOutOfRange);
      return false;
    }
    total += blocks;
    if (total > limits.max_unmap_blocks) {
      refuse_parameter(call.task, static_cast<uint16_t>(at + 8));
      return false;
    }
    out.push_back({lba * block, blocks * block});
  }
  return true;
}

}  // namespace

void unmap(const UnitCall& call) {
  constexpr uint8_t kAnchor = 0x01;
  if (call.cdb.flag(kAnchor)) return refuse_field(call.task, 1, 0);
  if (call.cdb.length == 0) return good(call.task);
  if (call.cdb.length < kHeaderSize) return fail(call.task, sense::kParameterListLength);
  want_data_out(call.task, call.cdb.length);
}

void unmap_list(const UnitCall& call) {
  size_t bytes = 0;
  if (!descriptor_bytes(call.task, bytes)) return;
  std::vector<ByteRange> ranges;
  if (!read_descriptors(call, bytes, ranges)) return;
  const uint64_t block = call.unit.block_size();
  for (const ByteRange& range : ranges) {
    if (held_back(call, range.offset / block, range.length / block)) return;
  }
  erase_unmap(call.task, std::move(ranges));
}

}  // namespace zvolt::scsi
