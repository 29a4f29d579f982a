// Shard: one thread with its own io_context, I/O engine, buffer pool and command objects (design section 4). Everything
// of a session happens on its shard, so nothing here is locked. A *burst* is one wake-up's work: PDUs are read, their
// I/O is queued, and at its end one io_uring_enter submits it and one sendmsg per connection carries the answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

#include "backing/buffer_pool.h"
#include "backing/io_engine.h"
#include "target/asio.h"
#include "target/session/command.h"
#include "target/session/limit_queue.h"
#include "target/session/unit_lane.h"

namespace zvolt::iscsi {

class Connection;

class Shard {
 public:
  Shard(unsigned index, size_t memory_bytes, const backing::EngineOptions& engine);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  void start();  // runs the thread
  void stop();   // ends the loop; any thread but the shard's
  void join();

  unsigned index() const { return index_; }
  asio::io_context& context() { return *context_; }
  backing::IoEngine& engine() { return *engine_; }
  backing::BufferPool& pool() { return pool_; }
  UnitLanes& lanes() { return lanes_; }
  LimitQueue& limit_queue() { return *limit_queue_; }
  uint8_t* read_ahead() { return read_ahead_.get(); }

  // CLOCK_MONOTONIC in nanoseconds, read when a burst starts and by tick().
  uint64_t now() const { return now_; }
  uint64_t tick();

  // This connection has answers to send at the end of the burst.
  void want_transmit(Connection& connection);

  // Commands that could not get a buffer, served in order when memory comes back.
  void wait_for_buffer(Command& command);
  void forget_waiter(Command& command);
  bool has_waiters() const { return !waiters_.empty(); }

  Command& take_command();
  void give_back(Command& command);

  void add(std::shared_ptr<Connection> connection);
  void remove(Connection& connection);
  const std::unordered_set<std::shared_ptr<Connection>>& connections() const { return connections_; }

  std::atomic<bool> short_of_memory{false};  // a login found no memory for its window: others are tried first
  std::atomic<uint32_t> sessions{0};         // for the choice of the least loaded shard

 private:
  friend class Burst;
  void end_burst();
  bool run_completions();
  bool transmit_pending();
  bool serve_waiters();
  void wait_engine();
  void watch();

  unsigned index_;
  UnitLanes lanes_;
  // Ended by hand in the destructor: handlers that never ran own connections, which need everything else here.
  std::unique_ptr<asio::io_context> context_ = std::make_unique<asio::io_context>(1);
  std::unique_ptr<backing::IoEngine> engine_;
  backing::BufferPool pool_;
  std::unique_ptr<Descriptor> engine_ready_;
  std::unique_ptr<Timer> watch_timer_;
  std::unique_ptr<LimitQueue> limit_queue_;
  std::unique_ptr<uint8_t[]> read_ahead_;
  std::thread thread_;
  uint64_t now_ = 0;
  int depth_ = 0;
  std::vector<Connection*> transmitters_, transmitting_;
  std::vector<Command*> waiters_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<Command*> free_commands_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

// Opens a burst for the duration of a handler; nested bursts are part of the outer one.
class Burst {
 public:
  explicit Burst(Shard& shard) : shard_(shard) {
    if (shard_.depth_++ == 0) shard_.tick();
  }
  ~Burst() {
    if (shard_.depth_ == 1) shard_.end_burst();
    --shard_.depth_;
  }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

 private:
  Shard& shard_;
};

}  // namespace zvolt::iscsi
