// See range_gate.h.
#include "scsi/range_gate.h"

#include <algorithm>
#include <utility>

#include "backing/io_engine.h"
#include "scsi/it_nexus.h"

namespace zvolt::scsi {

bool RangeGate::overlaps_hold(uint64_t offset, uint64_t length) const {
  return std::any_of(holds_.begin(), holds_.end(), [&](const Range& hold) {
    return offset < hold.offset + hold.length && hold.offset < offset + length;
  });
}

void RangeGate::hold(uint64_t offset, uint64_t length) {
  std::scoped_lock lock(mutex_);
  holds_.push_back({offset, length});
  holds_count_.store(static_cast<uint32_t>(holds_.size()), std::memory_order_relaxed);
}

bool RangeGate::keep_if_held(Task& task, uint64_t offset, uint64_t length) {
  std::scoped_lock lock(mutex_);
  if (!overlaps_hold(offset, length)) return false;
  task.held_offset = offset;
  task.held_length = length;
  task.next_waiting = nullptr;
  if (first_kept_ == nullptr) {
    first_kept_ = &task;
  } else {
    last_kept_->next_waiting = &task;
  }
  last_kept_ = &task;
  return true;
}

void RangeGate::release(uint64_t offset, uint64_t length) {
  std::scoped_lock lock(mutex_);
  const auto hold = std::find_if(holds_.begin(), holds_.end(),
                                 [&](const Range& range) { return range.offset == offset && range.length == length; });
  if (hold == holds_.end()) return;
  holds_.erase(hold);
  holds_count_.store(static_cast<uint32_t>(holds_.size()), std::memory_order_relaxed);
  Task* task = std::exchange(first_kept_, nullptr);
  last_kept_ = nullptr;
  while (task != nullptr) {
    Task* next = std::exchange(task->next_waiting, nullptr);
    if (overlaps_hold(task->held_offset, task->held_length)) {
      (first_kept_ == nullptr ? first_kept_ : last_kept_->next_waiting) = task;
      last_kept_ = task;
    } else {
      // From here on the task is its shard's again: do not look at it once it is posted.
      task->engine->post(resume_held_task, task);
    }
    task = next;
  }
}

size_t RangeGate::kept() const {
  std::scoped_lock lock(mutex_);
  size_t n = 0;
  for (const Task* task = first_kept_; task != nullptr; task = task->next_waiting) ++n;
  return n;
}

bool RangeGate::withdraw(Task& task) {
  std::scoped_lock lock(mutex_);
  Task* before = nullptr;
  for (Task* kept = first_kept_; kept != nullptr; before = kept, kept = kept->next_waiting) {
    if (kept != &task) continue;
    (before == nullptr ? first_kept_ : before->next_waiting) = task.next_waiting;
    if (last_kept_ == &task) last_kept_ = before;
    task.next_waiting = nullptr;
    return true;
  }
  return false;
}

}  // namespace zvolt::scsi
