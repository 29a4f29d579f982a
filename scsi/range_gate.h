// RangeGate: holds commands back from byte ranges of a unit. Today's only holders are orphans
// (LogicalUnit::hold_range). Threading: active() is one relaxed load, and all that a READ or WRITE pays while nothing
// is held; the rest takes a mutex and may be called on any thread. A held task goes on on its own shard, through
// IoEngine::post().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "scsi/task.h"

namespace zvolt::scsi {

class RangeGate {
 public:
  bool active() const { return holds_count_.load(std::memory_order_relaxed) != 0; }

  void hold(uint64_t offset, uint64_t length);
  void release(uint64_t offset, uint64_t length);

  // Commands that are kept now.
  size_t kept() const;

  // When the range overlaps a hold: keeps the task until it does not any more, and returns true. The task then starts
  // again from its handler (resume_held_task, scsi/it_nexus.cc).
  bool keep_if_held(Task& task, uint64_t offset, uint64_t length);
  // Takes a kept task out. False: it was not here, or is on its way back to its shard.
  bool withdraw(Task& task);

 private:
  struct Range {
    uint64_t offset;
    uint64_t length;
  };
  bool overlaps_hold(uint64_t offset, uint64_t length) const;

  std::atomic<uint32_t> holds_count_{0};
  mutable std::mutex mutex_;    // guards what follows
  std::vector<Range> holds_;    // bounded by the requests in flight of sessions that are gone
  Task* first_kept_ = nullptr;  // in order of arrival
  Task* last_kept_ = nullptr;
};

}  // namespace zvolt::scsi
