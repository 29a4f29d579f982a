// See shard.h.
#include "target/session/shard.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

Shard::Shard(unsigned index, size_t memory_bytes, const backing::EngineOptions& engine)
    : index_(index),
      engine_(backing::make_engine(engine)),
      pool_(memory_bytes),
      engine_ready_(std::make_unique<Descriptor>(*context_, dup(engine_->wait_fd()))),
      watch_timer_(std::make_unique<Timer>(*context_)),
      limit_queue_(std::make_unique<LimitQueue>(*this, *context_)),
      read_ahead_(new uint8_t[limits::kReadAhead]) {
  tick();
}

Shard::~Shard() {
  join();
  connections_.clear();
  engine_ready_.reset();
  watch_timer_.reset();
  limit_queue_.reset();
  context_.reset();
}

void Shard::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), ("shard" + std::to_string(index_)).c_str());
    engine_->flush();  // the engine belongs to the thread that first uses it
    wait_engine();
    watch();
    auto keep = asio::make_work_guard(*context_);
    context_->run();
  });
}

// Peers that have stopped hold buffers and windows of others: nothing waits for them for ever.
void Shard::watch() {
  watch_timer_->expires_after(limits::kStallCheck);
  watch_timer_->async_wait([this](ErrorCode ec) {
    if (ec) return;
    const auto connections = connections_;
    for (const auto& connection : connections) connection->check_progress();
    watch();
  });
}

void Shard::stop() {
  context_->stop();
}

void Shard::join() {
  if (thread_.joinable()) thread_.join();
}

uint64_t Shard::tick() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  now_ = static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  return now_;
}

void Shard::wait_engine() {
  engine_ready_->async_wait(Descriptor::wait_read, [this](ErrorCode ec) {
    if (ec) return;
    {
      Burst burst(*this);
      run_completions();
    }
    wait_engine();
  });
}

// Submits what is queued and runs what is ready. Completions queue more work, so this goes round a few times; what is
// left makes wait_fd readable and comes back as a burst of its own.
bool Shard::run_completions() {
  bool any = false;
  for (int round = 0; round < limits::kReapRounds; ++round) {
    engine_->flush();
    if (engine_->in_flight() != 0) tick();
    if (engine_->reap(limits::kReapBatch) == 0) break;
    any = true;
  }
  return any;
}

bool Shard::transmit_pending() {
  if (transmitters_.empty()) return false;
  transmitting_.swap(transmitters_);
  for (size_t i = 0; i < transmitting_.size(); ++i)  // an entry becomes null when its connection ends meanwhile
    if (transmitting_[i] != nullptr) transmitting_[i]->transmit();
  transmitting_.clear();
  return true;
}

bool Shard::serve_waiters() {
  if (waiters_.empty()) return false;
  std::vector<Command*> turn;
  turn.swap(waiters_);
  bool served = false;
  for (size_t i = 0; i < turn.size(); ++i) {
    Command& command = *turn[i];
    // Once one had to wait again there is no memory: the rest keeps its place in the queue.
    if (!waiters_.empty()) {
      waiters_.push_back(&command);
      continue;
    }
    command.waiting = false;
    command.connection->resume(command);
    served = served || waiters_.empty();
  }
  return served;
}

void Shard::end_burst() {
  for (int round = 0; round < limits::kReapRounds; ++round) {
    bool more = run_completions();
    more = transmit_pending() || more;
    more = serve_waiters() || more;
    if (!more) return;
  }
  // Nothing may be left unsubmitted or unsent when the thread goes to sleep.
  engine_->flush();
  if (!transmitters_.empty() || !waiters_.empty()) asio::post(*context_, [this] { Burst burst(*this); });
}

void Shard::want_transmit(Connection& connection) {
  transmitters_.push_back(&connection);
}

void Shard::wait_for_buffer(Command& command) {
  if (command.waiting) return;
  command.waiting = true;
  waiters_.push_back(&command);
}

void Shard::forget_waiter(Command& command) {
  command.waiting = false;
  std::erase(waiters_, &command);
}

Command& Shard::take_command() {
  if (free_commands_.empty()) {
    commands_.push_back(std::make_unique<Command>());
    free_commands_.push_back(commands_.back().get());
  }
  Command& command = *free_commands_.back();
  free_commands_.pop_back();
  command.in_use = true;
  return command;
}

void Shard::give_back(Command& command) {
  command.reset_command();
  free_commands_.push_back(&command);
}

void Shard::add(std::shared_ptr<Connection> connection) {
  connections_.insert(std::move(connection));
}

void Shard::remove(Connection& connection) {
  std::erase(transmitters_, &connection);
  std::replace(transmitting_.begin(), transmitting_.end(), &connection, static_cast<Connection*>(nullptr));
  // The caller may be a member function of it: the last reference goes when the shard gets to it.
  asio::post(*context_, [last = connection.shared_from_this()] {});
  connections_.erase(connection.shared_from_this());
}

}  // namespace zvolt::iscsi
