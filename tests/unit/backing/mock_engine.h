// MockEngine: an engine that does nothing by itself. Tests look at what a store asked for and decide how each call
// ends. Parked requests that are finished, on any thread, run from reap(), as in the real engines. One thread
// otherwise.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
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
  void finish_from_any_thread(IoRequest& request) override {
    const std::lock_guard lock(mutex_);
    ready_.push_back(&request);
    wake_.notify_all();
  }
  void flush() override {
    run_before_flush();
    ++submissions_;
  }
  uint64_t submissions() const override { return submissions_; }
  size_t reap(size_t limit) override {
    size_t ran = 0;
    while (ran < limit) {
      IoRequest* request = take();
      if (request == nullptr) break;
      ++ran;
      --in_flight_;
      (request->step != nullptr ? request->step : request->done)(*request);
    }
    return ran;
  }
  void post(void (*fn)(void*), void* arg) override {
    if (!keep_posts) return fn(arg);
    posts.push_back({fn, arg});
  }
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
    finish_from_any_thread(*call.request);
    reap(SIZE_MAX);
  }
  // Waits until another thread has finished something, and runs what follows. False after 20 s.
  bool turn() {
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait_for(lock, std::chrono::seconds(20), [this] { return !ready_.empty(); })) return false;
    }
    reap(SIZE_MAX);
    return true;
  }

  std::deque<Call> calls;
  bool keep_posts = false;  // what others post waits in `posts`, as while this engine's shard is busy
  struct Post {
    void (*fn)(void*);
    void* arg;
  };
  std::deque<Post> posts;

 private:
  void add(const Call& call) {
    call.request->engine = this;
    call.request->error = 0;
    ++in_flight_;
    calls.push_back(call);
  }

  IoRequest* take() {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return nullptr;
    IoRequest* request = ready_.front();
    ready_.pop_front();
    return request;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<IoRequest*> ready_;  // guarded by mutex_
  size_t in_flight_ = 0;
  uint64_t submissions_ = 0;
  std::string description_ = "mock";
};

}  // namespace zvolt::backing
