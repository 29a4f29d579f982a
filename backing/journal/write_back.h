// WriteBack: the thread (or, in tests, the turns) that brings records to their stores and moves the ring's tail behind
// them. One Pass per LUN and one Tail, state machines on one engine: nothing here waits for anything but the engine, so
// a store that stalls stops nobody but itself. Internal to backing/journal.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>

#include "backing/journal/core.h"
#include "backing/journal/pass.h"
#include "backing/journal/tail.h"

namespace zvolt::backing::journal {

class WriteBack {
 public:
  WriteBack(Core& core, const Superblock& superblock);
  ~WriteBack();  // stops; with a thread of its own, after the requests under way
  WriteBack(const WriteBack&) = delete;
  WriteBack& operator=(const WriteBack&) = delete;

  void start();  // the thread; does nothing when the caller runs turns
  void stop();   // no new requests; returns when none is under way (not without a thread)
  bool turn();   // as Journal::turn()

  void wake();       // any thread: something is due
  void commit();     // any thread: what is queued now gets committed, on write-back's engine
  void on_commit();  // any thread: the watermark has moved
  // Runs `done` until it says true: false when `limit` is over. On the caller's thread, which runs the turns when there
  // is no thread.
  bool wait(std::chrono::milliseconds limit, const std::function<bool()>& done);

  bool idle() const { return idle_.load(std::memory_order_acquire); }  // nothing under way (may be due)
  Superblock superblock() const { return tail_.superblock(); }         // after stop()

 private:
  void run();
  void sleep(bool due) const;

  Core& core_;
  std::unique_ptr<IoEngine> engine_;
  std::unordered_map<Lun*, std::unique_ptr<Pass>> passes_;
  TailMover tail_;
  std::atomic<bool> woken_{false};
  std::atomic<bool> tail_waits_{false};
  std::atomic<bool> commit_wanted_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> idle_{true};
  std::thread thread_;
};

}  // namespace zvolt::backing::journal
