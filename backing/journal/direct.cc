// See direct.h.
#include "backing/journal/direct.h"

#include <cerrno>
#include <memory>

#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

struct DirectOp {
  Core& core;
  Lun& lun;
  IoRequest& parent;
  IoRequest io{};
};

void leave(Core& core, Lun& lun) {
  {
    const std::lock_guard lock(lun.mutex);
    --lun.direct_in_flight;
  }
  if (lun.held.load(std::memory_order_relaxed)) core.write_back->wake();
}

void take_result(IoRequest& parent, const IoRequest& io) {
  parent.error = io.error;
  parent.error_offset = io.error_offset;
}

void on_done(IoRequest& io) noexcept {
  const std::unique_ptr<DirectOp> op(static_cast<DirectOp*>(io.context));
  take_result(op->parent, io);
  leave(op->core, op->lun);
  op->parent.step = nullptr;
  op->parent.done(op->parent);
}

bool enter(Lun& lun) {
  const std::lock_guard lock(lun.mutex);
  if (lun.held.load(std::memory_order_relaxed)) return false;
  ++lun.direct_in_flight;
  return true;
}

}  // namespace

Submitted submit_direct(Core& core, Lun& lun, BlockStore& store, IoRequest& request, IoEngine& engine) {
  while (!enter(lun)) {
    // No room is wanted: the turn comes when the hold ends, and the mode is looked at again.
    const Core::Admission admission = core.admit(lun, 0, 0, request, engine);
    if (admission == Core::Admission::waits) return Submitted::pending;
    if (admission != Core::Admission::busy) continue;
    request.error = EAGAIN;  // too many wait
    return Submitted::done;
  }
  auto op = std::make_unique<DirectOp>(DirectOp{core, lun, request});
  op->io.kind = request.kind;
  op->io.fua = request.fua;
  op->io.spare_holes = request.spare_holes;
  op->io.offset = request.offset;
  op->io.length = request.length;
  op->io.iov = request.iov;
  op->io.iov_count = request.iov_count;
  op->io.cancel = request.cancel;
  op->io.context = op.get();
  op->io.done = on_done;
  if (store.submit(op->io, engine) == Submitted::pending) {
    op.release();  // on_done() deletes it
    return Submitted::pending;
  }
  take_result(request, op->io);
  leave(core, lun);
  return Submitted::done;
}

}  // namespace zvolt::backing::journal
