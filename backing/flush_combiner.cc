// See flush_combiner.h.
#include "backing/flush_combiner.h"

namespace zvolt::backing {

Submitted FlushCombiner::submit(IoRequest& request, IoEngine& engine, int fd) {
  const int failed = sticky_error();
  if (failed != 0) {
    request.error = failed;
    return Submitted::done;
  }
  request.error = 0;
  engine.park(request);
  const std::lock_guard lock(mutex_);
  if (running_) {
    const bool joins = starting_ || (leader_ == &engine && engine.submissions() == submission_);
    (joins ? current_ : waiting_).push(request);
    return Submitted::pending;
  }
  fd_ = fd;
  current_.push(request);
  start_locked(engine);
  return Submitted::pending;
}

void FlushCombiner::start_locked(IoEngine& engine) {
  running_ = true;
  leader_ = &engine;
  sync_.kind = IoKind::flush;
  sync_.done = &FlushCombiner::on_synced;
  sync_.context = this;
  engine.queue_sync(sync_, fd_);
  submission_ = engine.submissions();  // after: queueing submits when the ring is full
  syncs_.fetch_add(1, std::memory_order_relaxed);
}

void FlushCombiner::start_posted(void* combiner) {
  auto& self = *static_cast<FlushCombiner*>(combiner);
  const std::lock_guard lock(self.mutex_);
  self.starting_ = false;
  self.start_locked(*self.leader_);
}

// Starts the next sync here when one of those who wait for it is of this engine. Else the engine that is to do so, on
// its own thread.
IoEngine* FlushCombiner::lead_next_locked() {
  if (current_.empty()) return nullptr;
  for (const IoRequest* each = current_.first(); each != nullptr; each = each->next) {
    if (each->engine != leader_) continue;
    start_locked(*leader_);
    return nullptr;
  }
  running_ = starting_ = true;
  leader_ = current_.first()->engine;
  return leader_;
}

void FlushCombiner::on_synced(IoRequest& sync) noexcept {
  static_cast<FlushCombiner*>(sync.context)->finish(sync.error);
}

void FlushCombiner::finish(int error) {
  RequestList served;
  IoEngine* next;
  int verdict;
  {
    const std::lock_guard lock(mutex_);
    if (error != 0 && sticky_.load(std::memory_order_relaxed) == 0) sticky_.store(error, std::memory_order_release);
    verdict = sticky_.load(std::memory_order_relaxed);
    served.append(current_);
    if (verdict != 0) served.append(waiting_);
    running_ = false;
    current_.append(waiting_);
    next = lead_next_locked();
  }
  while (IoRequest* request = served.pop()) {
    request->error = verdict;
    request->engine->finish_from_any_thread(*request);
  }
  if (next != nullptr) next->post(start_posted, this);  // who waits keeps the store, and the engine
}

}  // namespace zvolt::backing
