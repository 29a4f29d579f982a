// See ordered_op.h. Order of a read-modify-write: tracked mode, exclusive range, read the edge blocks, merge, write the
// whole blocks, release. A torn block is impossible: the device writes whole logical blocks, and nobody else writes it
// in between.
#include "backing/ordered_op.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/fd_store.h"

namespace zvolt::backing {

namespace {

// Bytes. Callers cut transfers to the pool's largest buffer (256 KiB), so this bounds a mistake, not a load.
constexpr uint64_t kMostBounce = uint64_t{16} << 20;

}  // namespace

OrderedOp::OrderedOp(FdStore& store, IoRequest& parent, IoEngine& engine, bool aligned)
    : store_(store), parent_(parent), engine_(engine), aligned_(aligned) {
  const uint64_t unit = store.geometry().io_alignment;
  begin_ = round_down(parent.offset, unit);
  end_ = round_up(parent.offset + parent.length, unit);
  io_.done = &OrderedOp::on_io;
  io_.context = this;
  io_.owner = &store;
  io_.engine = &engine;
  hold_.begin = begin_;
  hold_.end = end_;
  hold_.exclusive = !aligned;
  hold_.waiter = &io_;
}

Submitted OrderedOp::start(FdStore& store, IoRequest& parent, IoEngine& engine, bool aligned, bool bounce) {
  std::unique_ptr<OrderedOp> op(new OrderedOp(store, parent, engine, aligned));
  if (bounce) {
    const uint64_t size = op->end_ - op->begin_;
    if (size <= kMostBounce) op->buffer_ = make_aligned(size);
    if (op->buffer_ == nullptr) {
      parent.error = ENOMEM;
      return Submitted::done;
    }
  }
  OrderedOp* running = op.release();  // deletes itself in finish()
  parent.engine = &engine;
  if (running->claim()) running->after_claim();
  return Submitted::pending;
}

void OrderedOp::on_io(IoRequest& io) noexcept {
  static_cast<OrderedOp*>(io.context)->resume();
}

void OrderedOp::resume() {
  if (phase_ == Phase::settle || phase_ == Phase::acquire) {
    if (claim()) after_claim();
    return;
  }
  if (io_.error != 0 || phase_ == Phase::main) return finish();
  const uint64_t unit = store_.geometry().io_alignment;
  if (phase_ == Phase::first_edge && end_ - begin_ > 2 * unit) return read_edge(end_ - unit, unit, Phase::last_edge);
  main();
}

bool OrderedOp::claim() {
  if (parent_.kind == IoKind::read) return true;  // a block is read whole; nothing is written back
  if (phase_ == Phase::settle) {
    if (aligned_ && store_.gate().enter(engine_)) {
      entered_ = true;
      return true;
    }
    if (!aligned_ && !store_.gate().settled(io_)) {
      engine_.park(io_);
      return false;
    }
    phase_ = Phase::acquire;
  }
  const bool fresh = fresh_;
  fresh_ = false;
  holding_ = store_.gate().acquire(hold_, fresh);
  if (!holding_) engine_.park(io_);
  return holding_;
}

void OrderedOp::after_claim() {
  if (aligned_ || parent_.kind != IoKind::write) return main();
  const uint64_t unit = store_.geometry().io_alignment;
  const uint64_t length = end_ - begin_ <= 2 * unit ? end_ - begin_ : unit;
  read_edge(begin_, length, Phase::first_edge);
}

void OrderedOp::read_edge(uint64_t block, uint64_t length, Phase phase) {
  phase_ = phase;
  transfer(IoKind::read, block, length);
}

// Between the buffer and the device.
void OrderedOp::transfer(IoKind kind, uint64_t offset, uint64_t length) {
  io_.kind = kind;
  io_.offset = offset;
  io_.length = length;
  io_.single = {buffer_.get() + (offset - begin_), length};
  io_.iov = &io_.single;
  io_.iov_count = 1;
  engine_.queue(io_, store_.fd());
}

void OrderedOp::main() {
  phase_ = Phase::main;
  if (parent_.kind == IoKind::read) return transfer(IoKind::read, begin_, end_ - begin_);
  if (parent_.kind == IoKind::write && buffer_ != nullptr) {
    copy(true);
    return transfer(IoKind::write, begin_, end_ - begin_);
  }
  io_.kind = parent_.kind;
  io_.offset = parent_.offset;
  io_.length = parent_.length;
  if (parent_.kind == IoKind::write) {
    io_.iov = parent_.iov;
    io_.iov_count = parent_.iov_count;
    return engine_.queue(io_, store_.fd());
  }
  io_.spare_holes = parent_.spare_holes;
  io_.cancel = parent_.cancel;
  std::copy(std::begin(parent_.scratch), std::end(parent_.scratch), std::begin(io_.scratch));
  FdStore::plan_change(io_);
  engine_.offload(io_, &FdStore::change_on_worker);
}

// Between the caller's memory and the buffer.
void OrderedOp::copy(bool into_buffer) {
  uint8_t* at = buffer_.get() + (parent_.offset - begin_);
  for (uint32_t i = 0; i < parent_.iov_count; ++i) {
    const iovec& part = parent_.iov[i];
    if (into_buffer) {
      memcpy(at, part.iov_base, part.iov_len);
    } else {
      memcpy(part.iov_base, at, part.iov_len);
    }
    at += part.iov_len;
  }
}

void OrderedOp::finish() {
  const std::unique_ptr<OrderedOp> self(this);
  if (holding_) store_.gate().release(hold_);
  if (entered_) store_.gate().leave(engine_);
  if (!aligned_ && parent_.kind != IoKind::read) store_.tally().add(engine_, StoreTally::kRmw);
  if (io_.merged) store_.tally().add(engine_, StoreTally::kMergedWrites);
  parent_.error = io_.error;
  if (io_.error != 0) parent_.error_offset = std::max(parent_.offset, io_.error_offset);
  if (parent_.kind == IoKind::read) {
    if (parent_.error == 0) copy(false);
    return store_.end(parent_);
  }
  store_.complete_change(parent_, engine_);
}

}  // namespace zvolt::backing
