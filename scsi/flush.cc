// See flush.h.
#include "scsi/flush.h"

#include <memory>

#include "scsi/logical_unit.h"
#include "scsi/media_error.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

namespace {

void flushed(Task& task) {
  if (task.io.error != 0) return fail_by_errno(task, task.io.error, StoreOperation::flush, 0);
  if (task.media_after_flush) return settle(task, Phase::media_in);
  good(task);
}

struct BackgroundFlush {
  std::shared_ptr<LogicalUnit> unit;  // kept open: the nexus that asked may be gone before the flush is done
  backing::IoRequest io;
};

}  // namespace

void flush_then_settle(Task& task) {
  task.io = {};
  task.io.kind = backing::IoKind::flush;
  task.io.context = &task;
  task.io.done = [](backing::IoRequest& io) noexcept { flushed(*static_cast<Task*>(io.context)); };
  if (task.lu->store().submit(task.io, *task.engine) == backing::Submitted::done) flushed(task);
}

void flush_in_background(Task& task) {
  auto flush = std::make_unique<BackgroundFlush>();
  flush->unit = task.lu->shared_from_this();
  flush->io.kind = backing::IoKind::flush;
  flush->io.context = flush.get();
  flush->io.done = [](backing::IoRequest& io) noexcept { delete static_cast<BackgroundFlush*>(io.context); };
  backing::BlockStore& store = task.lu->store();
  if (store.submit(flush->io, *task.engine) == backing::Submitted::pending) flush.release();  // done() deletes it
}

}  // namespace zvolt::scsi
