// VolumeSet: opens, provisions, identifies and closes volumes, and has them watched. Used by the composition root at
// start and by apply; one call at a time, each may block for as long as devices and zfs commands let it (bounded by the
// limits here), never on a shard.
//
// What is missing: a file that is not there (and has no `provision:`) is an error, as a typing mistake mostly is. A
// device or zvol that is not there is a warning and a LUN that waits: pools are imported and disks appear after the
// daemon has started, and the LUN comes up by itself. The same for one that is busy.
//
// A zvol that was never seen has no identity that could be told (identity.h): it waits without a unit, and is announced
// to hosts when it comes (on_arrival).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backing/result.h"
#include "backing/zfs/zvol.h"
#include "config/model.h"
#include "target/daemon/closer.h"
#include "target/daemon/journals.h"
#include "target/daemon/provision.h"
#include "target/daemon/state_dir.h"
#include "target/daemon/volume.h"
#include "target/daemon/watcher.h"

namespace zvolt::daemon {

// Files opened and zvols made, all of them; after that those that are not ready are errors.
inline constexpr std::chrono::milliseconds kOpenLimit{120'000};
// First looks at devices and zvols, all of them; after that those that are not open yet are LUNs that wait.
inline constexpr std::chrono::milliseconds kFirstLookLimit{15'000};

struct VolumeSetOptions {
  backing::ZfsOptions zfs;
  backing::DeviceSearch search;
};

// What ZFS told about the zvols of one moment. A pool that could not be asked is in `silent` with why.
struct ZvolFacts {
  std::map<std::string, backing::ZvolProperties> found;  // by dataset
  std::map<std::string, std::string> silent;             // by pool
};

class VolumeSet {
 public:
  VolumeSet(const StateDir& state, VolumeSetOptions options);
  ~VolumeSet();
  VolumeSet(const VolumeSet&) = delete;
  VolumeSet& operator=(const VolumeSet&) = delete;

  // Called on a watcher's thread when a volume without a unit is there; must not block, returns whether it took notice.
  // Empty: nobody is told (until somebody is). Once this has returned the former notice is not called any more.
  void on_arrival(Watcher::Arrived notice);

  // Opens those of `wanted` that `kept` does not have (by wanted name): all or nothing. `kept` stay as they are, but
  // count for identities. What was opened is watched from now on.
  struct Opened {
    std::vector<OpenVolume> volumes;  // in the order of `wanted`, without `kept`
    Made made;
    std::map<std::string, Identity> identities;  // of all wanted ones, by name
  };
  Result<Opened> open(const std::vector<const config::Volume*>& wanted,
                      const std::map<std::string, const OpenVolume*>& kept);
  // Undoes open(): closes, removes the files it made unless they were used. What stays, as a sentence or empty.
  std::string abandon(Opened opened);

  // The identity of a volume that arrived, and its unit. `all`: everything that is open, for duplicates.
  Result<OpenVolume> identify_arrival(const OpenVolume& volume, const std::vector<OpenVolume>& all);

  // Ends the watch; the store closes when the last one lets go of it.
  void release(const OpenVolume& volume);
  // Takes over a name, limits and promises that changed.
  void rewatch(const OpenVolume& volume);

  ZvolFacts ask_zfs(const std::vector<const config::Volume*>& volumes) const;
  const backing::Zfs& zfs() const { return zfs_; }
  backing::ZvolCatalog& catalog() { return host_->catalog; }
  StoreCloser& closer() { return closer_; }
  Journals& journals() { return journals_; }
  // Before the end: false when threads still hang in devices or commands (the process must then leave without cleaning
  // up).
  bool stop_watching(std::chrono::milliseconds limit) { return watcher_.stop(limit); }

 private:
  struct Job;
  using Jobs = std::vector<std::shared_ptr<Job>>;
  Result<std::vector<Identity>> identities(const std::vector<const config::Volume*>& wanted,
                                           const std::map<std::string, const OpenVolume*>& kept,
                                           const ZvolFacts& facts) const;
  static void prepare(Job& job);
  std::optional<Error> make_units(const Jobs& jobs);
  Result<Opened> finish(const Jobs& jobs);

  const StateDir& state_;
  const backing::Zfs zfs_;
  std::shared_ptr<backing::ZvolHost> host_;
  StoreCloser closer_;
  Journals journals_;
  struct ArrivalSink;
  std::shared_ptr<ArrivalSink> arrivals_;  // shared with the watcher's threads
  Watcher watcher_;
};

}  // namespace zvolt::daemon
