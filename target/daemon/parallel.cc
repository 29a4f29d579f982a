// See parallel.h.
#include "target/daemon/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace zvolt::daemon {
namespace {

struct Run {
  std::function<void(size_t)> job;
  size_t count = 0;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0;
  size_t ended = 0;
  bool stopped = false;
};

void work(const std::shared_ptr<Run>& run) {
  std::unique_lock lock(run->mutex);
  while (!run->stopped && run->next < run->count) {
    const size_t index = run->next++;
    lock.unlock();
    run->job(index);
    lock.lock();
    ++run->ended;
    run->changed.notify_all();
  }
}

}  // namespace

bool run_parallel(size_t count, std::function<void(size_t)> job, std::chrono::milliseconds limit) {
  if (count == 0) return true;
  auto run = std::make_shared<Run>();
  run->job = std::move(job);
  run->count = count;
  const size_t threads = std::min<size_t>(count, kParallelJobs);
  for (size_t i = 0; i < threads; ++i) {
    try {
      std::thread([run] {
        pthread_setname_np(pthread_self(), "open");
        work(run);
      }).detach();
    } catch (const std::system_error&) {
      if (i == 0) throw;
      break;  // fewer do it too
    }
  }
  std::unique_lock lock(run->mutex);
  const bool all = run->changed.wait_for(lock, limit, [&] { return run->ended == count; });
  run->stopped = true;
  return all;
}

}  // namespace zvolt::daemon
