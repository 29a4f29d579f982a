// See worker_pool.h.
#include "backing/worker_pool.h"

#include <algorithm>
#include <system_error>

namespace zvolt::backing {

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::start_threads(size_t total) {
  while (threads_.size() < total) {
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // without one nothing would ever end
      return;
    }
  }
}

void WorkerPool::push(IoRequest& request) {
  RequestList one;
  one.push(request);
  push_all(one);
}

void WorkerPool::push_all(RequestList& requests) {
  if (threads_.empty()) start_threads(wanted_);
  size_t missing;
  {
    const std::lock_guard lock(mutex_);
    while (IoRequest* request = requests.pop()) add_locked(*request);
    missing = turns_.size() - std::min(turns_.size(), idle_);
  }
  // Threads that are about to look for work count as missing: at worst one too many is started, once.
  if (missing > 0) start_threads(std::min(threads_.size() + missing, kMostThreads));
}

void WorkerPool::add_locked(IoRequest& request) {
  Lane& lane = lanes_[request.owner];
  lane.queue.push(request);
  list_locked(lane);
}

void WorkerPool::list_locked(Lane& lane) {
  if (lane.listed || lane.queue.empty() || lane.running >= wanted_) return;
  lane.listed = true;
  turns_.push_back(&lane);
  wake_.notify_one();
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !turns_.empty(); });
    --idle_;
    if (turns_.empty()) return;
    Lane& lane = *turns_.front();
    turns_.pop_front();
    lane.listed = false;
    IoRequest& request = *lane.queue.pop();
    void* const owner = request.owner;
    ++lane.running;
    list_locked(lane);
    lock.unlock();
    request.work(request);
    const bool again = std::exchange(request.again, false);
    if (!again) engine_.finish_from_any_thread(request);  // may be gone from here on
    lock.lock();
    --lane.running;
    if (again) lane.queue.push(request);
    list_locked(lane);
    if (lane.running == 0 && lane.queue.empty()) lanes_.erase(owner);
  }
}

}  // namespace zvolt::backing
