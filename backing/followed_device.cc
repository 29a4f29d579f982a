// FollowedDevice: the way of requests, and the helper thread that answers those that failed. See followed_device.h.
#include "backing/followed_device.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace zvolt::backing {

namespace {

// Errors that say nothing of the device: answered as they are.
bool plain_error(int error) {
  constexpr int kPlain[] = {EINVAL, EOPNOTSUPP, ENOMEM, EAGAIN, ECANCELED, EROFS};
  return std::find(std::begin(kPlain), std::end(kPlain), error) != std::end(kPlain);
}

// What an errno of a device that is there comes to when nobody explains it.
int unexplained(int error) {
  constexpr int kNotTrue[] = {ENXIO, ENODEV, EBADF, ENOMEDIUM, ENOENT, EPERM, 0};  // it is there, it is writable
  const bool wrong = std::find(std::begin(kNotTrue), std::end(kNotTrue), error) != std::end(kNotTrue);
  return wrong ? EIO : error;
}

bool promises_durability(const IoRequest& request) {
  return request.kind == IoKind::flush || request.fua;
}

bool changes_device(const IoRequest& request) {
  return request.kind != IoKind::read && request.kind != IoKind::allocation_status;
}

}  // namespace

FollowedDevice::FollowedDevice(FollowOptions options, OpenDevice number)
    : options_(std::move(options)), number_(std::move(number)) {
  faces_.push_back({Geometry{}, "device of " + options_.name + " (not opened yet)"});
  face_.store(&faces_.back(), std::memory_order_release);
}

