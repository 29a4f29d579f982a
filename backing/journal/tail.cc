// See tail.h.
//
// How far the tail may go, and why. Let S0 be the last sequence before any LUN is looked at, L the lowest sequence of
// all live records found (each LUN under its lock), S the last sequence afterwards. Then every record below
// T = min(S0 + 1, L) was, when its LUN was looked at, without a byte in the map: each byte is in the flushed store
// (only then do passes take it out), or belongs to a newer record, at most S. Once the watermark is S, those newer ones
// are durable, so nothing below T is needed: not by replay, which applies the newer ones, nor by the store. A record
// that a LUN got after it was looked at has a sequence above S0. No record becomes live again later: only new sequences
// do. So T holds for good, however long the superblock takes.
#include "backing/journal/tail.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/superblock.h"

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kIdleMove = 1'000'000'000;  // ns: the tail follows at least this often, when it can
constexpr unsigned kForwardAtOnce = 64;        // records of one look: the next move of the tail shows what is left
constexpr uint64_t kWorthwhile = 16;           // a sixteenth of the ring is worth a superblock at any time

}  // namespace

TailMover::TailMover(Core& core, const Superblock& superblock)
    : core_(core), superblock_(superblock), slot_(make_aligned(kLargeSector)) {}

bool TailMover::due(uint64_t now_ns) const {
  if (core_.failed.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(core_.mutex);
  if (core_.ring.used() == 0) return false;
  if (!core_.room_waiters.empty()) return true;
  return core_.ring.used() * kWorthwhile >= core_.ring.limit() || now_ns - last_move_ns_ >= kIdleMove;
}

void TailMover::poll(IoEngine& engine, uint64_t now_ns, bool may_start) {
  engine_ = &engine;
  if (state_ == State::idle && may_start && due(now_ns)) look(now_ns);
  if (state_ != State::waiting) return;
  if (core_.failed.load(std::memory_order_acquire)) {
    state_ = State::idle;
  } else if (core_.watermark.load(std::memory_order_acquire) >= wait_for_) {
    move(engine);
  }
}

void TailMover::look(uint64_t now_ns) {
  last_move_ns_ = now_ns;
  const auto luns = core_.all_luns();  // one that comes later has no record, or only later ones
  {
    const std::lock_guard lock(core_.mutex);
    target_ = core_.last_sequence + 1;
  }
  blocker_ = nullptr;
  for (const auto& lun : luns) {
    const std::lock_guard lock(lun->mutex);
    const Record* oldest = lun->map.oldest();
    if (oldest == nullptr || oldest->sequence >= target_) continue;
    target_ = oldest->sequence;
    blocker_ = lun.get();
  }
  {
    const std::lock_guard lock(core_.mutex);
    wait_for_ = core_.last_sequence;
  }
  state_ = State::waiting;
  copy_forward(*engine_);
}

// The tail stands at a record whose store is away: copies of what is live of it go to the head. Worth it only while the
// ring is under pressure and holds more than live records.
void TailMover::copy_forward(IoEngine& engine) {
  if (blocker_ == nullptr || !blocker_->away.load(std::memory_order_relaxed)) return;
  if (core_.pressure() == Core::Pressure::none) return;
  uint64_t live = 0;
  for (const auto& lun : core_.all_luns()) live += lun->live_ring.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(core_.mutex);
    if (live + core_.ring.limit() / 8 > core_.ring.used()) return;
  }
  {
    const std::lock_guard lock(core_.mutex);
    forward_below_ = core_.last_sequence + 1;  // not the copies themselves
  }
  unsigned copied = 0;
  while (copied < kForwardAtOnce && forward_record(*blocker_)) ++copied;
  core_.want_commit(engine);
}

// One record, the lowest of the LUN, under its lock: what of its range is dirty becomes new records with the same bytes
// (the newest, as reads see them now). Copies of whole dirty stretches, not of single extents: many small ones would
// take more room than the record they came from.
bool TailMover::forward_record(Lun& lun) {
  const std::lock_guard lock(lun.mutex);
  const Record* oldest = lun.map.oldest();
  if (oldest == nullptr || oldest->sequence >= forward_below_) return false;
  struct Stretch {
    uint64_t begin, end;
    RecordKind kind;
  };
  std::vector<Stretch> stretches;
  uint64_t need = 0;
  lun.map.visit(oldest->offset, oldest->end(), [&](uint64_t begin, uint64_t end, const Record& record) {
    if (!stretches.empty() && stretches.back().end == begin && stretches.back().kind == record.kind) {
      stretches.back().end = end;
    } else {
      stretches.push_back({begin, end, record.kind});
    }
    return true;
  });
  for (const Stretch& each : stretches) need += core_.ring_need(each.kind, each.end - each.begin);
  {
    const std::lock_guard journal_lock(core_.mutex);
    if (!core_.ring.fits(need, 0)) return false;
    core_.ring.promise(need);
  }
  for (const Stretch& each : stretches) {
    // Beyond the budget for a moment: the old record goes as soon as its last byte is copied.
    core_.pool.promise(core_.memory_need(each.kind, each.end - each.begin));
    const RecordRef copy = core_.make_record(lun, each.kind, each.begin, each.end - each.begin, [&](uint8_t* into) {
      lun.map.visit(each.begin, each.end, [&](uint64_t begin, uint64_t end, const Record& record) {
        memcpy(into + (begin - each.begin), record.data + (begin - record.offset), end - begin);
        return true;
      });
    });
    if (!copy) {
      core_.forget_room(core_.ring_need(each.kind, each.end - each.begin),
                        core_.memory_need(each.kind, each.end - each.begin));
      continue;
    }
    copy->flags = kForwarded;
    core_.append_locked(lun, *copy);
    count(core_.counters.forwarded);
  }
  return true;
}

void TailMover::move(IoEngine& engine) {
  next_ = superblock_;
  {
    const std::lock_guard lock(core_.mutex);
    next_.tail = core_.ring.tail_for(target_);
    next_.watermark = core_.watermark.load(std::memory_order_relaxed);
  }
  if (next_.tail.position == superblock_.tail.position) {
    state_ = State::idle;
    return;
  }
  ++next_.generation;
  state_ = State::writing;
  io_ = superblock_write(next_, slot_.get(), slot_iov_);
  io_.context = this;
  io_.done = [](IoRequest& r) noexcept { static_cast<TailMover*>(r.context)->written(r.error); };
  if (core_.log->submit(io_, engine) == Submitted::done) written(io_.error);
}

void TailMover::written(int error) {
  if (error != 0) return flushed(error);
  state_ = State::flushing;
  io_ = {};
  io_.kind = IoKind::flush;
  io_.context = this;
  io_.done = [](IoRequest& r) noexcept { static_cast<TailMover*>(r.context)->flushed(r.error); };
  if (core_.log->submit(io_, *engine_) == Submitted::done) flushed(io_.error);
}

// Only now: the superblock that frees the space is durable.
void TailMover::flushed(int error) {
  state_ = State::idle;
  if (error != 0) return core_.fail(error, "writing the superblock of " + core_.log->describe());
  superblock_ = next_;
  count(core_.counters.superblocks);
  {
    const std::lock_guard lock(core_.mutex);
    core_.ring.release(superblock_.tail);
  }
  core_.serve_waiters();
}

}  // namespace zvolt::backing::journal
