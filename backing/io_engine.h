// IoEngine: how a store's requests reach the kernel. One per shard, used only on that shard's thread (but
// post). Implementations: UringEngine (io_uring + worker pool) and ThreadEngine (worker pool only, the
// fallback); tests may bring a mock. Stores queue; the shard calls flush() once a burst, so that a burst costs one
// syscall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backing/block_store.h"

namespace zvolt::backing {

class BufferPool;

class IoEngine {
 public:
  static constexpr unsigned kSlots = 64;  // engines with a number of their own; there is one engine per core or so

  IoEngine();
  virtual ~IoEngine();  // nothing may be in flight
  IoEngine(const IoEngine&) = delete;
  IoEngine& operator=(const IoEngine&) = delete;

  // Queue an asynchronous operation on fd for `request` (kind read, write, flush, write_zeroes, discard by fallocate).
  // Short transfers are carried on by the engine. Completes through request.done from reap().
  virtual void queue(IoRequest& request, int fd) = 0;

  // Queue fdatasync(fd) for `request`, whatever its kind. Not combined here: see flush_combiner.h.
  virtual void queue_sync(IoRequest& request, int fd) = 0;

  // Run `work(request)` on a worker thread (ioctls such as BLKDISCARD, SEEK_HOLE, anything that can block). work sets
  // request.error; completion as above. The pool has a fixed number of threads and an unbounded intrusive queue.
  virtual void offload(IoRequest& request, void (*work)(IoRequest&)) = 0;

  // One request of this shard waits outside the engine (for a lock, a timer, another shard's flush) and counts as in
  // flight until it is handed in by finish_from_any_thread(): then its step, or done, runs from reap(). A request whose
  // `engine` is already this one may be handed in by another thread before park() is called.
  virtual void park(IoRequest& request) = 0;
  virtual void finish_from_any_thread(IoRequest& request) = 0;

  // Submit everything queued with one io_uring_enter. Called at the end of every burst, and after reap(). No system
  // call when nothing is queued.
  virtual void flush() = 0;

  // Run fn(arg, *this) once, on this thread, at the beginning of the next flush(): for what gathers a burst's requests
  // and queues one of its own for all of them (the journal's commit). Called on this thread; repeating it is free.
  using BeforeFlushFn = void (*)(void*, IoEngine&);
  void before_flush(BeforeFlushFn fn, void* arg) {
    if (before_flush_.empty() || before_flush_.back() != BeforeFlush{fn, arg}) before_flush_.push_back({fn, arg});
  }

  // Grows with every submission to the kernel: what was queued at the same number has not been submitted yet.
  virtual uint64_t submissions() const = 0;

  // Run the completions that are ready, at most `limit`; returns how many ran. Their done() may queue more requests.
  virtual size_t reap(size_t limit) = 0;

  // Run fn(arg) on the engine's shard, from reap(). Callable from any thread; in the order of posting. Wakes wait_fd()
  // once the shard has called reap() or flush() for the first time, so it does that before it first waits.
  // What was posted and not reaped when the engine is destroyed is dropped, not run.
  virtual void post(void (*fn)(void*), void* arg) = 0;

  // Readable when reap() has something to do (level-triggered): what the shard waits for. Owned by the engine.
  virtual int wait_fd() const = 0;

  virtual size_t in_flight() const = 0;  // requests queued and not completed

  // For the log: "io_uring (single issuer, ...)" or why it is not io_uring.
  virtual const std::string& description() const = 0;

  // A small number no other living engine has, or kSlots when there are too many: the index of per-shard state.
  unsigned slot() const { return slot_; }

 protected:
  void run_before_flush();  // first thing in every implementation's flush()

 private:
  struct BeforeFlush {
    bool operator==(const BeforeFlush&) const = default;
    BeforeFlushFn fn;
    void* arg;
  };

  unsigned slot_;
  std::vector<BeforeFlush> before_flush_;
  bool running_before_flush_ = false;
};

struct EngineOptions {
  unsigned ring_entries = 256;  // submission queue entries: more are submitted in several enters
  unsigned worker_threads = 2;  // per shard, started on first use
  bool allow_uring = true;      // false: thread engine (tests, kernels that forbid io_uring)
};

// The best engine that this kernel allows; description() says what is missing and why a fallback was taken. May be
// called on any thread: the engine belongs to the thread that first uses it.
std::unique_ptr<IoEngine> make_engine(const EngineOptions& options);

}  // namespace zvolt::backing
