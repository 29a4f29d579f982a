// ShardCount: how many operations are inside something (a write gate, an open device). Each shard counts in a counter
// of its own: no locked instruction, no cache line shared between shards. Used with a state that says whether one may
// enter:
//
//   enter   add(engine, 1), then read the state; when it says no: add(engine, -1)
//   leave   add(engine, -1), then read the state; when it says "closing" and zero(): tell who waits
//   close   write the state, fence(), then zero() is exact: whoever is inside is seen, whoever comes sees the state
//
// That needs a store-load barrier on both sides. The counting side is hot and closing is rare, so closing pays for both
// (membarrier); where the kernel refuses membarrier the hot side uses seq_cst. All state accesses are seq_cst loads
// (free on x86) and stores. Any thread; add() on the engine's shard.
#pragma once

#include <array>
#include <atomic>

#include "backing/io_engine.h"

namespace zvolt::backing {

class ShardCount {
 public:
  ShardCount();

  void add(const IoEngine& engine, int64_t delta) {
    std::atomic<int64_t>& count = counters_[engine.slot()].inside;
    if (asymmetric_ && engine.slot() < IoEngine::kSlots) {
      count.store(count.load(std::memory_order_relaxed) + delta, std::memory_order_release);  // this shard's alone
      std::atomic_signal_fence(std::memory_order_seq_cst);                                    // fence() does the rest
    } else {
      count.fetch_add(delta, std::memory_order_seq_cst);
    }
  }
  void fence() const;
  int64_t sum() const;  // exact when nobody can enter
  bool zero() const;    // an operation enters and leaves on one shard, so each counter stands for itself

 private:
  static constexpr unsigned kCounters = IoEngine::kSlots + 1;  // the last is shared by engines without a number
  struct alignas(64) Counter {
    std::atomic<int64_t> inside{0};
  };

  const bool asymmetric_;  // membarrier works
  std::array<Counter, kCounters> counters_;
};

}  // namespace zvolt::backing
