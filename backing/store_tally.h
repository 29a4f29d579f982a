// StoreTally: the counters behind BlockStore::counters(), one cache line a shard; shared by the successive openings of
// a followed device. add() on a shard, with its engine; sum() on any thread.
#pragma once

#include <array>
#include <atomic>

#include "backing/io_engine.h"

namespace zvolt::backing {

class StoreTally {
 public:
  enum Counted : unsigned { kRmw, kPartialWrites, kMergedWrites, kSpaceRetries, kCounts };

  void add(const IoEngine& engine, Counted what) {
    std::atomic<uint64_t>& count = lines_[engine.slot()].counts[what];
    if (engine.slot() < IoEngine::kSlots) {
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // this shard's alone
    } else {
      count.fetch_add(1, std::memory_order_relaxed);
    }
  }
  StoreCounters sum() const {
    StoreCounters all;
    for (const Line& line : lines_) {
      all.rmw += line.counts[kRmw].load(std::memory_order_relaxed);
      all.partial_writes += line.counts[kPartialWrites].load(std::memory_order_relaxed);
      all.merged_writes += line.counts[kMergedWrites].load(std::memory_order_relaxed);
      all.space_retries += line.counts[kSpaceRetries].load(std::memory_order_relaxed);
    }
    return all;
  }

 private:
  struct alignas(64) Line {
    std::atomic<uint64_t> counts[kCounts] = {};
  };
  std::array<Line, IoEngine::kSlots + 1> lines_;  // the last is shared by engines without a number
};

}  // namespace zvolt::backing
