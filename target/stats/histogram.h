// LatencyHistogram: log-linear counts of nanoseconds, 1 us to 100 s, error <= 2 %. Written by one shard thread without
// lock or locked instruction, read by any thread (relaxed atomics). Merged and asked for percentiles by the reader.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace zvolt::stats {

struct Buckets {
  // Values are counted in units of 32 ns: exact steps up to 1 us, then each power of two is cut into 32 (error at
  // most 1/64).
  static constexpr uint64_t kUnitNs = 32;
  static constexpr unsigned kSubBits = 5;
  static constexpr size_t kCount = 928;  // up to 2^39 ns = 549 s; the last bucket takes what is above
  static size_t index(uint64_t ns) {
    const uint64_t units = ns / kUnitNs;
    if (units < (1u << kSubBits)) return units;
    const unsigned e = static_cast<unsigned>(std::bit_width(units)) - 1 - kSubBits;
    const size_t i = (size_t{e} + 1) * 32 + ((units >> e) & 31);
    return i < kCount ? i : kCount - 1;
  }
  static uint64_t midpoint_ns(size_t i) {
    if (i < 32) return i * kUnitNs + kUnitNs / 2;
    const unsigned e = static_cast<unsigned>(i / 32) - 1;
    const uint64_t low = (32 + (i & 31)) << e;
    return (low * 2 + (uint64_t{1} << e)) * kUnitNs / 2;
  }
};

// Counters of the writing shard.
class LatencyHistogram {
 public:
  void record(uint64_t ns) {
    auto& c = counts_[Buckets::index(ns)];
    c.store(c.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    sum_ns_.store(sum_ns_.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
    if (ns > max_ns_.load(std::memory_order_relaxed)) max_ns_.store(ns, std::memory_order_relaxed);
  }

 private:
  friend class HistogramSnapshot;
  std::array<std::atomic<uint32_t>, Buckets::kCount> counts_{};
  std::atomic<uint64_t> sum_ns_{0};
  std::atomic<uint64_t> max_ns_{0};
};

// The reader's sum of histograms.
class HistogramSnapshot {
 public:
  void add(const LatencyHistogram& h);
  uint64_t count() const { return count_; }
  uint64_t max_ns() const { return max_ns_; }
  double mean_ns() const { return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_); }
  uint64_t percentile_ns(double p) const;  // p in [0, 1]; never above max_ns()

 private:
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(Buckets::kCount);
  uint64_t count_ = 0, sum_ns_ = 0, max_ns_ = 0;
};

}  // namespace zvolt::stats
