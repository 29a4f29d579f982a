// How the store of one volume is opened: files and memory as they are, devices and zvols through follow_device(), so
// that one that is missing, goes or comes back is the volume's health and not an error. Used by the volume set on
// helper threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backing/zfs/zvol.h"
#include "target/daemon/closer.h"
#include "target/daemon/identity.h"
#include "target/daemon/volume.h"

namespace zvolt::daemon {

// Keeps a zvol that comes (back) from being served under the identity of another one. Asked at every opening.
class IdentityGuard {
 public:
  // `journaled`: the configuration names a journal.
  IdentityGuard(backing::Zfs zfs, bool journaled) : zfs_(std::move(zfs)), journaled_(journaled) {}

  // From now on only a zvol with this UUID is the volume, or one without any that has this GUID (0: not known).
  void expect(const Uuid& uuid, uint64_t guid);
  void expect_journal(bool journaled);
  // EEXIST with what is wrong: another disk, or its newest data is in a journal that the configuration does not name.
  // Writes the UUID to a zvol that has none; a failure of that is a note in `health`, no error.
  Result<void> check(const backing::ZvolProperties& properties, VolumeHealth& health);

 private:
  const backing::Zfs zfs_;
  std::mutex mutex_;  // guards all below
  std::optional<Uuid> expected_;
  uint64_t guid_ = 0;
  bool journaled_;
};

// What opening needs beside the volume. A value: the threads that open may outlive who started them.
struct OpenTools {
  backing::Zfs zfs;
  std::shared_ptr<backing::ZvolHost> host;
  StoreCloser closer;
  std::function<void()> wake;  // the watcher of this volume
};

// Fills store, faults, followed, zvol, guard and health of `volume` (its config is given). Does not look at a device
// yet: that may hang, see first_look(). `guid`: of the dataset that has the volume's UUID.
Result<void> open_store(OpenVolume& volume, const OpenTools& tools, uint64_t guid);
// A volume that has a journal now, and no slot yet, gets one.
void make_slot(OpenVolume& volume, const StoreCloser& closer);
// Other fault rules of a test store whose configuration has changed; a store that had none gets the double around it.
Result<void> refit_faults(OpenVolume& volume, const StoreCloser& closer);
// The first attempt to open a device. Blocks; may hang for ever.
void first_look(const OpenVolume& volume);

}  // namespace zvolt::daemon
