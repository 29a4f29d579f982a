// See pass.h. What is taken from the map, and how it goes to the store, is in pass_runs.cc.
#include "backing/journal/pass.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kMs = 1'000'000;          // ns
constexpr uint64_t kEmptyRound = 5 * kMs;    // nothing was worth writing: not again before
constexpr uint64_t kFirstRetry = 50 * kMs;   // after a failed round, doubling ...
constexpr uint64_t kLastRetry = 2000 * kMs;  // ... up to this
constexpr uint64_t kAwayRetry = 250 * kMs;   // a store that is away is asked again
constexpr uint64_t kStall = 5000 * kMs;      // writes that take longer: the store counts as away

bool means_away(int error) {
  return error == ENOMEDIUM || error == ENODEV || error == ENXIO;
}

}  // namespace

Pass::Pass(Core& core, IoEngine& engine, std::shared_ptr<Lun> lun)
    : core_(core), engine_(engine), lun_(std::move(lun)) {}

void Pass::poll(uint64_t now_ns, bool may_start) {
  look_away(now_ns);
  if (state_ == State::writing) write_more();
  const bool wanted = failures_ == 0 && lun_->drains.load(std::memory_order_relaxed) != 0;  // somebody waits for it
  if (state_ != State::idle || !may_start || (now_ns < not_before_ns_ && !wanted)) return;
  {
    const std::lock_guard lock(lun_->mutex);
    store_ = lun_->store;
  }
  if (store_ == nullptr) {  // only known from the ring: its records wait, and are copied forward
    lun_->away.store(true, std::memory_order_relaxed);
    if (core_.failed.load(std::memory_order_acquire)) core_.answer_waiters(*lun_, UINT64_MAX, EIO);
    return;
  }
  if (due(now_ns)) begin_round(now_ns);
}

void Pass::look_away(uint64_t now_ns) {
  if (state_ == State::idle || state_ == State::leaving) return;
  if (submitted_ns_ != 0 && now_ns > submitted_ns_ + kStall) lun_->away.store(true, std::memory_order_relaxed);
}

// Decides whether a round is due, and how much it takes.
bool Pass::due(uint64_t now_ns) {
  const Mode mode = lun_->mode.load(std::memory_order_relaxed);
  if (mode == Mode::direct || mode == Mode::read_only || mode == Mode::refused) return false;
  const bool leaving_for_failure = core_.failed.load(std::memory_order_acquire);
  if (leaving_for_failure && mode == Mode::journaled) core_.set_mode(*lun_, Mode::leaving);
  uint64_t oldest_ns = 0;
  bool unasked = false;
  {
    const std::lock_guard lock(lun_->mutex);
    unasked = !lun_->admitted;
    const Record* oldest = lun_->map.oldest();
    if (oldest != nullptr) oldest_ns = std::max<uint64_t>(oldest->time_ns, 1);
  }
  if (oldest_ns == 0) {
    if (leaving_for_failure) leave_journal();
    return false;
  }
  limit_sequence_ = leaving_for_failure ? UINT64_MAX : core_.watermark.load(std::memory_order_acquire);
  const Core::Pressure pressure = std::max(core_.pressure(), core_.pressure_of(*lun_));
  const auto age = static_cast<uint64_t>(std::chrono::nanoseconds(core_.options.max_dirty_age).count());
  old_before_ns_ = now_ns > age ? now_ns - age : 0;
  // Under hard pressure whole volblocks go first: young parts only when there was nothing else.
  forced_ = leaving_for_failure || mode == Mode::leaving || (pressure == Core::Pressure::hard && empty_round_) ||
            lun_->drains.load(std::memory_order_relaxed) != 0;
  return forced_ || unasked || pressure != Core::Pressure::none || oldest_ns <= old_before_ns_;
}

void Pass::begin_round(uint64_t now_ns) {
  error_ = 0;
  error_text_.clear();
  cursor_ = 0;
  submitted_ns_ = now_ns;
  generation_ = store_->generation();
  bool ask = false;
  {
    const std::lock_guard lock(lun_->mutex);
    ask = !lun_->admitted;
  }
  if (ask) return admit();
  state_ = State::writing;
  write_more();
}

void Pass::admit() {
  state_ = State::admitting;
  work_ = {};
  work_.owner = this;
  work_.context = this;
  work_.done = [](IoRequest& r) noexcept {
    Pass& pass = *static_cast<Pass*>(r.context);
    if (!pass.work_result_) return pass.refused();
    {
      const std::lock_guard lock(pass.lun_->mutex);
      pass.lun_->admitted = true;
      pass.lun_->publish();
    }
    pass.state_ = State::writing;
    pass.write_more();
  };
  engine_.offload(work_, [](IoRequest& r) {
    Pass& pass = *static_cast<Pass*>(r.context);
    pass.work_result_ = pass.lun_->admit_replay();
    r.error = 0;
  });
}

