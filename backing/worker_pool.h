// WorkerPool: a fixed number of threads that run what may block (ioctls, fallocate, SEEK_HOLE; all I/O of
// ThreadEngine). One per engine, started on first use. push() is called on the engine's thread; finished requests are
// handed back by `engine.finish_from_any_thread`. The queue is intrusive and unbounded: its limit is the number of
// requests in flight.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "backing/io_engine.h"

namespace zvolt::backing {

// First in, first out; linked through IoRequest::next.
class RequestList {
 public:
  bool empty() const { return head_ == nullptr; }
  void push(IoRequest& request) {
    request.next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = &request;
    tail_ = &request;
  }
  IoRequest* pop() {
    IoRequest* first = head_;
    if (first != nullptr) head_ = first->next;
    return first;
  }
  void append(RequestList& other) {
    if (other.head_ == nullptr) return;
    (head_ == nullptr ? head_ : tail_->next) = other.head_;
    tail_ = other.tail_;
    other.head_ = nullptr;
  }

 private:
  IoRequest* head_ = nullptr;
  IoRequest* tail_ = nullptr;  // valid when head_ is not null
};

class WorkerPool {
 public:
  WorkerPool(IoEngine& engine, unsigned threads) : engine_(engine), wanted_(threads == 0 ? 1 : threads) {}
  ~WorkerPool();  // waits for the work that runs
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void push(IoRequest& request);         // request.work is set
  void push_all(RequestList& requests);  // empties the list

 private:
  void start();
  void run();

  IoEngine& engine_;
  const unsigned wanted_;
  std::vector<std::thread> threads_;  // engine's thread only
  std::mutex mutex_;
  std::condition_variable wake_;
  RequestList queue_;      // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
};

}  // namespace zvolt::backing
