// WorkerPool: a fixed number of threads that run what may block (ioctls, fallocate, SEEK_HOLE; all I/O of
// ThreadEngine). One per engine, started on first use. Stores take turns, and none holds more than its share of
// threads; a request that asks for it (IoRequest::again) is run in pieces, with the turns of others in between. push()
// is called on the engine's thread; finished requests are handed back by `engine.finish_from_any_thread`. The queue is
// intrusive and unbounded: its limit is the number of requests in flight.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
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
  const IoRequest* first() const { return head_; }  // the others: IoRequest::next
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
  // `threads` stand ready (from the first push on) and is also how many of them one store may hold at a time: what a
  // stalled store holds is not there for others, so more are started when all are held, up to kMostThreads.
  WorkerPool(IoEngine& engine, unsigned threads) : engine_(engine), wanted_(threads == 0 ? 1 : threads) {}
  ~WorkerPool();  // waits for the work that runs
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void push(IoRequest& request);         // request.work is set
  void push_all(RequestList& requests);  // empties the list

  // Threads, per engine. Each costs its stack (some 16 KiB really used); this many stalled stores a shard, with two
  // threads each, leave discards of the others waiting.
  static constexpr size_t kMostThreads = 64;

 private:
  // The work of one store (IoRequest::owner). In turns_ while it may run something more.
  struct Lane {
    RequestList queue;
    unsigned running = 0;
    bool listed = false;
  };

  void start_threads(size_t total);
  void add_locked(IoRequest& request);
  void list_locked(Lane& lane);
  void run();

  IoEngine& engine_;
  const unsigned wanted_;
  std::vector<std::thread> threads_;  // engine's thread only
  std::mutex mutex_;                  // guards all below
  std::condition_variable wake_;
  std::unordered_map<void*, Lane> lanes_;  // with work queued or running
  std::deque<Lane*> turns_;                // round robin
  size_t idle_ = 0;                        // threads that wait
  bool stopping_ = false;
};

}  // namespace zvolt::backing
