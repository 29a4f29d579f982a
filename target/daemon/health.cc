// See health.h.
#include "target/daemon/health.h"

#include <spdlog/spdlog.h>

namespace zvolt::daemon {

using backing::Presence;
using scsi::UnitState;

scsi::UnitState unit_state(const Condition& condition) {
  if (condition.presence == Presence::offline) return UnitState::offline;
  if (condition.presence == Presence::present && !condition.blocked) return UnitState::ready;
  const bool over = condition.limit.count() != 0 && condition.waiting >= condition.limit;
  return over ? UnitState::failed_for_good : UnitState::becoming_ready;
}

const char* state_text(scsi::UnitState state) {
  switch (state) {
    case UnitState::ready:
      return "serving";
    case UnitState::becoming_ready:
      return "waiting";
    case UnitState::offline:
      return "offline";
    case UnitState::failed_for_good:
      return "given up";
    case UnitState::removed:
      return "removed";
  }
  return "?";
}

VolumeHealth::VolumeHealth(std::string name, std::chrono::seconds limit, Presence presence)
    : name_(std::move(name)),
      limit_(limit),
      presence_(presence),
      serving_(presence == Presence::present),
      since_(Clock::now()),
      since_wall_(std::chrono::system_clock::now()) {}

void VolumeHealth::set_unit(std::shared_ptr<scsi::LogicalUnit> unit) {
  std::scoped_lock lock(mutex_);
  unit_ = std::move(unit);
  if (unit_ && presence_ == Presence::present) unit_->store_changed();  // it may have come since the unit was made
  settle(Clock::now());
}

bool VolumeHealth::report(const backing::FollowedStore::Report& report) {
  std::scoped_lock lock(mutex_);
  const bool reopened = report.generation != generation_;
  generation_ = report.generation;
  presence_ = report.presence;
  reason_ = report.reason;
  if (!report.device.empty()) device_ = report.device;
  if (report.presence == Presence::present && report.read_only != read_only_) {
    read_only_ = report.read_only;
    spdlog::info("volume {}: its store is {} now", name_, read_only_ ? "read-only" : "writable");
  }
  if (report.flush_lost)
    notes_["flush"] =
        "a flush failed: writes that hosts had not flushed may be lost, and flushes fail until it is "
        "taken out of service and opened again";
  if (unit_ && report.presence == Presence::present) unit_->store_changed();
  const bool lost = report.flush_failed_meanwhile && report.presence == Presence::present;
  // Away and back between two looks: no host may take it for the same uninterrupted disk.
  if (reopened && serving_ && report.presence == Presence::present && unit_ && unit_->state() == UnitState::ready &&
      generation_ > 1)
    unit_->set_state(UnitState::becoming_ready);
  settle(Clock::now(), lost);
  return lost && unit_ != nullptr;
}

void VolumeHealth::resized(uint64_t size_bytes) {
  std::scoped_lock lock(mutex_);
  if (unit_) unit_->capacity_changed(size_bytes);
}

void VolumeHealth::set_offline(bool offline) {
  std::scoped_lock lock(mutex_);
  presence_ = offline ? Presence::offline : Presence::present;
  reason_ = offline ? "taken offline by the operator" : "";
  settle(Clock::now());
}

void VolumeHealth::block(const std::string& reason) {
  std::scoped_lock lock(mutex_);
  if (blocked_ == reason) return;
  blocked_ = reason;
  settle(Clock::now());
}

void VolumeHealth::hold_back(const std::string& reason) {
  std::scoped_lock lock(mutex_);
  if (held_back_ == reason) return;
  held_back_ = reason;
  settle(Clock::now());
}

void VolumeHealth::set_note(const std::string& topic, const std::string& text) {
  std::scoped_lock lock(mutex_);
  std::string& note = notes_[topic];
  if (note == text) return;
  note = text;
  if (!text.empty()) spdlog::warn("volume {}: {}", name_, text);
}

void VolumeHealth::tick(Clock::time_point now) {
  std::scoped_lock lock(mutex_);
  settle(now);
}

void VolumeHealth::change_limit(std::chrono::seconds limit) {
  std::scoped_lock lock(mutex_);
  limit_ = limit;
  settle(Clock::now());
}

void VolumeHealth::rename(const std::string& name) {
  std::scoped_lock lock(mutex_);
  name_ = name;
}

std::string VolumeHealth::reason_locked() const {
  if (presence_ == Presence::offline) return reason_.empty() ? "taken offline by the operator" : reason_;
  if (presence_ != Presence::present)
    return reason_.empty() ? std::string("its device is ") + backing::presence_name(presence_) : reason_;
  return blocked_.empty() ? held_back_ : blocked_;
}

// Brings the unit to the state that follows from what is known, and says each change once.
void VolumeHealth::settle(Clock::time_point now, bool writes_lost) {
  const bool kept_back = !blocked_.empty() || !held_back_.empty();
  const bool serving = presence_ == Presence::present && !kept_back;
  if (serving != serving_) {
    serving_ = serving;
    since_ = now;
    since_wall_ = std::chrono::system_clock::now();
  }
  const auto waiting = std::chrono::duration_cast<std::chrono::seconds>(now - since_);
  const UnitState state = unit_state({presence_, kept_back, waiting, limit_});
  const bool given_up = unit_ && state == UnitState::failed_for_good && unit_->state() != state;
  if (unit_ && unit_->state() != state) unit_->set_state(state, writes_lost);
  const std::string reason = serving ? "" : reason_locked();
  if (reason != told_) {
    told_ = reason;
    if (serving)
      spdlog::info("volume {}: served{}", name_, device_.empty() ? "" : " from " + device_);
    else
      spdlog::warn("volume {}: not served: {}", name_, reason);
  }
  if (given_up)
    spdlog::error("volume {}: not back after {} s ('wait_for_device'): hosts are told that it is lost ({})", name_,
                  limit_.count(), reason);
}

VolumeHealth::View VolumeHealth::view() const {
  std::scoped_lock lock(mutex_);
  View out{presence_, unit_ ? unit_->state() : UnitState::ready, unit_ != nullptr, {}, {}, {}, device_};
  if (!serving_) {
    out.reason = reason_locked();
    out.waiting = since_wall_;
  }
  for (const auto& [topic, text] : notes_)
    if (!text.empty()) out.notes.push_back(text);
  return out;
}

}  // namespace zvolt::daemon
