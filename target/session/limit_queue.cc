// See limit_queue.h.
#include "target/session/limit_queue.h"

#include <algorithm>

#include "scsi/logical_unit.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

namespace {

bool later(const Command* a, const Command* b) {
  return a->limit_due > b->limit_due;
}

uint64_t nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<uint64_t>(time.count());
}

}  // namespace

void LimitQueue::add(Command& command) {
  command.in_limit_queue = true;
  const bool earliest = heap_.empty() || command.limit_due < heap_.front()->limit_due;
  heap_.push_back(&command);
  std::push_heap(heap_.begin(), heap_.end(), later);
  if (earliest || !armed_) arm();
}

void LimitQueue::forget(Command& command) {
  command.in_limit_queue = false;
  std::erase(heap_, &command);
  std::make_heap(heap_.begin(), heap_.end(), later);
}

void LimitQueue::arm() {
  if (heap_.empty()) return;
  const uint64_t now = shard_.now();
  const uint64_t due = heap_.front()->limit_due;
  const uint64_t wait = std::min(due > now ? due - now : 0, nanoseconds(limits::kLimitRecheck));
  timer_.expires_after(std::chrono::nanoseconds(wait));
  armed_ = true;
  timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;  // armed anew
    armed_ = false;
    fire();
  });
}

void LimitQueue::fire() {
  Burst burst(shard_);
  const uint64_t now = shard_.now();
  book_again(now);
  const uint64_t until = now + nanoseconds(limits::kLimitSlack);
  while (!heap_.empty() && heap_.front()->limit_due <= until) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Command& command = *heap_.back();
    heap_.pop_back();
    command.in_limit_queue = false;
    command.limit_due = 0;
    command.stamps.limit_to = now;
    command.connection->resume(command);
  }
  if (!armed_) arm();
}

// In the order in which they would have gone on.
void LimitQueue::book_again(uint64_t now) {
  const auto stale = [](const Command* c) { return c->limit_generation != c->lu->limiter().generation(); };
  if (std::none_of(heap_.begin(), heap_.end(), stale)) return;
  std::sort(heap_.begin(), heap_.end(), [](const Command* a, const Command* b) { return later(b, a); });
  for (Command* c : heap_) {
    if (!stale(c)) continue;
    c->limit_generation = c->lu->limiter().generation();
    c->limit_due = c->lu->limiter().book(c->total, now);
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
}

}  // namespace zvolt::iscsi
