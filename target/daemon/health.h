// VolumeHealth: whether one volume can be served now, why not, and since when; it drives the state of its logical unit
// and tells the log. Fed by the store's notices, by the watcher and by the operator; read by the admin endpoint. Any
// thread but a shard's. Design section 6, last paragraph.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backing/followed_store.h"
#include "scsi/logical_unit.h"

namespace zvolt::daemon {

// What a unit's state follows from.
struct Condition {
  backing::Presence presence = backing::Presence::present;
  bool blocked = false;  // there, but must not be served (sync=disabled under a LUN that promises durability)
  std::chrono::seconds waiting{0};  // how long that has been so
  std::chrono::seconds limit{0};    // `wait_for_device`; 0: for ever
};
scsi::UnitState unit_state(const Condition& condition);

class VolumeHealth {
 public:
  using Clock = std::chrono::steady_clock;

  VolumeHealth(std::string name, std::chrono::seconds limit, backing::Presence presence);

  // A unit that is served from now on: gets the state that follows from what is known. Null: none any more.
  void set_unit(std::shared_ptr<scsi::LogicalUnit> unit);

  // The store's notice. Returns whether the hosts were told of flushes that failed (set_flushes_told() is due).
  bool report(const backing::FollowedStore::Report& report);
  void resized(uint64_t size_bytes);  // for BlockStore::on_resize
  void set_offline(bool offline);     // stores that cannot be followed (files, memory); others say it in their report
  void block(const std::string& reason);  // empty: nothing is in the way any more
  // The same, for another reason: its journal has the newest data and is not there.
  void hold_back(const std::string& reason);
  // What an administrator should know though it is served: in status, and in the log when it changes. One text per
  // topic; empty takes it back.
  void set_note(const std::string& topic, const std::string& text);
  void tick(Clock::time_point now);  // time has passed: the limit may be over
  void change_limit(std::chrono::seconds limit);
  void rename(const std::string& name);

  struct View {
    backing::Presence presence;
    scsi::UnitState state;  // ready too when there is no unit
    bool has_unit;
    bool served() const { return has_unit && state == scsi::UnitState::ready; }
    std::string reason;                                            // why it is not served; empty when it is
    std::optional<std::chrono::system_clock::time_point> waiting;  // since when it is not
    std::vector<std::string> notes;
    std::string device;  // path when last opened
  };
  View view() const;

 private:
  void settle(Clock::time_point now, bool writes_lost = false);
  std::string reason_locked() const;

  mutable std::mutex mutex_;  // guards all below; the unit's own lock comes after it
  std::string name_;
  std::chrono::seconds limit_;
  backing::Presence presence_;
  std::string reason_, blocked_, held_back_, device_;
  uint64_t generation_ = 0;
  bool read_only_ = false;
  std::map<std::string, std::string> notes_;
  std::shared_ptr<scsi::LogicalUnit> unit_;
  bool serving_;  // present, not blocked and not held back
  Clock::time_point since_;
  std::chrono::system_clock::time_point since_wall_;
  std::string told_;  // last reason in the log: each is said once
};

const char* state_text(scsi::UnitState state);  // for status: "serving", "waiting", "offline", "given up", "removed"

}  // namespace zvolt::daemon
