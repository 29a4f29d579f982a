// How a LUN's way to its store changes: modes, holds, and leaving the journal when the log has failed (core.h, pass.h).
//
// When the log fails, in this order: (1) no new records (mode leaving); (2) everything in the dirty map goes to the
// store, durable or not, and the store is flushed; (3) the keeper is durably told `detached`; (4) waiters are answered
// and requests go straight to the store. A power cut before (3) finds a ring that still counts: it holds every record
// that was acknowledged as durable, and puts those over newer bytes that never were. A power cut after (3) finds a
// complete store, and a ring that is never replayed. So there is no moment at which an acknowledged write is in
// neither.
#include <cerrno>

#include "backing/journal/core.h"
#include "backing/journal/pass.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

void Core::set_mode(Lun& lun, Mode mode) {
  const std::lock_guard lun_lock(lun.mutex);
  const std::lock_guard lock(mutex);
  lun.mode.store(mode, std::memory_order_release);
  lun.publish();
}

void Core::conclude(Lun& lun, Mode mode, int error) {
  {
    const std::lock_guard lun_lock(lun.mutex);
    const std::lock_guard lock(mutex);
    lun.settled = lun.last_sequence.load(std::memory_order_relaxed);
    lun.settled_error = error;
    lun.mode.store(mode, std::memory_order_release);
    lun.publish();
  }
  answer_waiters(lun, UINT64_MAX, error);
  serve_waiters();
}

void Core::hold(const std::vector<Lun*>& held, bool on) {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& lun : all_luns()) {  // one order for all callers
    for (const Lun* each : held) {
      if (each == lun.get()) locks.emplace_back(lun->mutex);
    }
  }
  const std::lock_guard lock(mutex);
  for (Lun* lun : held) lun->held.store(on, std::memory_order_release);
}

void Pass::leave_journal() {
  if (core_.options.keeper == nullptr) return left(true);
  state_ = State::leaving;
  work_ = {};
  work_.owner = this;
  work_.context = this;
  work_.done = [](IoRequest& r) noexcept {
    Pass& pass = *static_cast<Pass*>(r.context);
    pass.state_ = State::idle;
    pass.left(pass.work_result_.ok());
  };
  engine_.offload(work_, [](IoRequest& r) {
    Pass& pass = *static_cast<Pass*>(r.context);
    const Core& core = pass.core_;
    pass.work_result_ =
        core.options.keeper->save({pass.lun_->uuid, core.uuid, core.epoch, StateKeeper::State::detached});
    r.error = 0;
  });
}

void Pass::left(bool kept) {
  const bool serves = kept && core_.options.on_failure == FailurePolicy::write_through;
  if (!kept) {
    core_.tell("volume " + lun_->name +
               " is read-only: that it left its journal could not be recorded: " + work_result_.error().message);
  } else {
    core_.tell("volume " + lun_->name + " has left its failed journal, nothing is lost; " +
               (serves ? "writes go to the store" : "it is read-only"));
  }
  core_.conclude(*lun_, serves ? Mode::direct : Mode::read_only, kept ? 0 : EROFS);
}

}  // namespace zvolt::backing::journal
