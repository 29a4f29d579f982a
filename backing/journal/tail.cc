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
#include <utility>

#include "backing/journal/superblock.h"

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kIdleMove = 1'000'000'000;  // ns: the tail follows at least this often, when it can
constexpr unsigned kForwardAtOnce = 64;        // records of one look: the next move of the tail shows what is left
constexpr uint64_t kForwardBytes = uint64_t{1} << 20;  // of the ring that one look copies from, or one group
constexpr uint64_t kWorthwhile = 16;                   // a sixteenth of the ring is worth a superblock at any time
// ns: who waits for room that only stores which take nothing could give waits this long. Hosts repeat a command that
// was BUSY, and give one up that is not answered.
constexpr uint64_t kHopeless = 5'000'000'000;

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
  judge_room(luns, now_ns);
}

// Whether those who wait for room wait for LUNs whose stores take nothing, and for nobody else.
void TailMover::judge_room(const std::vector<std::shared_ptr<Lun>>& luns, uint64_t now_ns) {
  Lun* holder = nullptr;
  bool others = false;
  for (const auto& lun : luns) {
    if (lun->live_ring.load(std::memory_order_relaxed) == 0) continue;
    if (!stuck(*lun)) others = true;
    if (holder == nullptr || lun->live_ring > holder->live_ring) holder = lun.get();
  }
  bool told = false;
  {
    const std::lock_guard lock(core_.mutex);
    const bool waits = core_.room_blocked || core_.room_hopeless;
    const bool moving = core_.queue_first != nullptr || core_.committing || core_.room_granted != granted_before_;
    granted_before_ = core_.room_granted;
    if (!waits || others || moving || holder == nullptr) {
      hopeless_since_ns_ = 0;
      core_.room_hopeless = false;
      return;
    }
    if (hopeless_since_ns_ == 0) hopeless_since_ns_ = now_ns;
    if (now_ns - hopeless_since_ns_ < kHopeless) return;
    told = !std::exchange(core_.room_hopeless, true);
  }
  if (told) core_.tell(text_of_holder(*holder));
  core_.serve_waiters();
}

std::string TailMover::text_of_holder(Lun& lun) const {
  const std::lock_guard lock(lun.mutex);
  return "the journal " + core_.log->describe() +
         " is full of data whose stores do not take it, most of it of volume " +
         (lun.name.empty() ? uuid_text(lun.uuid) : lun.name) +
         ": writes of all its volumes are answered BUSY until that volume's store is back, or its data is discarded";
}

// The tail stands at a record whose store does not take it: copies of what is live of it go to the head. Worth it only
// while the ring is under pressure and holds more than live records.
//
// Why the reserve is enough, for ever: the tail moves by whole groups, so copies are made only of what stands in the
// groups at the tail, and only when all of it fits. Copies of a record promise at most what the record did (one of
// zeros that newer writes have cut to pieces apart), a group's records were promised at most three quarters of the
// reserve, and when the tail has passed them that much is free again.
void TailMover::copy_forward(IoEngine& engine) {
  if (blocker_ == nullptr || !stuck(*blocker_)) return;
  if (core_.pressure() == Core::Pressure::none) return;
  const auto luns = core_.all_luns();
  uint64_t live = 0;
  for (const auto& lun : luns) live += lun->live_ring.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(core_.mutex);
    if (live + core_.ring.limit() / 8 > core_.ring.used()) return;
  }
  if (!copies_fit(luns, std::min(kForwardBytes, core_.forward_reserve / 2)) && !copies_fit(luns, 0)) return;
  unsigned copied = 0;
  for (const auto& lun : luns) {
    if (!stuck(*lun)) continue;
    while (copied < kForwardAtOnce && forward_record(*lun)) ++copied;
  }
  core_.want_commit(engine);
}

// Its records stay in the ring for now, whatever is tried: the store is away or fails, or the LUN is not served.
bool TailMover::stuck(const Lun& lun) {
  return lun.away.load(std::memory_order_relaxed) || lun.store_error.load(std::memory_order_relaxed) != 0 ||
         lun.mode.load(std::memory_order_relaxed) == Mode::refused;
}

