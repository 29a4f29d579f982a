// IoEngine: how a store's requests reach the kernel. One per shard, used only on that shard's thread (but
// finish_from_any_thread). Implementations: UringEngine (io_uring + worker pool) and ThreadEngine (worker pool only, the
// fallback); tests may bring a mock. Stores queue; the shard calls flush() once a burst, so that a burst costs one syscall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backing/block_store.h"

namespace zvolt::backing {

class BufferPool;

class IoEngine {
 public:
  virtual ~IoEngine() = default;

  // Queue an asynchronous operation on fd for `request` (kind read, write, flush, write_zeroes, discard by fallocate).
  // Short transfers are carried on by the engine. Completes through request.done from reap().
  virtual void queue(IoRequest& request, int fd) = 0;

  // Run `work(request)` on a worker thread (ioctls such as BLKDISCARD, SEEK_HOLE, anything that can block). work sets
  // request.error; completion as above. The pool has a fixed number of threads and an unbounded intrusive queue.
  virtual void offload(IoRequest& request, void (*work)(IoRequest&)) = 0;

  // Submit everything queued with one io_uring_enter. Called at the end of every burst. Cheap when nothing is queued.
  virtual void flush() = 0;

  // Run the completions that are ready, at most `limit`; returns how many ran. Their done() may queue more requests.
  virtual size_t reap(size_t limit) = 0;

  // Readable when reap() has something to do (level-triggered): what the shard waits for. Owned by the engine.
  virtual int wait_fd() const = 0;

  virtual size_t in_flight() const = 0;  // requests queued and not completed
};

struct EngineOptions {
  unsigned ring_entries = 256;    // submission queue entries: more are submitted in several enters
  unsigned worker_threads = 2;    // per shard, started on first use
  bool allow_uring = true;        // false: thread engine (tests, kernels that forbid io_uring)
};

// The best engine that this kernel allows; logs once what is missing and why the fallback was taken.
std::unique_ptr<IoEngine> make_engine(const EngineOptions& options);

}  // namespace zvolt::backing
