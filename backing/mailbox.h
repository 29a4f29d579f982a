// Mailbox: requests handed to an engine's thread by others (workers, other shards), and the eventfd that wakes it.
// post() on any thread; everything else on the engine's thread. A push that finds the owner already signalled costs no
// system call.
#pragma once

#include <atomic>
#include <cstdint>

#include "backing/worker_pool.h"

namespace zvolt::backing {

class Mailbox {
 public:
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int event_fd() const { return event_fd_; }
  void post(IoRequest& request);
  void signal();  // makes event_fd() readable
  bool signalled() const { return signalled_.load(std::memory_order_acquire); }
  uint64_t clear_event() const;     // after it the eventfd is not readable; returns how many signals it brought
  void collect(RequestList& into);  // appends what was posted, oldest first

 private:
  int event_fd_;
  std::atomic<IoRequest*> posted_{nullptr};  // newest first
  std::atomic<unsigned> posters_{0};         // threads inside post()
  std::atomic<bool> signalled_{false};       // an event is on its way, or not yet acted upon
};

}  // namespace zvolt::backing
