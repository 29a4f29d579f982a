// WRITE SAME(10) and (16): zeros become a discard or the store's write-zeroes, any other pattern is written for real,
// also with UNMAP=1. SBC-3 5.41, 5.42; NDOB: SBC-4 5.53.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backing/aligned_buffer.h"
#include "scsi/command_table.h"
#include "scsi/erase.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"
#include "scsi/media.h"
#include "scsi/media_error.h"

namespace zvolt::scsi {

namespace {

constexpr uint8_t kAnchor = 0x10, kUnmap = 0x08, kObsolete = 0x06, kNoDataOut = 0x01;

class PatternJob : public StepJob {
 public:
  PatternJob(backing::AlignedBuffer memory, uint64_t size, ByteRange range)
      : memory_(std::move(memory)), size_(size), rest_(range) {}

 protected:
  Next next(Task& task) override {
    if (rest_.length == 0) return Next::done;
    task.io.kind = backing::IoKind::write;
    task.io.offset = rest_.offset;
    task.io.length = std::min(rest_.length, size_);
    task.io.single = {memory_.get(), task.io.length};
    task.io.iov = &task.io.single;
    task.io.iov_count = 1;
    return Next::submit;
  }
  void completed(Task& task) override {
    rest_.offset += task.io.length;
    rest_.length -= task.io.length;
  }
  void conclude(Task& task) override { finish_write(task); }
  void failed(Task& task) override { fail_by_errno(task, task.error, StoreOperation::write, task.error_offset); }

 private:
  backing::AlignedBuffer memory_;  // the pattern, repeated
  uint64_t size_;                  // of memory_, a whole number of blocks
  ByteRange rest_;
};

bool takes_no_data(const UnitCall& call) {
  return call.task.command->format == CdbFormat::lba16 && call.cdb.flag(kNoDataOut);
}

// 0 blocks: to the end of the medium (WSNZ=0).
uint64_t block_count(const UnitCall& call) {
  return call.cdb.length != 0 ? call.cdb.length : call.unit.blocks() - call.cdb.lba;
}

// UNMAP=1 with 0 blocks asks to free everything up to the end, and hosts that do so send whatever is in their buffer
// (libiscsi's suite up to 1.19: 0xff). With a count, a pattern that is not zero is written, never unmapped.
bool frees_the_rest(const UnitCall& call) {
  return call.cdb.flag(kUnmap) && call.cdb.length == 0;
}

bool flags_allowed(const UnitCall& call) {
  Task& task = call.task;
  if (call.cdb.flag(kProtect)) return refuse_field(task, 1, 7), false;
  if (call.cdb.flag(kAnchor)) return refuse_field(task, 1, 4), false;  // blocks are not anchored here (ANC_SUP=0)
  if (call.cdb.flag(kUnmap) && !call.unit.limits().unmap) return refuse_field(task, 1, 3), false;
  if (call.cdb.flag(kObsolete)) return refuse_field(task, 1, 2), false;
  return true;
}

void write_pattern(const UnitCall& call, ByteRange range) {
  const size_t block = call.unit.block_size();
  const size_t size = static_cast<size_t>(std::min(range.length, kJobPiece));
  backing::AlignedBuffer memory = backing::make_aligned(size);
  if (!memory) return fail_status(call.task, Status::busy);
  for (size_t at = 0; at < size; at += block) std::memcpy(memory.get() + at, call.task.data.data(), block);
  StepJob::begin(call.task, std::make_unique<PatternJob>(std::move(memory), size, range));
}

// The checks that hold at both stages. False: the task is settled or held.
bool range_allowed(const UnitCall& call) {
  if (!media_range(call, call.cdb.lba, call.cdb.length)) return false;
  const uint64_t blocks = block_count(call);
  if (!length_allowed(call, blocks, call.unit.limits().max_write_same)) return false;
  return !held_back(call, call.cdb.lba, blocks);
}

void run(const UnitCall& call, bool zeros) {
  const uint64_t block = call.unit.block_size();
  const ByteRange range{call.cdb.lba * block, block_count(call) * block};
  if (zeros) return erase_to_zeros(call.task, range, call.cdb.flag(kUnmap));
  write_pattern(call, range);
}

}  // namespace

void write_same(const UnitCall& call) {
  if (!flags_allowed(call) || !range_allowed(call)) return;
  if (takes_no_data(call)) return run(call, true);
  const uint64_t announced = call.task.announced_data_out;
  if (announced != Task::kUnknownLength && announced != call.unit.block_size()) {
    return fail(call.task, sense::kInvalidInformationUnit);
  }
  want_data_out(call.task, call.unit.block_size());
}

void write_same_data(const UnitCall& call) {
  if (call.task.data.size() != call.unit.block_size()) return fail(call.task, sense::kInvalidInformationUnit);
  if (!range_allowed(call)) return;
  const bool zeros = std::all_of(call.task.data.begin(), call.task.data.end(), [](uint8_t byte) { return byte == 0; });
  run(call, zeros || frees_the_rest(call));
}

}  // namespace zvolt::scsi
