// From the name of a zvol to its block device and back, with or without udev, and who else uses the device. Called by
// locate() and admit() of a followed zvol (zvol.h) and by provisioning. Everything here may block (opening a zvol can
// take a second): never on a shard. Free functions are thread-safe; a ZvolDevices is too.
//
// ZFS answers the ioctl BLKZNAME with the dataset's present name; it follows a rename at once. udev's links below
// /dev/zvol come late, go stale for a moment at a rename, and are not there at all without udev: so they are a hint
// only.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "backing/result.h"

namespace zvolt::backing {

// BLKZNAME: the dataset (or snapshot) behind an open zvol. ENOTTY: not a zvol. ENXIO and others: it is gone.
Result<std::string> zvol_name_of(int fd);

// Where devices are looked for. The defaults are the system's; tests put their own trees in.
struct DeviceSearch {
  std::string dev_root = "/dev/zvol";
  std::string sys_block = "/sys/block";
  std::string dev_nodes = "/dev";  // a device sys_block/zd16 is dev_nodes/zd16
  std::function<Result<std::string>(int fd)> name_of = zvol_name_of;
  // Tests with loop devices, which know no dataset: what the link below dev_root says is believed.
  bool trust_links = false;
};

// The name that zvol_id of ZFS gives the link below /dev/zvol: blanks become '+'.
std::string zvol_link_name(const std::string& name);

// The device of a zvol: what the link points to when BLKZNAME agrees, else found by asking every zd device.
// ENOENT: no device (no such zvol, pool not imported, volmode=none, key not loaded, or not made yet).
Result<std::string> find_zvol_device(const std::string& name, const DeviceSearch& search = {});

// The same for many zvols: what one look at all zd devices has shown is remembered, so that 500 volumes without udev do
// not mean 500 x 500 opens. What is remembered is checked before it is told.
class ZvolDevices {
 public:
  explicit ZvolDevices(DeviceSearch search = {}) : search_(std::move(search)) {}
  Result<std::string> find(const std::string& name);

 private:
  // All devices are asked at most this often: opening one that is being exported can take a second.
  static constexpr std::chrono::milliseconds kScanEvery{1000};

  DeviceSearch search_;
  std::mutex mutex_;
  std::map<std::string, std::string> known_;  // name -> device node, of the last scan
  std::chrono::steady_clock::time_point scanned_{};
};

// Refuses a device that something on this host uses and says what: mounted, swap, dm or md on top, member of an
// imported pool, a kernel target, a process that has it open for writing. EBUSY with the reason in words. What only
// reads (udev, blkid, a backup) is no reason.
struct UseCheck {
  std::string sys_block = "/sys/class/block";
  std::string proc = "/proc";
  std::string target_core = "/sys/kernel/config/target/core";  // LIO's backstores
  bool probe_claim = true;  // also try O_EXCL; false where we may have it open ourselves
};
Result<void> check_zvol_unused(const std::string& device, const UseCheck& check = {});
// Who has claimed it, seen by an exclusive open of our own: "is claimed by ...", "" nobody. Blocks.
std::string zvol_claimant(const std::string& device, const UseCheck& check = {});

}  // namespace zvolt::backing
