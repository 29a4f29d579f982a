// Zfs: what zvolt asks of ZFS's own commands, and nothing else: properties of volumes, create, clone, set, pool state.
// Called by the daemon (provisioning, watching, explaining errors) on helper threads: every call starts a process and
// blocks, bounded by the deadline. Thread-safe. A hung `zfs` is left behind (child.h), never waited for.
//
// The output read is that of `zfs get -Hp -o name,property,value,source` and `zpool list -Hp` (zfs-get(8),
// zpool-list(8), OpenZFS 2.1 and later): tab-separated, exact numbers. Sizes in bytes everywhere. Nothing here ever
// destroys.
//
// Errors: code is what the text of the command means, message is that text, made printable:
//   ENOENT no such dataset or pool    EEXIST it is there already    EINVAL not a volume, bad name, value or size
//   ENOSPC no room                    EBUSY in use                  EPERM permission denied
//   EROFS pool is read-only           EAGAIN pool suspended         ENOSYS command missing or module not loaded
//   ETIMEDOUT no answer in time       EPROTO output that cannot be understood       EIO anything else
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backing/result.h"
#include "backing/zfs/zvol_device.h"

namespace zvolt::backing {

// The user property that carries a volume's UUID with the dataset.
inline constexpr char kUuidProperty[] = "org.zvolt:uuid";

// The one that says in which journal its newest data is (target/daemon/journal_keeper.h).
inline constexpr char kJournalProperty[] = "org.zvolt:journal";

struct ZvolProperties {
  std::string name;
  // Not empty: the dataset is there but cannot serve as a volume (a file system, a snapshot, a value that cannot be
  // read), in words; the numbers are then not to be used.
  std::string problem;
  uint64_t guid = 0;
  uint64_t volsize = 0;
  uint64_t volblocksize = 0;
  uint64_t available = 0;
  uint64_t used = 0;
  uint64_t referenced = 0;
  uint64_t refreservation = 0;  // 0: sparse
  std::string sync;             // standard, always, disabled
  std::string logbias;
  std::string compression;
  std::string volmode;  // default, full, geom, dev, none
  std::string snapdev;
  std::string origin;        // the snapshot it is a clone of, "" none
  bool key_missing = false;  // encrypted and the key is not loaded: there is no device
  bool read_only = false;
  // kUuidProperty, "" none. Only when set on (or received by) this dataset: an inherited one would give all children
  // of a file system the same identity. Printable ASCII; not checked to be a UUID.
  std::string uuid;
  std::string journal;  // kJournalProperty, under the same rule
};

struct ZfsOptions {
  std::string command = "zfs";
  std::string zpool_command = "zpool";
  std::chrono::milliseconds deadline{5000};  // for each command
};

// Why `name` cannot be the name of a dataset (with `snapshot`: pool/path@snap), "" when it can. A name that passes is
// never taken for an option by a command.
std::string bad_dataset_name(const std::string& name, bool snapshot = false);

class Zfs {
 public:
  explicit Zfs(ZfsOptions options = {}) : options_(std::move(options)) {}
  const ZfsOptions& options() const { return options_; }

  // One command for many (chunks of kNamesPerCommand). In the order ZFS tells them; those that do not exist are left
  // out, those that are no volumes have a `problem`.
  Result<std::vector<ZvolProperties>> list(const std::vector<std::string>& names) const;
  // nullopt: it does not exist. EINVAL: it is no volume.
  Result<std::optional<ZvolProperties>> get(const std::string& name) const;

  struct CreateSpec {
    std::string name;
    uint64_t size = 0;  // rounded up to volblocksize. A clone: 0 keeps its origin's, less than that is refused
    uint64_t volblocksize =
        0;               // 0: the default of this ZFS. A clone has that of its origin: 0, or EINVAL if it differs
    bool sparse = true;  // false: refreservation for the whole size
    std::map<std::string, std::string> properties;
    std::string clone_from;  // pool/path@snapshot, "" for a new empty volume
  };
  // The size it has now. Parents must exist. A clone is made in steps; an error says which of them was done.
  Result<uint64_t> create(const CreateSpec& spec) const;

  Result<void> set(const std::string& name, const std::string& property, const std::string& value) const;
  // ZFS refuses a size that is no multiple of volblocksize: it is rounded up. The size it has now. Less than the
  // present size is refused (EINVAL) unless `allow_shrink`: what lies beyond is lost.
  Result<uint64_t> set_volsize(const std::string& name, uint64_t bytes, bool allow_shrink = false) const;

  // Whether the contents of the volume became others (rollback, receive -F) after `property` was last set to `value`:
  // what the pool's history says of that, "" nothing. ENOENT: it does not say that this was ever set (a received copy,
  // or long ago). Reads all of the history: seconds, on a pool of many years.
  Result<std::string> contents_replaced(const std::string& name, const std::string& property,
                                        const std::string& value) const;
  // What was written to the pool before is on its disks afterwards, sync=disabled or not.
  Result<void> sync_pool(const std::string& pool) const;

  // ONLINE, DEGRADED, SUSPENDED ... ; ENOENT: not imported here.
  Result<std::string> pool_state(const std::string& pool) const;

 private:
  Result<void> list_chunk(const std::vector<std::string>& names, std::vector<ZvolProperties>& all) const;
  Result<uint64_t> clone(const CreateSpec& spec) const;

  ZfsOptions options_;
};

// A command line takes 128 KiB an argument and 2 MiB in all; 200 names of at most 255 bytes are 50 KiB.
inline constexpr size_t kNamesPerCommand = 200;

std::string pool_of(const std::string& dataset);  // "tank" of "tank/vm/a"

}  // namespace zvolt::backing
