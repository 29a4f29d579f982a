// RateLimiter: a volume's limit on commands and bytes per second, shared by all shards (GCRA, the leaky bucket as a
// meter): one atomic per limit says when the next command would be due at the limited rate. Booking never refuses; it
// says from when on a command may go, and the transport delays it until then. Any thread, no lock. An unlimited unit
// costs a READ or WRITE one relaxed load.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace zvolt::scsi {

struct RateLimit {
  uint64_t iops = 0;       // commands with media transfer per second; 0: no limit
  uint64_t bandwidth = 0;  // bytes per second; 0: no limit
  // What may be saved up while nothing is asked, as time at the full rate: 1000 IOPS and 2 s are 2000 commands at once.
  std::chrono::milliseconds burst{100};
  bool operator==(const RateLimit&) const = default;
};

class RateLimiter {
 public:
  bool active() const { return active_.load(std::memory_order_relaxed); }

  // Changes the limit. What was used up under the old one is forgotten; who waits asks again (see generation()).
  void set(const RateLimit& limit);
  // Grows with every set(): a command that waits for a time that an older limit gave books again.
  uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

  // Books one command that moves so many bytes. Returns when it may go on, on the clock of now_ns (CLOCK_MONOTONIC);
  // never before now_ns.
  uint64_t book(uint64_t bytes, uint64_t now_ns);

 private:
  static uint64_t take(std::atomic<uint64_t>& due, uint64_t cost_ns, uint64_t burst_ns, uint64_t now_ns);

  std::atomic<bool> active_{false};
  std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> iops_{0}, bandwidth_{0}, burst_ns_{0};
  // Written by every limited command of every shard, so away from what unlimited ones read.
  alignas(64) std::atomic<uint64_t> next_command_ns_{0};
  std::atomic<uint64_t> next_byte_ns_{0};
};

}  // namespace zvolt::scsi
