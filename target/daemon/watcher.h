// Watcher: looks at every open volume's store each second, and at once when an error asks for it, so that a device that
// comes, goes or changes is noticed though nobody reads or writes. Also asks ZFS for the properties of all zvols each
// ten seconds (one command per pool). One thread per pool for the devices and one for the properties, one for plain
// devices, one for files: a pool that hangs holds up nobody else. Called by the volume set; any thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/followed_store.h"
#include "backing/zfs/zvol.h"
#include "target/daemon/health.h"
#include "target/daemon/pulse.h"

namespace zvolt::daemon {

inline constexpr std::chrono::milliseconds kLookEvery{1000};
inline constexpr std::chrono::milliseconds kPropertiesEvery{10'000};

// One volume to watch. Weak: the watcher never keeps a store open that everybody else has let go.
struct Watched {
  std::string name;
  std::string configured;  // path or dataset by the configuration
  std::string lane;        // lane_of()
  std::shared_ptr<VolumeHealth> health;
  std::weak_ptr<backing::BlockStore> store;
  std::weak_ptr<backing::FollowedStore> followed;  // devices and zvols
  std::shared_ptr<backing::FollowedZvol> zvol;     // null: no zvol
};

class Watcher {
 public:
  // A volume without a unit is there now. Called on a watcher's thread each second until it returns true, then every
  // ten seconds or so while that is so; must not block, and must own what it refers to.
  using Arrived = std::function<bool(const std::string& name)>;
  explicit Watcher(Arrived arrived);
  ~Watcher();

  void add(Watched watched);  // in place of one with the same health
  void remove(const std::shared_ptr<VolumeHealth>& health);
  // For FollowedStore::on_look_wanted: wakes the lane, does nothing when the watcher is gone.
  std::function<void()> waker(const std::string& lane, bool zvols);
  // False: some thread still hangs in a device or a command after `limit`.
  bool stop(std::chrono::milliseconds limit);

 private:
  struct Lane;
  Lane& lane_locked(const std::string& name, bool zvols);

  const Arrived arrived_;
  std::mutex mutex_;  // guards lanes_
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Pulse> clock_;  // limits and hanging lanes; does no I/O
};

}  // namespace zvolt::daemon
