// See worker_pool.h.
#include "backing/worker_pool.h"

namespace zvolt::backing {

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::start() {
  threads_.reserve(wanted_);
  for (unsigned i = 0; i < wanted_; ++i) threads_.emplace_back([this] { run(); });
}

void WorkerPool::push(IoRequest& request) {
  if (threads_.empty()) start();
  {
    const std::lock_guard lock(mutex_);
    queue_.push(request);
  }
  wake_.notify_one();
}

void WorkerPool::push_all(RequestList& requests) {
  if (threads_.empty()) start();
  {
    const std::lock_guard lock(mutex_);
    queue_.append(requests);
  }
  wake_.notify_all();
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    IoRequest* request = queue_.pop();
    if (request == nullptr) return;
    lock.unlock();
    request->work(*request);
    engine_.finish_from_any_thread(*request);
    lock.lock();
  }
}

}  // namespace zvolt::backing
