// Worker: a few threads for what the admin endpoint, SIGHUP and the watcher must not wait for: plan, apply, offline,
// resize. They may hang in devices and commands, so their number and their queue are bounded and they are not joined
// without a limit. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace zvolt::daemon {

inline constexpr unsigned kWorkerThreads = 4;  // one hung device leaves three
inline constexpr size_t kWorkerQueue = 64;     // jobs that wait; further ones are refused

class Worker {
 public:
  Worker();
  ~Worker();  // takes no more and does not wait
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False: too many wait already, or stop() was called. Jobs must not throw.
  bool post(std::function<void()> job);
  // Forgets what waits, and waits for what runs. False: something still runs after `limit`.
  bool stop(std::chrono::milliseconds limit);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zvolt::daemon
