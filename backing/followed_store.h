// FollowedStore: a block device (a zvol, mostly) that may be late, go away (zpool export, volmode=none, unplug), come
// back, be renamed, resized or made read-only, while nobody above notices more than errors and a notice. Made by
// follow_device(); used by the daemon: its watcher calls look() each second, and at once when that is wanted.
//
// Threading: submit() as any BlockStore, on shards. look() and set_offline() may block (open, close, ioctl: for as long
// as the pool lets them) and are never called on a shard; they exclude each other. report(), look_wanted(),
// device_fd() do no I/O, any thread.
//
// What a request gets:
//   present       whatever the device says. An error that may mean "gone" (EIO, ENXIO, ENODEV, EPERM, ...) is not
//   answered
//                 at once: the request waits (parked at its engine, no thread of the shard's held) for the store's
//                 helper thread, which looks at the device and then answers ENOMEDIUM (it is gone), EROFS (it became
//                 read-only), EINVAL (it shrank: the range is beyond the end), what `explain` makes of it, or EIO.
//   anything else ENOMEDIUM, at once: the one errno that means "not now, may come back". Every request in flight when
//                 the device goes is answered, once.
// The device is closed when the last request in flight on it has ended (a request that the kernel keeps would hold the
// device all the same), and is not opened again before: no write of an earlier time can land on the reopened device.
// `zpool export` waits for that close: it comes within a second of look() cadence, at once when a request failed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backing/block_store.h"
#include "backing/result.h"
#include "backing/stores.h"

namespace zvolt::backing {

enum class Presence : uint8_t {
  present,  // open, serving
  late,     // not opened yet since the daemon started
  gone,     // was open once
  refused,  // it is there, but is in use elsewhere, or `admit` said no; `reason` has the words. Tried again by each
            // look()
  offline,  // by the operator: closed, and stays so until set_offline(false)
};

const char* presence_name(Presence presence);  // "present", ...

struct FollowOptions {
  std::string name;        // for messages: "tank/vm/win2022", "/dev/sdb"
  bool read_only = false;  // never opened for writing
  bool force = false;      // a device that stays busy for kForceWait is opened although it is mounted or claimed
  std::chrono::milliseconds busy_wait = kBusyWait;  // follow_device() only: how long the first open waits for a claim

  // The device's path now ("/dev/zd16"). Blocks. An error of ENOENT, ENODEV or ENXIO: not there (late, gone); any other
  // (a zfs command that hangs): not there for now, with that reason.
  std::function<Result<std::string>()> locate;

  // Who has the device claimed, when opening it failed for that: "is claimed by ..."; "": not known. May be empty.
  // Blocks.
  std::function<std::string(const std::string& path)> claimant;

  // After a fresh exclusive open: may this device be served? An error closes it again (refused, with that reason). May
  // be empty. Blocks.
  std::function<Result<void>(int fd, const Geometry&)> admit;

  // What an errno of a device that is there means: ENOSPC, EDQUOT, EROFS, EIO; what it returns is the answer. Called on
  // the store's helper thread, may block up to 2 s, and should keep its findings for a second: a full pool fails
  // thousands of writes. `request` has kind, offset, length. May be empty.
  std::function<int(int error, const IoRequest& request)> explain;

  // Is the open device still there? 0, or ENXIO, ENODEV, ENOENT, ENOMEDIUM for "gone"; any other errno proves nothing.
  // Empty: a fresh O_RDONLY open, and a size that is not 0. For tests.
  std::function<int(int fd)> probe;

  // How long after ENOSPC the write of an UNMAP's edge is tried once more (IoRequest::spare_holes): ZFS gives freed
  // space back with the next transaction groups, zfs_txg_timeout (5 s) apart.
  std::chrono::milliseconds space_wait{6000};
};

class FollowedStore : public BlockStore {
 public:
  struct Report {
    Presence presence = Presence::late;
    std::string reason;       // why it is not present, or why a close still waits; empty when all is well
    uint64_t size = 0;        // bytes; of the last time it was present
    bool read_only = false;   // writes fail with EROFS now
    std::string device;       // path when last opened, "" when never. A rename does not change it.
    uint64_t generation = 0;  // times it was opened; another number means: it was closed in between
    // A flush or a FUA write failed, or was refused, since set_flushes_told(): hosts have unflushed writes whose fate
    // they should ask about. Flushes work again on the reopened device (a flush that failed while the device was there
    // and writable is another thing: it stays failed through every reopening, and says nothing here).
    bool flush_failed_meanwhile = false;
    bool flush_lost = false;  // that other thing: a flush failed with the device there and writable
  };

  // Looks at the device, follows what changed, closes it when gone, opens it when back. Returns what stands then. Not
  // from on_change().
  virtual Report look() = 0;

  // Offline: no new requests (ENOMEDIUM), those in flight run to their end (waited for, at most kOfflineWait), then the
  // device is flushed and closed; when some are still running, reason says so, and the close follows by itself.
  // Online: as look() when the device is back.
  virtual Report set_offline(bool offline) = 0;
  static constexpr std::chrono::milliseconds kOfflineWait{2000};

  virtual Report report() const = 0;
  virtual bool look_wanted() const = 0;          // an error or an event asks for a look() before its time
  virtual void set_flushes_told() = 0;           // the unit attention for flush_failed_meanwhile was raised
  virtual int device_fd() const = 0;             // for BLKZNAME and the like: one number for life; -1 when closed
  virtual uint64_t requests_parked() const = 0;  // wait for the helper thread now (status, tests)

  // Set before the store is shared. on_change: after presence, size, read-only or geometry changed, with what stands
  // then; in order, on any thread but a shard, inside look() or set_offline(): must call neither. (on_resize of
  // BlockStore is called as well, before.)
  void on_change(std::function<void(const Report&)> notice) { changed_ = std::move(notice); }
  // Wakes the watcher: look_wanted() became true. Any thread but a shard.
  void on_look_wanted(std::function<void()> notice) { wanted_ = std::move(notice); }

 protected:
  std::function<void(const Report&)> changed_;
  std::function<void()> wanted_;
};

// Opens the device when it is there (one look(), waiting at most busy_wait for a claim, kForceWait with force). Never
// fails because it is not. An error: options that cannot be (no locate), no descriptor left.
//
// geometry() of the store: as of the last opening (defaults before the first); a reference stays good as long as the
// store lives, a later call may return another one. size_bytes(): 0 before the first opening, the last one while gone.
Result<std::shared_ptr<FollowedStore>> follow_device(FollowOptions options);

}  // namespace zvolt::backing
