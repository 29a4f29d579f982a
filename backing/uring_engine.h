// UringEngine: io_uring, one ring per shard, plus the worker pool for what the ring cannot do. Made by make_engine();
// threading as IoEngine.
//
// The shard waits for the ring's own descriptor (no eventfd per completion). Other threads' completions come through
// the mailbox, whose eventfd the ring polls, so that the same descriptor becomes readable.
//
// Ring set-up: SINGLE_ISSUER + DEFER_TASKRUN where the kernel has them (6.1): completions are then posted when this
// thread asks for them, in one batch, and never interrupt it in the middle of a socket call; the ring's descriptor
// reports such deferred work as readable (io_uring_poll: io_has_work), so an epoll wait on it wakes. TASKRUN_FLAG lets
// reap() see deferred work without a system call. Older kernels: COOP_TASKRUN, then none.
// The ring is created disabled and enabled by the thread that first uses it, which becomes its single issuer.
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
  bool disabled_;  // IORING_SETUP_R_DISABLED: to be enabled by its thread
  bool multishot_ = true;
  bool wake_armed_ = false;
};

}  // namespace zvolt::backing
