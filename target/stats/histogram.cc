// HistogramSnapshot: see histogram.h. Runs on the reader's thread; the writer may go on meanwhile.
#include "target/stats/histogram.h"

#include <algorithm>
#include <cmath>

namespace zvolt::stats {

void HistogramSnapshot::add(const LatencyHistogram& h) {
  // The count is what the buckets say, so that percentiles are of one piece even while the writer is between two
  // stores.
  for (size_t i = 0; i < Buckets::kCount; ++i) {
    const uint64_t n = h.counts_[i].load(std::memory_order_relaxed);
    counts_[i] += n;
    count_ += n;
  }
  sum_ns_ += h.sum_ns_.load(std::memory_order_relaxed);
  max_ns_ = std::max(max_ns_, h.max_ns_.load(std::memory_order_relaxed));
}

uint64_t HistogramSnapshot::percentile_ns(double p) const {
  if (count_ == 0) return 0;
  // Nearest rank: the smallest value that at least p of all are not above.
  const double exact = std::ceil(std::clamp(p, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(exact), 1, count_);
  if (rank == count_) return max_ns_;
  uint64_t below = 0;
  for (size_t i = 0; i < Buckets::kCount; ++i) {
    below += counts_[i];
    if (below >= rank) return std::min(Buckets::midpoint_ns(i), max_ns_);
  }
  return max_ns_;
}

}  // namespace zvolt::stats
