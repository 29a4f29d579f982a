// WriteGate: the order between read-modify-writes of part of a block and every other write of that block, on all
// shards. One per store whose io_alignment is above 1. Used by ordered_op.cc; nothing here blocks a thread.
//
// Two modes. *Untracked* (from open until the first write that is not aligned, for most stores for ever): an aligned
// write counts itself in a counter of its own shard and reads one flag: no locked instruction, no shared cache line.
// *Tracked* (from then on, for good): every write holds its range; a plain write shares it with other plain writes
// (callers order those), a read-modify-write has it alone. The change of mode waits for the untracked writes in flight,
// so no write can lie between the read and the write of a read-modify-write unseen.
//
// The counters, and the barrier between them and the flag: shard_count.h.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "backing/io_engine.h"
#include "backing/shard_count.h"

namespace zvolt::backing {

// A claim on [begin, end) in bytes. Owned by the operation; lives from acquire() to release().
struct Hold {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool exclusive = false;
  IoRequest* waiter = nullptr;  // handed to its engine (finish_from_any_thread) when acquire() is to be called again
  uint64_t missing = 0;         // stripes not yet held, one bit each
  uint64_t held = 0;
};

class WriteGate {
 public:
  // Untracked mode: true, and leave() must follow on the same shard. False: take a Hold.
  bool enter(const IoEngine& engine);
  void leave(const IoEngine& engine);

  // Changes to tracked mode and returns true once no untracked write is in flight; false: `waiter` (parked by the
  // caller on return) is handed to its engine when that is so. Called before each exclusive acquire().
  bool settled(IoRequest& waiter);

  // True: held. False: hold.waiter (parked by the caller on return) is handed to its engine, which then calls
  // acquire() again (it goes on where it stopped). `fresh` on the first call.
  bool acquire(Hold& hold, bool fresh);
  void release(Hold& hold);

  bool tracked() const { return state_.load(std::memory_order_relaxed) != kUntracked; }

 private:
  static constexpr unsigned kStripes = 64;      // bits of Hold::missing
  static constexpr unsigned kRegionShift = 20;  // 1 MiB of the store to a stripe: most requests touch one

  enum State : int { kUntracked, kSwitching, kTracked };
  struct alignas(64) Stripe {
    std::mutex mutex;
    std::vector<Hold*> active;
    std::vector<Hold*> waiting;  // in order of arrival
  };

  static uint64_t stripes_of(const Hold& hold);
  static bool conflict(const std::vector<Hold*>& holds, size_t count, const Hold& hold);
  void begin_switch_locked();
  void check_drained();
  static void grant(Stripe& stripe, uint64_t bit, std::vector<Hold*>& granted);

  std::atomic<int> state_{kUntracked};
  ShardCount untracked_;  // writes in flight that hold no range
  std::array<Stripe, kStripes> stripes_;
  std::mutex switch_mutex_;
  std::vector<IoRequest*> switch_waiters_;  // guarded by switch_mutex_
};

}  // namespace zvolt::backing
