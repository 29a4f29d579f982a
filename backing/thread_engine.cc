// See thread_engine.h.
#include "backing/thread_engine.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>

#include "backing/transfer.h"

namespace zvolt::backing {

namespace {

// Every request in progress needs a thread here, so the depth that the store sees is this number.
constexpr unsigned kLeastThreads = 8;

int sync_data(int fd) {
  for (uint8_t tries = 0;; ++tries) {
    if (fdatasync(fd) == 0) return 0;
    if (!worth_retry(errno) || tries >= kMaxRetries) return errno;
  }
}

}  // namespace

ThreadEngine::ThreadEngine(const EngineOptions& options, const std::string& reason)
    : EngineBase(std::max(options.worker_threads, kLeastThreads)) {
  description_ = "worker threads (" + std::to_string(std::max(options.worker_threads, kLeastThreads)) + "): " + reason;
}

void ThreadEngine::queue(IoRequest& request, int fd) {
  accept(request, fd, request.kind == IoKind::flush ? kSync : kTransfer);
  request.work = perform;
  batch_.push(request);
}

void ThreadEngine::queue_sync(IoRequest& request, int fd) {
  accept(request, fd, kSync);
  request.work = perform;
  batch_.push(request);
}

void ThreadEngine::flush() {
  own();
  run_before_flush();
  if (batch_.empty()) return;
  ++submissions_;
  workers_.push_all(batch_);
}

size_t ThreadEngine::reap(size_t limit) {
  own();
  reaping_ = true;
  // A poster may be between its signal and its write to the event: what it brought is taken, the event comes later and
  // must be read then, or wait_fd() stays readable.
  const bool signalled = mailbox_.signalled();
  if (signalled || events_owed_ > 0) events_owed_ -= static_cast<int64_t>(mailbox_.clear_event());
  if (signalled) {
    ++events_owed_;
    mailbox_.collect(ready_);
  }
  const size_t ran = run_ready(limit);
  reaping_ = false;
  if (!ready_.empty()) mailbox_.signal();
  return ran;
}

void ThreadEngine::perform(IoRequest& request) {
  if (request.stage == kSync) {
    request.error = sync_data(request.fd);
  } else if (request.kind == IoKind::read || request.kind == IoKind::write) {
    transfer_all(request, request.fd);
  } else {
    fallocate_request(request);
  }
}

}  // namespace zvolt::backing
