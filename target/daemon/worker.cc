// See worker.h.
#include "target/daemon/worker.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace zvolt::daemon {

struct Worker::State {
  void run();

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  unsigned threads = 0, busy = 0;
  bool stopping = false;
};

void Worker::State::run() {
  pthread_setname_np(pthread_self(), "worker");
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stopping || !jobs.empty(); });
    if (stopping) break;
    auto job = std::move(jobs.front());
    jobs.pop_front();
    ++busy;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    --busy;
    changed.notify_all();
  }
}

Worker::Worker() : state_(std::make_shared<State>()) {}

Worker::~Worker() {
  stop(std::chrono::milliseconds(0));
}

bool Worker::post(std::function<void()> job) {
  State& s = *state_;
  std::scoped_lock lock(s.mutex);
  if (s.stopping || s.jobs.size() >= kWorkerQueue) return false;
  if (s.busy + s.jobs.size() >= s.threads && s.threads < kWorkerThreads) {
    try {
      std::thread([state = state_] { state->run(); }).detach();
      ++s.threads;
    } catch (const std::system_error&) {
      if (s.threads == 0) return false;
    }
  }
  s.jobs.push_back(std::move(job));
  s.changed.notify_all();
  return true;
}

bool Worker::stop(std::chrono::milliseconds limit) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.jobs.clear();
  s.changed.notify_all();
  return s.changed.wait_for(lock, limit, [&s] { return s.busy == 0; });
}

}  // namespace zvolt::daemon
