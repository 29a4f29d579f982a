// Who may make a record, and who waits for room in ring and memory (core.h). Room is promised before a payload is
// copied, so a record that has its sequence always fits, and a commit never waits for space.
#include <algorithm>

#include "backing/journal/core.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

// Per cent of ring, memory or a LUN's quota in use.
constexpr uint64_t kSoftPercent = 50;  // whole volblocks are worth a pass
constexpr uint64_t kHardPercent = 80;  // everything is written back, young parts of volblocks too

Core::Pressure pressure_at(uint64_t used, uint64_t limit) {
  if (used * 100 >= limit * kHardPercent) return Core::Pressure::hard;
  return used * 100 >= limit * kSoftPercent ? Core::Pressure::soft : Core::Pressure::none;
}

}  // namespace

bool Core::over_quota(const Lun& lun, uint64_t need) const {
  if (!several_luns.load(std::memory_order_relaxed)) return false;
  const uint64_t live = lun.live_ring.load(std::memory_order_relaxed);
  return live != 0 && (live + need) * 100 > ring.limit() * options.lun_quota_percent;
}

Core::Admission Core::admit(Lun& lun, uint64_t need, uint64_t memory, IoRequest& request, IoEngine& engine) {
  std::unique_lock lock(mutex);
  const Mode mode = lun.mode.load(std::memory_order_relaxed);
  const bool held = lun.held.load(std::memory_order_relaxed);
  if (mode != Mode::journaled && mode != Mode::leaving && !held) return Admission::again;
  const bool open = mode == Mode::journaled && !held;
  const bool first = lun.waiting == 0 && !room_blocked;
  const bool over = over_quota(lun, need);
  const bool room = has_room(need, memory);
  if (open && first && !over && room) {
    ring.promise(need);
    pool.promise(memory);
    ++room_granted;
    return Admission::yes;
  }
  const bool hopeless = open && (over ? lun.away.load(std::memory_order_relaxed) : room_hopeless && !room);
  if (hopeless || room_waiters.size() >= options.most_waiters) {
    count(counters.refused_busy);
    return Admission::busy;
  }
  request.engine = &engine;  // before another thread can see it
  room_waiters.push_back({&request, &lun, need, memory});
  ++lun.waiting;
  if (open && first && !over) room_blocked = true;
  count(counters.waited);
  lock.unlock();
  engine.park(request);
  write_back->wake();
  return Admission::waits;
}

bool Core::has_room(uint64_t need, uint64_t memory) const {
  // A request alone always fits: what is more than the whole budget would wait for ever.
  const bool memory_free = pool.used() == 0 || pool.used() + memory <= options.memory_bytes;
  return memory_free && ring.fits(need, forward_reserve);
}

// In order of arrival. Who waits for room of all stops everybody behind; who waits for its own LUN (held, quota) stops
// only that.
void Core::serve_waiters() {
  std::vector<IoRequest*> ready;
  {
    const std::lock_guard lock(mutex);
    if (room_waiters.empty()) return;
    std::deque<RoomWaiter> left;
    std::vector<Lun*> stopped;
    room_blocked = false;
    for (const RoomWaiter& waiter : room_waiters) {
      const Turn turn = turn_of(waiter, stopped);
      if (turn == Turn::waits) {
        left.push_back(waiter);
        continue;
      }
      if (turn == Turn::granted) {
        ring.promise(waiter.ring);
        pool.promise(waiter.memory);
      }
      waiter.request->scratch[1] = turn == Turn::granted ? 1 : 0;
      --waiter.lun->waiting;
      ready.push_back(waiter.request);
    }
    room_waiters.swap(left);
  }
  for (IoRequest* request : ready) request->engine->finish_from_any_thread(*request);
}

Core::Turn Core::turn_of(const RoomWaiter& waiter, std::vector<Lun*>& stopped) {
  const Lun& lun = *waiter.lun;
  const Mode mode = lun.mode.load(std::memory_order_relaxed);
  const bool held = lun.held.load(std::memory_order_relaxed);
  if (mode != Mode::journaled && mode != Mode::leaving && !held) return Turn::looks_again;
  if (mode == Mode::leaving || held) return Turn::waits;
  for (const Lun* each : stopped) {
    if (each == &lun) return Turn::waits;
  }
  if (over_quota(lun, waiter.ring)) {
    if (lun.away.load(std::memory_order_relaxed)) return Turn::looks_again;  // and is told BUSY
    stopped.push_back(waiter.lun);
    return Turn::waits;
  }
  const bool room = has_room(waiter.ring, waiter.memory);
  if (room_hopeless && !room) return Turn::looks_again;  // and is told BUSY
  if (room_blocked || !room) {
    room_blocked = true;
    return Turn::waits;
  }
  ++room_granted;
  return Turn::granted;
}

size_t Core::waiting() const {
  const std::lock_guard lock(mutex);
  return room_waiters.size();
}

Core::Pressure Core::pressure() const {
  const std::lock_guard lock(mutex);
  if (room_blocked) return Pressure::hard;
  return std::max(pressure_at(ring.used() + ring.promised(), ring.limit() - forward_reserve),
                  pressure_at(pool.used(), options.memory_bytes));
}

Core::Pressure Core::pressure_of(const Lun& lun) const {
  if (!several_luns.load(std::memory_order_relaxed)) return Pressure::none;
  const std::lock_guard lock(mutex);
  if (lun.waiting != 0) return Pressure::hard;
  return pressure_at(lun.live_ring.load(std::memory_order_relaxed) * 100, ring.limit() * options.lun_quota_percent);
}

}  // namespace zvolt::backing::journal
