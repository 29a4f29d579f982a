// UringEngine: io_uring, one ring per shard, plus the worker pool for what the ring cannot do. Made by make_engine();
// threading as IoEngine.
//
// The shard waits for the ring's own descriptor (no eventfd per completion). Other threads' completions come through
// the mailbox, whose eventfd the ring polls, so that the same descriptor becomes readable.
//
// Ring set-up: COOP_TASKRUN (5.19): a completion does not interrupt this thread but is posted at its next system call,
// in a batch; a sleep in epoll_wait is ended by it (EINTR, which Asio repeats). TASKRUN_FLAG lets reap() fetch what is
// pending. Not DEFER_TASKRUN: its deferred work wakes no poll or epoll wait on the ring's descriptor (seen on 6.18: the
// waiter sleeps until its timeout), only io_uring_enter or a registered eventfd, which costs a read() per wake-up.
//
// Writes that follow each other in offset and in the burst are merged into one vectored write (a 4 KiB write costs a
// zvol a read-modify-write of its whole volblock; four in one do not). One that fails is done again request by request,
// so that each has its own error.
#pragma once

#include <liburing.h>

#include <memory>

#include "backing/engine_base.h"

namespace zvolt::backing {

class UringEngine final : public EngineBase {
 public:
  // Null when this kernel does not allow a ring that serves our operations; `why` says what is missing.
  static std::unique_ptr<UringEngine> create(const EngineOptions& options, std::string& why);
  ~UringEngine() override;

  void queue(IoRequest& request, int fd) override;
  void queue_sync(IoRequest& request, int fd) override;
  void flush() override;
  uint64_t submissions() const override { return submissions_; }
  size_t reap(size_t limit) override;
  int wait_fd() const override { return ring_.ring_fd; }

 private:
  struct Completion {
    uint64_t tag;
    int result;
    unsigned flags;
  };

  // Contiguous writes as one. Not counted as in flight: its members are.
  struct Merged {
    static constexpr unsigned kMostParts = 64;  // iovs: the largest merged write in 4 KiB parts
    IoRequest request;
    RequestList members;
    iovec parts[kMostParts];
    Merged* next_free = nullptr;
  };
  static constexpr uint64_t kSmallWrite = uint64_t{64} << 10;   // bytes; larger ones gain nothing by company
  static constexpr uint64_t kMostMerged = uint64_t{256} << 10;  // bytes; more would cost the device its parallelism
  static constexpr size_t kMostMergedWrites = 64;               // of one engine at a time, about 1.3 KiB each
  static constexpr uint8_t kMerged = 3;                         // stage

  UringEngine(const EngineOptions& options, const io_uring& ring);

  void on_own() override;
  io_uring_sqe* next_sqe();        // null when the kernel takes no more for now
  void start(IoRequest& request);  // into the ring, or the backlog
  void prepare(io_uring_sqe& sqe, IoRequest& request) const;
  void start_backlog();
  void arm_wake();                 // polls the mailbox's eventfd
  size_t reap_ring(size_t limit);  // completions taken from the ring
  void on_wake(const Completion& done);
  void on_cqe(IoRequest& request, int result);
  void gather(IoRequest& write);  // into run_
  void close_run();               // run_ goes to the ring
  Merged* take_merged();          // null when there are enough
  void on_merged(Merged& merged, int result);

  io_uring ring_;
  RequestList backlog_;  // did not fit into the submission queue
  RequestList run_;      // contiguous writes of one descriptor, not in the ring yet
  unsigned run_writes_ = 0;
  unsigned run_parts_ = 0;
  uint64_t run_begin_ = 0;  // bytes
  uint64_t run_end_ = 0;
  int run_fd_ = -1;
  std::vector<std::unique_ptr<Merged>> merged_;
  Merged* free_merged_ = nullptr;
  uint64_t submissions_ = 0;
  bool multishot_ = true;
  bool wake_armed_ = false;
};

}  // namespace zvolt::backing
