// See verify.h. BYTCHK 0: the medium is read. 1: compared with as many blocks of data-out. 3: every block is compared
// with one block of data-out.
#include "scsi/verify.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backing/aligned_buffer.h"
#include "scsi/handlers.h"
#include "scsi/job.h"
#include "scsi/logical_unit.h"
#include "scsi/media.h"
#include "scsi/media_error.h"

namespace zvolt::scsi {

namespace {

enum class ByteCheck : uint8_t { none = 0, all = 1, reserved = 2, one_block = 3 };

ByteCheck byte_check(const UnitCall& call) {
  return static_cast<ByteCheck>((call.cdb.flags >> 1) & 0x03);
}

size_t first_difference(const uint8_t* a, const uint8_t* b, size_t size) {
  if (std::memcmp(a, b, size) == 0) return size;
  return static_cast<size_t>(std::mismatch(a, a + size, b).first - a);
}

// Reads the range piece by piece, and compares each block with the pattern when there is one.
class VerifyJob : public StepJob {
 public:
  VerifyJob(backing::AlignedBuffer memory, std::vector<uint8_t> pattern, uint64_t offset, uint64_t length)
      : memory_(std::move(memory)), pattern_(std::move(pattern)), offset_(offset), rest_(length) {}

 protected:
  Next next(Task& task) override {
    if (rest_ == 0) return Next::done;
    task.io.kind = backing::IoKind::read;
    task.io.offset = offset_;
    task.io.length = std::min(rest_, kJobPiece);
    task.io.single = {memory_.get(), task.io.length};
    task.io.iov = &task.io.single;
    task.io.iov_count = 1;
    return Next::submit;
  }

  void completed(Task& task) override {
    for (uint64_t at = 0; !pattern_.empty() && at < task.io.length; at += pattern_.size()) {
      const size_t same = first_difference(memory_.get() + at, pattern_.data(), pattern_.size());
      if (same == pattern_.size()) continue;
      return note_error(task, Task::kMiscompare, offset_ + at + same);
    }
    offset_ += task.io.length;
    rest_ -= task.io.length;
  }

  void conclude(Task& task) override { finish_media(task); }
  void failed(Task& task) override { finish_media(task); }

 private:
  backing::AlignedBuffer memory_;
  std::vector<uint8_t> pattern_;
  uint64_t offset_;
  uint64_t rest_;
};

void begin_verify_job(const UnitCall& call, std::vector<uint8_t> pattern) {
  const uint64_t length = call.cdb.length * call.unit.block_size();
  call.task.media_offset = call.cdb.lba * call.unit.block_size();
  backing::AlignedBuffer memory = backing::make_aligned(static_cast<size_t>(std::min(length, kJobPiece)));
  if (!memory) return fail_status(call.task, Status::busy);
  StepJob::begin(call.task,
                 std::make_unique<VerifyJob>(std::move(memory), std::move(pattern), call.task.media_offset, length));
}

// The part of the medium that a piece is compared with: whole blocks, since the store may know no less.
struct Window {
  uint64_t offset;
  uint64_t length;
};

Window window_of(const Task& task, const MediaIo& piece) {
  const uint64_t begin = task.media_offset + piece.offset;
  const uint64_t end = begin + piece.length;
  const uint64_t block = task.block_size;
  const uint64_t first = begin / block * block;
  return {first, (end + block - 1) / block * block - first};
}

// Ends a compare: the medium's bytes are in io.single, whose memory is given back here.
void compared(MediaIo& piece) {
  backing::AlignedBuffer memory(static_cast<uint8_t*>(piece.io.single.iov_base));
  Task& task = *piece.task;
  if (piece.io.error != 0) return note_error(task, piece.io.error, piece.io.error_offset);
  const uint64_t begin = task.media_offset + piece.offset;
  const size_t same = first_difference(memory.get() + (begin - piece.io.offset), piece.data, piece.length);
  if (same != piece.length) note_error(task, Task::kMiscompare, begin + same);
}

}  // namespace

void verify_medium(const UnitCall& call) {
  const ByteCheck check = byte_check(call);
  if (call.cdb.flag(kProtect)) return refuse_field(call.task, 1, 7);
  if (check == ByteCheck::reserved) return refuse_field(call.task, 1, 2);
  if (!media_range(call, call.cdb.lba, call.cdb.length)) return;
  if (check == ByteCheck::all && !length_allowed(call, call.cdb.length, call.unit.limits().max_transfer)) return;
  if (held_back(call, call.cdb.lba, call.cdb.length)) return;
  if (call.cdb.length == 0) return good(call.task);
  switch (check) {
    case ByteCheck::none:
      return begin_verify_job(call, {});
    case ByteCheck::one_block:
      return want_data_out(call.task, call.unit.block_size());
    default:
      set_media(call, call.cdb.lba, call.cdb.length);
      return settle(call.task, Phase::media_out);
  }
}

void verify_pattern(const UnitCall& call) {
  if (call.task.data.size() != call.unit.block_size()) return fail(call.task, sense::kInvalidInformationUnit);
  if (!media_range(call, call.cdb.lba, call.cdb.length)) return;
  begin_verify_job(call, call.task.data);
}

bool start_compare_io(Task& task, MediaIo& piece) {
  const Window window = window_of(task, piece);
  backing::AlignedBuffer memory = backing::make_aligned(static_cast<size_t>(window.length));
  backing::IoRequest& io = piece.io;
  piece.task = &task;
  io.error = 0;
  if (!memory) {
    io.error = ENOMEM;
    note_error(task, ENOMEM, window.offset);
    return true;
  }
  io.kind = backing::IoKind::read;
  io.fua = false;
  io.offset = io.error_offset = window.offset;
  io.length = window.length;
  io.single = {memory.release(), static_cast<size_t>(window.length)};  // compared() owns it
  io.iov = &io.single;
  io.iov_count = 1;
  io.context = &piece;
  io.done = [](backing::IoRequest& request) noexcept {
    MediaIo& done = *static_cast<MediaIo*>(request.context);
    compared(done);
    done.done(done);
  };
  if (task.lu->store().submit(io, *task.engine) == backing::Submitted::pending) return false;
  compared(piece);
  return true;
}

void fail_miscompare(Task& task) {
  fail(task, sense::kMiscompare, {.information = task.error_offset - task.media_offset, .field = {}});
}

}  // namespace zvolt::scsi
