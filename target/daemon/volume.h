// OpenVolume: one volume that is served (or waits for its device), with everything that belongs to it. A value of
// shared parts: apply replaces it by another one that has the same store and unit and another configuration, while who
// still looks at the old one sees it whole. No threading rule.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backing/fault_store.h"
#include "backing/followed_store.h"
#include "backing/zfs/zvol.h"
#include "config/model.h"
#include "scsi/logical_unit.h"
#include "target/daemon/health.h"
#include "target/daemon/identity.h"

namespace zvolt::daemon {

class IdentityGuard;
class JournalSlot;

struct OpenVolume {
  config::Volume config;
  std::optional<Uuid> uuid;                          // none: a zvol that was never seen; it is no LUN yet
  std::shared_ptr<backing::BlockStore> store;        // the volume's own
  std::shared_ptr<backing::BlockStore> journaled;    // the way to it through a journal (its slot), null without one
  std::shared_ptr<JournalSlot> slot;                 // the same
  std::shared_ptr<backing::FaultStore> faults;       // the same when it is a test store, else null
  std::shared_ptr<backing::FollowedStore> followed;  // the device below, null for files and memory
  std::shared_ptr<backing::FollowedZvol> zvol;       // what ZFS says of it, null for all but zvols
  std::shared_ptr<IdentityGuard> guard;              // null for all but devices and zvols
  std::shared_ptr<VolumeHealth> health;
  std::shared_ptr<scsi::LogicalUnit> unit;  // null without uuid

  // What the unit reads and writes.
  const std::shared_ptr<backing::BlockStore>& served() const { return journaled ? journaled : store; }
};

// Where a volume is in the file system; empty when it is in memory.
std::string device_path(const config::Volume& volume);
// Whose threads look at and close its store: "pool tank", "devices", "files".
std::string lane_of(const config::Volume& volume);

// A unit over the store. Not served before health->set_unit(), which gives it its state.
Result<std::shared_ptr<scsi::LogicalUnit>> make_unit(const OpenVolume& volume);

scsi::SyncMode sync_mode(config::Sync sync);
scsi::RateLimit rate_limit(const config::Limit& limit);

}  // namespace zvolt::daemon
