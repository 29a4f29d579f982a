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

  io_uring ring_;
  RequestList backlog_;  // did not fit into the submission queue
  uint64_t submissions_ = 0;
  bool multishot_ = true;
  bool wake_armed_ = false;
};

}  // namespace zvolt::backing
