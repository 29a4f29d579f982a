// FollowedZvol: what makes a FollowedStore (followed_store.h) follow a zvol: where its device is, whether it may be
// served, what its errors mean, and what it is called now. Made by the daemon, one per `zvol:` volume:
//
//   auto host = std::make_shared<ZvolHost>();                        // one for the daemon
//   auto zvol = std::make_shared<FollowedZvol>(options, host);
//   auto store = follow_device(zvol->follow_options());              // the options keep zvol alive
//   ... each second, on the watcher's thread: store->look(); zvol->check(store->device_fd());
//
// Threading: everything is thread-safe and may block (commands, opens): on helper threads only, never on a shard.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backing/followed_store.h"
#include "backing/result.h"
#include "backing/zfs/zfs.h"
#include "backing/zfs/zvol_catalog.h"
#include "backing/zfs/zvol_device.h"

namespace zvolt::backing {

// What all zvols of one daemon share.
struct ZvolHost {
  explicit ZvolHost(ZfsOptions zfs = {}, DeviceSearch device_search = {}, UseCheck uses = {});

  DeviceSearch search;
  // explain() has 2 s in all: for the properties, and then for the pool's health.
  std::chrono::milliseconds explain_properties{1100};
  std::chrono::milliseconds explain_health{700};
  UseCheck use_check;  // without probe_claim: the store opens exclusively itself, and may have it open still
  ZvolCatalog catalog;
  ZvolDevices devices;
};

struct ZvolOptions {
  std::string name;                  // pool/path, as configured
  bool read_only = false;            // the volume is served read-only
  bool force = false;                // serve it although it is in use or ZFS cannot be asked
  bool allow_sync_disabled = false;  // the volume promises nothing (sync: disabled), or its journal does
  uint64_t guid = 0;                 // 0: that of the first opening; else only this dataset is the volume
  std::chrono::milliseconds busy_wait = kBusyWait;
};

// locate() and admit() are asked again each second: what takes longer than this is an answer of "not now".
inline constexpr std::chrono::milliseconds kAdmitWait{5000};
// How old what check() knows may be: for 500 volumes `zfs get` takes a good part of a tenth of a second of CPU.
inline constexpr std::chrono::milliseconds kCheckAge{5000};
// A write fails for want of space when ZFS's worst case for it does not fit (spa_asize_inflation, 24), and some more is
// in flight: less than this is "no space left".
inline constexpr uint64_t kSpaceInflation = 24;
inline constexpr uint64_t kSpaceSlack = 1u << 20;  // bytes

class FollowedZvol : public std::enable_shared_from_this<FollowedZvol> {
 public:
  FollowedZvol(ZvolOptions options, std::shared_ptr<ZvolHost> host);
  ~FollowedZvol();
  FollowedZvol(const FollowedZvol&) = delete;
  FollowedZvol& operator=(const FollowedZvol&) = delete;

  // For follow_device(): locate, admit and explain of this zvol.
  FollowOptions follow_options();

  // The device now. ENOENT with why there is none: no such dataset, pool not imported or not healthy, key not loaded,
  // volmode=none, no volume, or only not made yet. EBUSY when something else uses it (check_zvol_unused).
  Result<std::string> locate();

  // May this open device be served? Refused: another dataset than meant (its name, or its GUID: somebody renamed ours
  // away and made a new one), no volume, sync=disabled (every flush would lie) unless allowed, ZFS cannot be asked
  // (then nobody knows that) unless forced. What it says of readonly is no reason to refuse: the device is then
  // read-only.
  Result<void> admit(int fd);

  // What an error of the device means: ENOSPC (the pool is full), EDQUOT (a quota or reservation is), EROFS
  // (readonly=on), ENODEV (no dataset, no device), ENOMEDIUM (pool suspended or not usable: it may come back), else
  // `error` itself.
  int explain(int error, const IoRequest& request);

  // Each second, of a store that is present (fd of device_fd(), -1: nothing is done): follows a rename, looks at sync.
  struct Findings {
    std::string renamed_from;  // not empty: the dataset's name has changed since the last check
    // Not ok: it must not be served any longer, and why (sync=disabled was set). The daemon makes the unit not ready;
    // it may serve again when a later check is ok.
    Result<void> servable;
  };
  Findings check(int fd);

  std::string name() const;                          // of the dataset now; the configured one until it was renamed
  uint64_t guid() const;                             // 0 before the first opening
  std::optional<ZvolProperties> properties() const;  // as last seen, no I/O
  const ZvolOptions& options() const { return options_; }
  // Instead of the option: the volume's own `sync:` was edited while it is served.
  void allow_sync_disabled(bool allowed) { sync_disabled_allowed_.store(allowed, std::memory_order_relaxed); }

 private:
  Result<std::optional<ZvolProperties>> ask(const std::string& name, std::chrono::milliseconds wait,
                                            std::chrono::milliseconds age = kCatalogAge);
  Result<std::string> find_device();
  Result<std::string> our_name_behind(int fd) const;
  Error why_no_device();
  Result<void> same_dataset(const ZvolProperties& properties) const;
  Result<void> keeps_flushes(const ZvolProperties& properties) const;
  int explain_space(const ZvolProperties& properties, const IoRequest& request, int error);
  std::string take_name(const std::string& now);

  const ZvolOptions options_;
  const std::shared_ptr<ZvolHost> host_;
  std::atomic<bool> sync_disabled_allowed_;
  mutable std::mutex mutex_;
  std::string name_;
  uint64_t guid_ = 0;
  std::optional<ZvolProperties> seen_;
};

}  // namespace zvolt::backing
