// FlushCombiner: one per store; makes one fdatasync out of the flushes of a burst, and of all shards.
//
// At most one sync of a store is in the kernel. Flushes that come while it runs wait and share the next one (the
// running one may have begun before their writes were done); those that come before it was submitted join it. Being
// alone also closes a hole: the kernel tells a writeback error to one fdatasync of a descriptor only, and a second sync
// running beside the failing one would report success for lost data. An engine leads only while a request of its own
// waits: one that was made for a moment (the flush of `offline`) may be gone when that is answered. A failed sync is
// sticky: every later flush fails with the same error until the store is opened anew. Thread-safe; a mutex is held for
// a few instructions. Requests complete on the shard that submitted them.
#pragma once

#include <atomic>
#include <mutex>

#include "backing/worker_pool.h"

namespace zvolt::backing {

class FlushCombiner {
 public:
  explicit FlushCombiner(int sticky_error = 0) : sticky_(sticky_error) {}

  // `request` completes through its step or done when everything written before now is durable. `done` is returned
  // only for a flush that fails at once because an earlier one failed.
  Submitted submit(IoRequest& request, IoEngine& engine, int fd);

  // For a store that knows why syncs failed: nothing was lost (the device refused while it was read-only).
  void forgive() { sticky_.store(0, std::memory_order_release); }
  int sticky_error() const { return sticky_.load(std::memory_order_acquire); }
  uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }  // handed to engines so far

 private:
  static void on_synced(IoRequest& sync) noexcept;
  static void start_posted(void* combiner);
  void start_locked(IoEngine& engine);
  IoEngine* lead_next_locked();
  void finish(int error);

  std::mutex mutex_;
  bool running_ = false;        // sync_ is on its way
  bool starting_ = false;       // running_, but sync_ is not queued yet: its engine is on another thread
  uint64_t submission_ = 0;     // of leader_'s engine, when sync_ was queued
  IoEngine* leader_ = nullptr;  // engine that runs sync_
  RequestList current_;         // served by sync_
  RequestList waiting_;         // served by the next
  IoRequest sync_;
  int fd_ = -1;
  std::atomic<int> sticky_;
  std::atomic<uint64_t> syncs_{0};
};

}  // namespace zvolt::backing