// Of the groups at the tail, `bytes` of them or one.
bool TailMover::copies_fit(const std::vector<std::shared_ptr<Lun>>& luns, uint64_t bytes) {
  {
    const std::lock_guard lock(core_.mutex);
    forward_below_ = core_.ring.sequence_behind(bytes);
  }
  uint64_t need = 0;
  for (const auto& lun : luns) {
    if (!stuck(*lun)) continue;
    const std::lock_guard lock(lun->mutex);
    for (const Record* each = lun->map.oldest(); each != nullptr && each->sequence < forward_below_;
         each = each->newer) {
      for (const Stretch& part : stretches_of(*lun, *each)) need += core_.ring_need(each->kind, part.end - part.begin);
    }
  }
  const std::lock_guard lock(core_.mutex);
  return core_.ring.fits(need, 0);
}

// What of a record is dirty still. Two parts of a write become one where newer dirty bytes alone lie between them, and
// fewer than another copy would take: so all parts together need no more room than the record. (A clean gap of less
// than two sectors is left when one write to the store failed and the next did not; it costs a little more.)
std::vector<TailMover::Stretch> TailMover::stretches_of(const Lun& lun, const Record& record) const {
  std::vector<Stretch> parts;
  uint64_t dirty_to = record.offset;  // without a gap, since the last part
  lun.map.visit(record.offset, record.end(), [&](uint64_t begin, uint64_t end, const Record& owner) {
    const bool joined = dirty_to == begin;
    dirty_to = end;
    if (&owner != &record) {
      if (!joined) dirty_to = record.offset;  // no way back to the last part
      return true;
    }
    const bool bridged =
        joined && !parts.empty() && has_payload(record.kind) && begin - parts.back().end < uint64_t{2} * core_.sector;
    if (bridged) {
      parts.back().end = end;
    } else {
      parts.push_back({begin, end});
    }
    return true;
  });
  return parts;
}

// One record, the lowest of the LUN, under its lock: what of it is dirty becomes new records with the bytes that reads
// see now. False: there is none to be copied, or no room or memory.
bool TailMover::forward_record(Lun& lun) {
  const std::lock_guard lock(lun.mutex);
  const Record* oldest = lun.map.oldest();
  if (oldest == nullptr || oldest->sequence >= forward_below_) return false;
  const RecordRef source(*lun.map.oldest());  // the last copy takes the map's last reference
  const auto parts = stretches_of(lun, *source);
  uint64_t need = 0;
  for (const Stretch& each : parts) need += core_.ring_need(source->kind, each.end - each.begin);
  {
    const std::lock_guard journal_lock(core_.mutex);
    if (!core_.ring.fits(need, 0)) return false;
    core_.ring.promise(need);
  }
  bool all = true;
  for (const Stretch& each : parts) all = forward_part(lun, source->kind, each) && all;
  return all;
}

// Room in the ring was promised.
bool TailMover::forward_part(Lun& lun, RecordKind kind, const Stretch& part) {
  const uint64_t length = part.end - part.begin;
  // Beyond the budget for a moment: the old record goes as soon as its last byte is copied.
  core_.pool.promise(core_.memory_need(kind, length));
  const RecordRef copy = core_.make_record(lun, kind, part.begin, length, [&](uint8_t* into) {
    lun.map.visit(part.begin, part.end, [&](uint64_t begin, uint64_t end, const Record& record) {
      if (record.data == nullptr) {
        memset(into + (begin - part.begin), 0, end - begin);
      } else {
        memcpy(into + (begin - part.begin), record.data + (begin - record.offset), end - begin);
      }
      return true;
    });
  });
  if (!copy) {
    core_.forget_room(core_.ring_need(kind, length), core_.memory_need(kind, length));
    return false;
  }
  copy->flags = kForwarded;
  core_.append_locked(lun, *copy);
  count(core_.counters.forwarded);
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