void Pass::refused() {
  const Error& error = work_result_.error();
  const bool later = means_away(error.code) || error.code == EAGAIN;
  failed_round(error.code, error.message);
  if (!later) {
    core_.set_mode(*lun_, Mode::refused);
    core_.answer_waiters(*lun_, UINT64_MAX, EIO);
    core_.serve_waiters();
    core_.tell("volume " + lun_->name + " is not served: " + error.message);
  }
  end_round();
}

void Pass::writes_ended() {
  if (error_ != 0) core_.tell("writing journalled data back to " + store_->describe() + ": " + error_text_);
  const bool any = std::any_of(written_.begin(), written_.end(), [](const auto& op) { return op->ok; });
  if (any) return start_flush();
  end_round();
}

void Pass::start_flush() {
  state_ = State::flushing;
  submitted_ns_ = core_.now();
  flush_ = {};
  flush_.kind = IoKind::flush;
  flush_.context = this;
  flush_.done = [](IoRequest& r) noexcept { static_cast<Pass*>(r.context)->flush_done(r.error); };
  if (store_->submit(flush_, engine_) == Submitted::done) flush_done(flush_.error);
}

void Pass::flush_done(int error) {
  if (error != 0) {
    // Nothing of this round is forgotten: it is all written once more.
    failed_round(error, std::string("flush: ") + strerror(error));
    core_.tell("flushing journalled data to " + store_->describe() + ": " + strerror(error));
    return end_round();
  }
  prove();
}

void Pass::prove() {
  if (!lun_->made_durable) {
    proven();
    return end_round();
  }
  state_ = State::proving;
  submitted_ns_ = core_.now();
  work_ = {};
  work_.owner = this;
  work_.context = this;
  work_.done = [](IoRequest& r) noexcept {
    Pass& pass = *static_cast<Pass*>(r.context);
    if (pass.work_result_) {
      pass.proven();
    } else {
      pass.failed_round(pass.work_result_.error().code, pass.work_result_.error().message);
    }
    pass.end_round();
  };
  engine_.offload(work_, [](IoRequest& r) {
    Pass& pass = *static_cast<Pass*>(r.context);
    pass.work_result_ = pass.lun_->made_durable();
    r.error = 0;
  });
}

// A store that was closed and opened again since the first write may have lost what was not flushed then, whatever the
// flush of the new descriptor says.
void Pass::proven() {
  if (store_->generation() == generation_) return forget_written();
  failed_round(EIO, "reopened between its writes and their flush: they are written once more");
  core_.tell("writing journalled data back to " + store_->describe() + ": " + error_text_);
}

// What was written is in the flushed store. Bytes that a newer record has taken meanwhile stay in the map.
void Pass::forget_written() {
  const std::lock_guard lock(lun_->mutex);
  for (const auto& op : written_) {
    if (!op->ok) continue;
    for (const Part& part : op->parts) {
      lun_->map.erase(part.begin, part.end, part.record->sequence);
      lun_->owed.settle(part.begin, part.end, part.record->sequence);
    }
  }
  lun_->publish();
}

void Pass::failed_round(int error, const std::string& what) {
  count(core_.counters.store_errors);
  if (error_ != 0) return;
  error_ = error == 0 ? EIO : error;
  error_text_ = what;
}

void Pass::end_round() {
  const bool wrote = !written_.empty();
  written_.clear();
  state_ = State::idle;
  submitted_ns_ = 0;
  const uint64_t now_ns = core_.now();
  if (wrote || error_ != 0) {  // else nothing was learned
    lun_->store_error.store(error_, std::memory_order_relaxed);
    lun_->away.store(means_away(error_), std::memory_order_relaxed);
    const std::lock_guard lock(lun_->mutex);
    lun_->store_problem = error_text_;
  }
  empty_round_ = !wrote;
  if (error_ == 0) {
    failures_ = 0;
    not_before_ns_ = wrote ? 0 : now_ns + kEmptyRound;
  } else {
    const uint64_t backoff = std::min(kLastRetry, kFirstRetry << std::min(failures_, 10U));
    not_before_ns_ = now_ns + (means_away(error_) ? kAwayRetry : backoff);
    ++failures_;
    // Without a log there is nothing that could make them durable before the store is back.
    if (core_.failed.load(std::memory_order_acquire)) core_.answer_waiters(*lun_, UINT64_MAX, error_);
  }
  core_.serve_waiters();
}

}  // namespace zvolt::backing::journal