FollowedDevice::~FollowedDevice() {
  {
    const std::lock_guard lock(help_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (helper_.joinable()) helper_.join();
}

// --- shard ---

bool FollowedDevice::enter(IoEngine& engine) {
  // Looked at twice: those who come while it is closed must not look as if somebody were inside.
  if (state_.load(std::memory_order_relaxed) != kOpen) [[unlikely]]
    return false;
  inside_.add(engine, 1);
  if (state_.load(std::memory_order_seq_cst) == kOpen) [[likely]]
    return true;
  leave(engine);
  return false;
}

void FollowedDevice::leave(IoEngine& engine) {
  inside_.add(engine, -1);
  if (state_.load(std::memory_order_seq_cst) == kClosing) [[unlikely]]
    tell_drained();
}

void FollowedDevice::tell_drained() {
  if (!inside_.zero()) return;
  const std::lock_guard lock(help_mutex_);
  drained_ = true;
  start_helper_locked();  // where no thread can be had the watcher's next look() closes
  wake_.notify_all();
}

Submitted FollowedDevice::submit(IoRequest& request, IoEngine& engine) {
  if (!enter(engine)) [[unlikely]]
    return refuse(request);
  if (device_->submit(request, engine) == Submitted::pending) return Submitted::pending;
  const bool fine = request.error == 0 || (plain_error(request.error) && request.kind != IoKind::flush);
  if (!fine) request.scratch[0] = generation_;
  leave(engine);
  if (fine) [[likely]]
    return Submitted::done;
  hand_to_helper(request, engine);
  return Submitted::pending;
}

Submitted FollowedDevice::refuse(IoRequest& request) {
  request.error = ENOMEDIUM;
  request.error_offset = request.offset;
  const bool was_open = size_bytes() != 0;
  if (was_open && promises_durability(request)) flush_failed_.store(true, std::memory_order_relaxed);
  return Submitted::done;
}

void FollowedDevice::on_end(IoRequest& request) noexcept {
  static_cast<FollowedDevice*>(static_cast<FdStore*>(request.owner)->keeper())->ended(request);
}

void FollowedDevice::ended(IoRequest& request) {
  request.step = nullptr;
  IoEngine& engine = *request.engine;
  const bool fine = request.error == 0 || (plain_error(request.error) && request.kind != IoKind::flush);
  if (!fine) [[unlikely]]
    request.scratch[0] = generation_;
  leave(engine);
  if (!fine) [[unlikely]]
    return hand_to_helper(request, engine);
  request.retried = false;
  request.done(request);
}

// The request counts at its engine as in flight until the helper has an answer.
void FollowedDevice::hand_to_helper(IoRequest& request, IoEngine& engine) {
  engine.park(request);
  parked_count_.fetch_add(1, std::memory_order_relaxed);
  look_wanted_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard lock(help_mutex_);
    if (start_helper_locked()) {
      failed_.push(request);
      wake_.notify_all();
      return;
    }
  }
  parked_count_.fetch_sub(1, std::memory_order_relaxed);
  request.error = unexplained(request.error);
  request.retried = false;
  engine.finish_from_any_thread(request);
}

void FollowedDevice::on_retry(IoRequest& request) noexcept {
  FollowedDevice& self = *static_cast<FollowedDevice*>(request.owner);
  IoEngine& engine = *request.engine;
  request.step = nullptr;
  self.tally_->add(engine, StoreTally::kSpaceRetries);
  if (self.submit(request, engine) == Submitted::pending) return;
  request.retried = false;
  request.done(request);
}

// --- helper ---

bool FollowedDevice::start_helper_locked() {
  if (helper_.joinable()) return true;
  try {
    helper_ = std::thread([this] { help(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// True when there is something to look for.
bool FollowedDevice::wait_for_work(Lock& lock) {
  const auto called = [this] { return stopping_ || drained_ || !failed_.empty(); };
  if (retries_.empty()) {
    wake_.wait(lock, called);
  } else {
    wake_.wait_until(lock, retries_.front().due, called);
  }
  return drained_ || !failed_.empty();
}

void FollowedDevice::help() {
  Lock lock(help_mutex_);
  while (!stopping_) {
    if (wait_for_work(lock)) {
      RequestList batch;
      batch.append(failed_);
      drained_ = false;
      lock.unlock();
      Standing standing;
      {
        const std::lock_guard looking(look_mutex_);
        standing = look_briefly();
      }
      while (IoRequest* request = batch.pop()) answer(*request, standing);
      if (!standing.open && look_wanted() && wanted_) wanted_();
      lock.lock();
    }
    bring_back_due(lock);
  }
}

void FollowedDevice::bring_back_due(Lock& lock) {
  const auto now = std::chrono::steady_clock::now();
  while (!retries_.empty() && retries_.front().due <= now) {
    IoRequest& request = *retries_.front().request;
    retries_.pop_front();
    lock.unlock();
    parked_count_.fetch_sub(1, std::memory_order_relaxed);
    request.owner = this;
    request.step = &FollowedDevice::on_retry;
    request.engine->finish_from_any_thread(request);
    lock.lock();
  }
}

void FollowedDevice::answer(IoRequest& request, const Standing& standing) {
  const int error = verdict(request, standing);
  if (retry_later(request, error)) return;
  if (promises_durability(request) && (error == ENOMEDIUM || error == EROFS)) {
    flush_failed_.store(true, std::memory_order_relaxed);
  }
  request.error = error;
  request.retried = false;
  parked_count_.fetch_sub(1, std::memory_order_relaxed);
  request.engine->finish_from_any_thread(request);  // may be gone from here on
}

int FollowedDevice::verdict(const IoRequest& request, const Standing& standing) {
  if (!standing.open || standing.generation != request.scratch[0]) return ENOMEDIUM;
  if (standing.read_only && changes_device(request)) return EROFS;
  const bool beyond = request.kind != IoKind::flush &&
                      (request.length > standing.size || request.offset > standing.size - request.length);
  if (beyond) return EINVAL;  // it shrank
  if (!options_.explain) return unexplained(request.error);
  const int meant = options_.explain(request.error, request);
  return says_gone(meant) ? ENOMEDIUM : unexplained(meant);
}

bool FollowedDevice::retry_later(IoRequest& request, int error) {
  const bool no_space = error == ENOSPC || error == EDQUOT;
  if (!no_space || request.retried || !request.spare_holes || request.kind != IoKind::write_zeroes) return false;
  request.retried = true;
  const std::lock_guard lock(help_mutex_);
  retries_.push_back({std::chrono::steady_clock::now() + options_.space_wait, &request});
  return true;
}

}  // namespace zvolt::backing
