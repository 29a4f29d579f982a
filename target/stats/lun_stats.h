// LunStats: what one LUN has done, per shard and operation class: counts, bytes, errors, in flight, and a histogram per
// stage. Each shard writes its own LunShardStats (no locks); the admin endpoint sums them. A LunShardStats is allocated
// when a shard first runs a command of that LUN, a class's histograms when the class is first seen.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scsi/task.h"
#include "target/stats/histogram.h"

namespace zvolt::stats {

// limit: delayed by the volume's rate limit; only of commands that were.
enum class Stage : uint8_t { total, receive, queue, store, send, limit };
inline constexpr size_t kStages = 6;
inline constexpr const char* kStageNames[kStages] = {"total", "receive", "queue", "store", "send", "limit"};
inline constexpr const char* kClassNames[scsi::kOpClasses] = {"read", "write", "flush", "unmap", "other"};

struct ClassStats {
  ~ClassStats() { delete limit.load(std::memory_order_relaxed); }
  std::array<LatencyHistogram, kStages - 1> stages;  // all but the last, Stage::limit
  std::atomic<LatencyHistogram*> limit{nullptr};     // allocated when a command was delayed
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> errors{0};  // status other than GOOD
};

class LunShardStats {
 public:
  ~LunShardStats();
  // Owner shard's thread. `bytes` moved, stamps complete.
  void record(scsi::OpClass op, const scsi::Stamps& stamps, uint64_t bytes, bool error);
  const ClassStats* of(scsi::OpClass op) const {
    return classes_[static_cast<size_t>(op)].load(std::memory_order_acquire);
  }
  // Owner shard's thread; plain adds, because nobody else writes.
  void count_start() { started_.store(started_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void count_finish() { finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  uint64_t in_flight() const;  // any thread

 private:
  std::atomic<uint64_t> started_{0}, finished_{0};
  ClassStats& need(scsi::OpClass op);
  static void record_limit(ClassStats& stats, uint64_t nanoseconds);
  std::array<std::atomic<ClassStats*>, scsi::kOpClasses> classes_{};
};

// One per volume name; lives as long as the server.
class LunStats {
 public:
  explicit LunStats(std::string name, size_t shards) : name_(std::move(name)), shards_(shards) {}
  LunShardStats& shard(size_t index);  // that shard's thread; allocates on first use
  const std::string& name() const { return name_; }

  struct Summary {
    HistogramSnapshot stages[kStages];
    uint64_t bytes = 0, errors = 0;
  };
  Summary summary(scsi::OpClass op) const;  // any thread
  uint64_t in_flight() const;

 private:
  std::string name_;
  std::vector<std::atomic<LunShardStats*>> shards_;

 public:
  ~LunStats();
};

}  // namespace zvolt::stats
