// See media.h.
#include "scsi/media.h"

#include "scsi/bytes.h"
#include "scsi/command_table.h"
#include "scsi/flush.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"
#include "scsi/media_error.h"
#include "scsi/verify.h"

namespace zvolt::scsi {

bool media_range(const UnitCall& call, uint64_t lba, uint64_t blocks) {
  const uint64_t capacity = call.unit.blocks();
  if (lba < capacity && blocks <= capacity - lba) [[likely]] {
    return true;
  }
  fail(call.task, sense::kLbaOutOfRange);
  return false;
}

uint16_t length_field_at(const UnitCall& call) {
  switch (call.task.command->format) {
    case CdbFormat::lba10:
      return 7;
    case CdbFormat::lba12:
      return 6;
    case CdbFormat::lba16:
      return 10;
    default:
      return 4;
  }
}

bool length_allowed(const UnitCall& call, uint64_t blocks, uint64_t most) {
  if (blocks <= most) [[likely]] {
    return true;
  }
  refuse_field(call.task, length_field_at(call));
  return false;
}

bool held_back(const UnitCall& call, uint64_t lba, uint64_t blocks) {
  if (!call.unit.gate().active()) [[likely]] {
    return false;
  }
  if (blocks == 0) return false;
  const uint64_t block = call.unit.block_size();
  return call.unit.gate().keep_if_held(call.task, lba * block, blocks * block);
}

void set_media(const UnitCall& call, uint64_t lba, uint64_t blocks) {
  const uint64_t block = call.unit.block_size();
  call.task.media_offset = lba * block;
  call.task.transfer_length = blocks * block;
}

namespace {

// The checks that READ and WRITE share. False: the task is settled or held.
bool begin_media(const UnitCall& call) {
  const Cdb& cdb = call.cdb;
  if (cdb.flag(kProtect)) [[unlikely]] {
    refuse_field(call.task, 1, 7);  // no protection information here
    return false;
  }
  if (!media_range(call, cdb.lba, cdb.length)) return false;
  if (!length_allowed(call, cdb.length, call.unit.limits().max_transfer)) return false;
  if (held_back(call, cdb.lba, cdb.length)) return false;
  set_media(call, cdb.lba, cdb.length);
  call.task.fua = cdb.flag(kFua);
  if (cdb.length != 0) return true;
  good(call.task);
  return false;
}

void piece_done(MediaIo& piece) {
  if (piece.io.error != 0) [[unlikely]] {
    const bool read = piece.io.kind == backing::IoKind::read;
    note_error(*piece.task, piece.io.error, read ? piece.io.error_offset : piece.io.offset);
  }
}

void start_flush_of(const UnitCall& call) {
  if (!call.unit.flush_on_demand()) return good(call.task);
  constexpr uint8_t kImmediate = 0x02;
  if (!call.cdb.flag(kImmediate)) return flush_then_settle(call.task);
  flush_in_background(call.task);
  good(call.task);
}

}  // namespace

void read_media(const UnitCall& call) {
  if (!begin_media(call)) return;
  // FUA: what is read must be on the medium, and not only in a cache.
  if (call.task.fua && call.unit.flush_on_demand()) {
    call.task.media_after_flush = true;
    return flush_then_settle(call.task);
  }
  settle(call.task, Phase::media_in);
}

void write_media(const UnitCall& call) {
  if (!begin_media(call)) return;
  settle(call.task, Phase::media_out);
}

void synchronize_cache(const UnitCall& call) {
  if (!media_range(call, call.cdb.lba, call.cdb.length)) return;
  // All of the store is flushed, whatever the range. A read-only mapping of a unit may flush what others wrote.
  start_flush_of(call);
}

bool start_media_io(Task& task, MediaIo& piece) {
  if (task.command->start == verify_medium) [[unlikely]] {
    return start_compare_io(task, piece);
  }
  backing::IoRequest& io = piece.io;
  io.kind = task.phase == Phase::media_in ? backing::IoKind::read : backing::IoKind::write;
  io.fua = false;  // finish() flushes: one flush for a burst costs less than one for every piece
  io.offset = task.media_offset + piece.offset;
  io.length = piece.length;
  io.single = {piece.data, piece.length};
  io.iov = &io.single;
  io.iov_count = 1;
  io.error = 0;
  io.error_offset = io.offset;
  io.context = &piece;
  io.done = [](backing::IoRequest& request) noexcept {
    MediaIo& done = *static_cast<MediaIo*>(request.context);
    piece_done(done);
    done.done(done);
  };
  piece.task = &task;
  if (task.lu->store().submit(io, *task.engine) == backing::Submitted::pending) return false;
  piece_done(piece);
  return true;
}

void finish_media(Task& task) {
  if (task.error != 0) [[unlikely]] {
    if (task.error == Task::kMiscompare) return fail_miscompare(task);
    const bool wrote = task.command->has(kWrites);
    return fail_by_errno(task, task.error, wrote ? StoreOperation::write : StoreOperation::read, task.error_offset);
  }
  if (task.command->has(kWrites)) return finish_write(task);
  good(task);
}

void finish_write(Task& task) {
  const bool flush = task.lu->flush_after_write() || (task.fua && task.lu->flush_on_demand());
  if (flush) return flush_then_settle(task);
  good(task);
}

}  // namespace zvolt::scsi
