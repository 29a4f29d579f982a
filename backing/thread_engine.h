// ThreadEngine: plain system calls on worker threads, for kernels that forbid or lack io_uring, and for tests.
// Threading as IoEngine.
#pragma once

#include "backing/engine_base.h"

namespace zvolt::backing {

class ThreadEngine final : public EngineBase {
 public:
  ThreadEngine(const EngineOptions& options, const std::string& reason);

  void queue(IoRequest& request, int fd) override;
  void queue_sync(IoRequest& request, int fd) override;
  void flush() override;
  uint64_t submissions() const override { return submissions_; }
  size_t reap(size_t limit) override;
  int wait_fd() const override { return mailbox_.event_fd(); }

 private:
  static void perform(IoRequest& request);

  RequestList batch_;  // queued since the last flush()
  uint64_t submissions_ = 0;
  int64_t events_owed_ = 0;  // signals acted upon whose event has not been read yet; below 0: read ahead of them
};

}  // namespace zvolt::backing
