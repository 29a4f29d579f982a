// See rate_limit.h.
#include "scsi/rate_limit.h"

namespace zvolt::scsi {

namespace {
constexpr uint64_t kNanoseconds = 1'000'000'000;
// A command's cost in time, at most: 2^33 bytes at 1 byte/s must not overflow the clock.
constexpr uint64_t kMaxCost = 3600 * kNanoseconds;
}  // namespace

void RateLimiter::set(const RateLimit& limit) {
  iops_.store(limit.iops, std::memory_order_relaxed);
  bandwidth_.store(limit.bandwidth, std::memory_order_relaxed);
  const auto burst = std::max<std::chrono::nanoseconds>(limit.burst, std::chrono::nanoseconds(0));
  burst_ns_.store(static_cast<uint64_t>(burst.count()), std::memory_order_relaxed);
  next_command_ns_.store(0, std::memory_order_relaxed);
  next_byte_ns_.store(0, std::memory_order_relaxed);
  active_.store(limit.iops != 0 || limit.bandwidth != 0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
}

// `due`: when the next command would start if all had gone at exactly the limited rate. It lies ahead of the clock by
// what was used above the rate; a command waits as long as that is more than the burst.
uint64_t RateLimiter::take(std::atomic<uint64_t>& due, uint64_t cost_ns, uint64_t burst_ns, uint64_t now_ns) {
  uint64_t old = due.load(std::memory_order_relaxed);
  uint64_t start = 0;
  do {
    start = std::max(old, now_ns);
  } while (!due.compare_exchange_weak(old, start + cost_ns, std::memory_order_relaxed));
  return start - std::min(burst_ns, start - now_ns);
}

uint64_t RateLimiter::book(uint64_t bytes, uint64_t now_ns) {
  const uint64_t iops = iops_.load(std::memory_order_relaxed);
  const uint64_t bandwidth = bandwidth_.load(std::memory_order_relaxed);
  const uint64_t burst = burst_ns_.load(std::memory_order_relaxed);
  uint64_t when = now_ns;
  if (iops != 0) when = take(next_command_ns_, kNanoseconds / iops, burst, now_ns);
  if (bandwidth != 0) {
    const auto cost = static_cast<unsigned __int128>(bytes) * kNanoseconds / bandwidth;
    const uint64_t bounded = cost > kMaxCost ? kMaxCost : static_cast<uint64_t>(cost);
    when = std::max(when, take(next_byte_ns_, bounded, burst, now_ns));
  }
  return when;
}

}  // namespace zvolt::scsi
