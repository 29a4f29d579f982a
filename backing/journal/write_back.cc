// See write_back.h.
#include "backing/journal/write_back.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>

namespace zvolt::backing::journal {

namespace {

constexpr size_t kReap = 256;
constexpr int kBusyWaitMs = 10;                      // something is dirty: ages and retries are looked at
constexpr int kIdleWaitMs = 500;                     // nothing is
constexpr std::chrono::milliseconds kLookAgain{20};  // who waits for progress

}  // namespace

WriteBack::WriteBack(Core& core, const Superblock& superblock)
    : core_(core), engine_(core.options.make_engine()), tail_(core, superblock) {}

WriteBack::~WriteBack() {
  stop();
}

void WriteBack::start() {
  if (core_.options.own_thread) thread_ = std::thread([this] { run(); });
}

void WriteBack::stop() {
  stopping_.store(true, std::memory_order_release);
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

void WriteBack::run() {
  pthread_setname_np(pthread_self(), "writeback");
  for (;;) {
    const bool due = turn();
    if (stopping_.load(std::memory_order_acquire) && idle()) return;
    sleep(due);
  }
}

void WriteBack::sleep(bool due) const {
  pollfd waiting{engine_->wait_fd(), POLLIN, 0};
  poll(&waiting, 1, due ? kBusyWaitMs : kIdleWaitMs);
}

bool WriteBack::turn() {
  woken_.store(false, std::memory_order_seq_cst);
  const bool may_start = !stopping_.load(std::memory_order_acquire);
  const uint64_t now = core_.now();
  if (commit_wanted_.exchange(false, std::memory_order_acq_rel)) core_.want_commit(*engine_);
  engine_->flush();
  engine_->reap(kReap);
  bool due = false;
  for (const auto& lun : core_.all_luns()) {
    auto& pass = passes_[lun.get()];
    if (pass == nullptr) pass = std::make_unique<Pass>(core_, *engine_, lun);
    pass->poll(now, may_start);
    due = due || pass->due_soon();
  }
  tail_.poll(*engine_, now, may_start);
  tail_waits_.store(tail_.waiting(), std::memory_order_relaxed);
  engine_->flush();
  engine_->reap(kReap);
  engine_->flush();
  // Room may have come without write-back: a read that kept the payload of an older record has ended on its shard.
  if (core_.waiting() != 0) core_.serve_waiters();
  due = due || tail_.waiting();
  const bool busy = std::any_of(passes_.begin(), passes_.end(), [](const auto& each) { return each.second->busy(); }) ||
                    tail_.busy() || core_.leads(*engine_);
  idle_.store(!busy, std::memory_order_release);
  {
    const std::lock_guard lock(core_.progress_mutex);
    core_.progress.notify_all();
  }
  return busy || due || core_.waiting() != 0;
}

void WriteBack::wake() {
  if (!core_.options.own_thread || woken_.exchange(true, std::memory_order_seq_cst)) return;
  engine_->post([](void*) {}, nullptr);
}

// For who has an engine that may be gone before a group is durable.
void WriteBack::commit() {
  commit_wanted_.store(true, std::memory_order_release);
  wake();
}

// Only who waits for it is woken: the usual commit costs write-back nothing.
void WriteBack::on_commit() {
  if (tail_waits_.load(std::memory_order_relaxed)) wake();
}

bool WriteBack::wait(std::chrono::milliseconds limit, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (done()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    wake();
    if (!core_.options.own_thread) {
      turn();
      continue;
    }
    std::unique_lock lock(core_.progress_mutex);
    core_.progress.wait_for(lock, kLookAgain);
  }
}

}  // namespace zvolt::backing::journal
