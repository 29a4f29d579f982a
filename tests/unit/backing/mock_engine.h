// MockEngine: an engine that does nothing by itself. Tests look at what a store asked for and decide how each call
// ends. Parked requests that are finished run from reap(), as in the real engines. One thread.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "backing/io_engine.h"

namespace zvolt::backing {

class MockEngine final : public IoEngine {
 public:
  struct Call {
    IoRequest* request;
    int fd;
    bool sync;
    void (*work)(IoRequest&);
  };

  void queue(IoRequest& request, int fd) override { add({&request, fd, request.kind == IoKind::flush, nullptr}); }
  void queue_sync(IoRequest& request, int fd) override { add({&request, fd, true, nullptr}); }
  void offload(IoRequest& request, void (*work)(IoRequest&)) override { add({&request, -1, false, work}); }
  void park(IoRequest& request) override {
    request.engine = this;
    ++in_flight_;
  }
  void finish_from_any_thread(IoRequest& request) override { ready_.push_back(&request); }
  void flush() override { ++submissions_; }
  uint64_t submissions() const override { return submissions_; }
  size_t reap(size_t limit) override {
    size_t ran = 0;
    for (; ran < limit && !ready_.empty(); ++ran) {
      IoRequest* request = ready_.front();
      ready_.pop_front();
      --in_flight_;
      (request->step != nullptr ? request->step : request->done)(*request);
    }
    return ran;
  }
  void post(void (*fn)(void*), void* arg) override { fn(arg); }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return in_flight_; }
  const std::string& description() const override { return description_; }

  // Ends the oldest call with `error` and runs what follows from it.
  void complete(int error = 0) {
    const Call call = calls.front();
    calls.pop_front();
    call.request->error = error;
    if (call.work != nullptr && error == 0) {
      do {
        call.request->again = false;
        call.work(*call.request);
      } while (call.request->again);
    }
    ready_.push_back(call.request);
    reap(SIZE_MAX);
  }

  std::deque<Call> calls;

 private:
  void add(const Call& call) {
    call.request->engine = this;
    call.request->error = 0;
    ++in_flight_;
    calls.push_back(call);
  }

  std::deque<IoRequest*> ready_;
  size_t in_flight_ = 0;
  uint64_t submissions_ = 0;
  std::string description_ = "mock";
};

}  // namespace zvolt::backing
