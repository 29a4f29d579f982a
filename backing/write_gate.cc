// See write_gate.h.
#include "backing/write_gate.h"

#include <algorithm>
#include <bit>

namespace zvolt::backing {

bool WriteGate::enter(const IoEngine& engine) {
  untracked_.add(engine, 1);
  if (state_.load(std::memory_order_seq_cst) == kUntracked) return true;
  leave(engine);
  return false;
}

void WriteGate::leave(const IoEngine& engine) {
  untracked_.add(engine, -1);
  if (state_.load(std::memory_order_seq_cst) == kSwitching) check_drained();
}

void WriteGate::begin_switch_locked() {
  if (state_.load(std::memory_order_relaxed) != kUntracked) return;
  state_.store(kSwitching, std::memory_order_seq_cst);
  untracked_.fence();
}

bool WriteGate::settled(IoRequest& waiter) {
  if (state_.load(std::memory_order_acquire) == kTracked) return true;
  const std::lock_guard lock(switch_mutex_);
  begin_switch_locked();
  if (state_.load(std::memory_order_relaxed) == kSwitching && untracked_.zero())
    state_.store(kTracked, std::memory_order_seq_cst);
  if (state_.load(std::memory_order_relaxed) == kTracked) return true;
  switch_waiters_.push_back(&waiter);
  return false;
}

void WriteGate::check_drained() {
  std::vector<IoRequest*> ready;
  {
    const std::lock_guard lock(switch_mutex_);
    if (state_.load(std::memory_order_relaxed) == kSwitching && untracked_.zero()) {
      state_.store(kTracked, std::memory_order_seq_cst);
    }
    // A writer that looked in while the switch began may be the last to leave: whoever sees it drained lets all go.
    if (state_.load(std::memory_order_relaxed) == kTracked) ready.swap(switch_waiters_);
  }
  for (IoRequest* waiter : ready) waiter->engine->finish_from_any_thread(*waiter);
}

uint64_t WriteGate::stripes_of(const Hold& hold) {
  const uint64_t first = hold.begin >> kRegionShift;
  const uint64_t last = (hold.end - 1) >> kRegionShift;
  const uint64_t count = last - first + 1;
  if (count >= kStripes) return ~uint64_t{0};
  return std::rotl((uint64_t{1} << count) - 1, static_cast<int>(first % kStripes));
}

bool WriteGate::conflict(const std::vector<Hold*>& holds, size_t count, const Hold& hold) {
  for (size_t i = 0; i < count; ++i) {
    const Hold& other = *holds[i];
    const bool overlap = other.begin < hold.end && hold.begin < other.end;
    if (overlap && (other.exclusive || hold.exclusive)) return true;
  }
  return false;
}

// Stripes are taken in ascending order by everybody, so no circle of waiters can form.
bool WriteGate::acquire(Hold& hold, bool fresh) {
  if (fresh) {
    hold.missing = hold.held = stripes_of(hold);
  }
  while (hold.missing != 0) {
    const uint64_t bit = hold.missing & (~hold.missing + 1);
    Stripe& stripe = stripes_[static_cast<size_t>(std::countr_zero(bit))];
    const std::lock_guard lock(stripe.mutex);
    // Earlier waiters go first, else a stream of plain writes would starve a read-modify-write.
    if (conflict(stripe.active, stripe.active.size(), hold) || conflict(stripe.waiting, stripe.waiting.size(), hold)) {
      stripe.waiting.push_back(&hold);
      return false;
    }
    stripe.active.push_back(&hold);
    hold.missing &= ~bit;
  }
  return true;
}

// Requires: the stripe's mutex. The holds that may go on, oldest first, become active in this stripe.
void WriteGate::grant(Stripe& stripe, uint64_t bit, std::vector<Hold*>& granted) {
  size_t kept = 0;
  for (size_t i = 0; i < stripe.waiting.size(); ++i) {
    Hold* hold = stripe.waiting[i];
    if (conflict(stripe.active, stripe.active.size(), *hold) || conflict(stripe.waiting, kept, *hold)) {
      stripe.waiting[kept++] = hold;
      continue;
    }
    stripe.active.push_back(hold);
    hold->missing &= ~bit;
    granted.push_back(hold);
  }
  stripe.waiting.resize(kept);
}

void WriteGate::release(Hold& hold) {
  std::vector<Hold*> granted;
  for (uint64_t left = hold.held; left != 0; left &= left - 1) {
    const uint64_t bit = left & (~left + 1);
    Stripe& stripe = stripes_[static_cast<size_t>(std::countr_zero(bit))];
    const std::lock_guard lock(stripe.mutex);
    const auto mine = std::find(stripe.active.begin(), stripe.active.end(), &hold);
    *mine = stripe.active.back();
    stripe.active.pop_back();
    if (!stripe.waiting.empty()) grant(stripe, bit, granted);
  }
  for (Hold* next : granted) next->waiter->engine->finish_from_any_thread(*next->waiter);
}

}  // namespace zvolt::backing
