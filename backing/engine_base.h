// EngineBase: what both engines share: requests in flight, completion, the mailbox of other threads, the worker pool.
// Threading as IoEngine: all of it on the engine's thread except finish_from_any_thread().
#pragma once

#include <atomic>
#include <thread>

#include "backing/mailbox.h"

namespace zvolt::backing {

class EngineBase : public IoEngine {
 public:
  ~EngineBase() override;
  void offload(IoRequest& request, void (*work)(IoRequest&)) override;
  void park(IoRequest& request) override;
  void finish_from_any_thread(IoRequest& request) override;
  void post(void (*fn)(void*), void* arg) override;
  size_t in_flight() const final { return in_flight_; }
  const std::string& description() const final { return description_; }

 protected:
  explicit EngineBase(unsigned worker_threads) : workers_(*this, worker_threads) {}

  void accept(IoRequest& request, int fd, uint8_t stage);  // counts it and resets the engine's scratch
  void complete(IoRequest& request);                       // runs step or done
  size_t run_ready(size_t limit);                          // completes what stands in ready_
  void own();                                              // first use: this thread is the engine's
  virtual void on_own() {}

  static constexpr uint8_t kTransfer = 0;
  static constexpr uint8_t kSync = 1;
  static constexpr uint8_t kPosted = 2;  // a function of another thread, not an I/O in flight

  std::string description_;
  Mailbox mailbox_;
  RequestList ready_;  // finished, not yet completed
  size_t in_flight_ = 0;
  bool reaping_ = false;
  WorkerPool workers_;  // last: joined before the mailbox goes

 private:
  bool owned_ = false;
  std::atomic<std::thread::id> owner_{};  // read by any thread
};

// The range operations that are one fallocate call. fd is request.fd. Sets request.error.
void fallocate_request(IoRequest& request);

}  // namespace zvolt::backing
