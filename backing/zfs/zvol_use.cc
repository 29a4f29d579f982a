// check_zvol_unused (zvol_device.h): who on this host uses a block device. Reads /proc, sysfs and configfs; blocks.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <vector>

#include "backing/open_probe.h"
#include "backing/zfs/pool_label.h"
#include "backing/zfs/zfs_output.h"
#include "backing/zfs/zvol_device.h"

namespace zvolt::backing {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// One look at all processes serves many volumes at start.
constexpr std::chrono::milliseconds kWritersAge{1000};

std::string path_of(std::initializer_list<std::string_view> parts) {
  std::string path;
  for (const std::string_view part : parts) {
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// "zd16" and its partitions "zd16p1" ...
std::vector<std::string> device_and_partitions(const std::string& name, const UseCheck& check) {
  std::vector<std::string> all = {name};
  for (const std::string& entry : entries(path_of({check.sys_block, name}))) {
    std::error_code ignored;
    if (fs::exists(path_of({check.sys_block, name, entry, "partition"}), ignored)) all.push_back(entry);
  }
  return all;
}

std::string mounted_at(const std::string& name, const UseCheck& check) {
  std::istringstream numbers(sysfs_text(path_of({check.sys_block, name, "dev"})));  // "230:16"
  unsigned major_number = 0, minor_number = 0;
  char colon = 0;
  if (!(numbers >> major_number >> colon >> minor_number)) return "";
  return mount_point(makedev(major_number, minor_number));
}

bool is_swap(const std::string& name, const UseCheck& check) {
  std::ifstream swaps(check.proc + "/swaps");
  for (std::string line; std::getline(swaps, line);) {
    const std::string file = line.substr(0, line.find_first_of(" \t"));
    if (file.substr(file.rfind('/') + 1) == name) return true;
  }
  return false;
}

std::string holder(const std::string& name, const UseCheck& check) {
  for (const std::string& entry : entries(path_of({check.sys_block, name, "holders"}))) {
    const std::string dm = sysfs_text(path_of({check.sys_block, entry, "dm/name"}));
    if (dm.empty()) return entry;
    return std::string(entry).append(" (").append(dm).append(")");
  }
  return "";
}

// LIO names the device of a block backstore in core/iblock_0/NAME/udev_path.
std::string lio_backstore(const std::string& device, const UseCheck& check) {
  for (const std::string& hba : entries(check.target_core)) {
    for (const std::string& store : entries(path_of({check.target_core, hba}))) {
      const std::string path = sysfs_text(path_of({check.target_core, hba, store, "udev_path"}));
      char real[PATH_MAX];
      if (!path.empty() && realpath(path.c_str(), real) != nullptr && device == real) return store;
    }
  }
  return "";
}

bool open_for_writing(const std::string& proc, const std::string& pid, const std::string& fd) {
  std::ifstream info(path_of({proc, pid, "fdinfo", fd}));
  for (std::string word; info >> word;) {
    if (word != "flags:") continue;
    info >> word;
    const long flags = strtol(word.c_str(), nullptr, 8);
    return (flags & O_ACCMODE) != O_RDONLY;
  }
  return false;
}

// Which process (not ours) has which device below /dev open for writing. By the link's text alone: a stat could hang on
// a dead network file system.
class Writers {
 public:
  std::string of(const std::string& device, const std::string& proc) {
    const std::lock_guard lock(mutex_);
    if (proc != proc_ || Clock::now() - read_ > kWritersAge) {
      read(proc);
      read_ = Clock::now();
    }
    const auto found = by_device_.find(device);
    return found == by_device_.end() ? "" : found->second;
  }

 private:
  void read(const std::string& proc) {
    proc_ = proc;
    by_device_.clear();
    const std::string own = std::to_string(getpid());
    for (const std::string& pid : entries(proc)) {
      if (pid.empty() || pid[0] < '1' || pid[0] > '9' || pid == own) continue;
      for (const std::string& fd : entries(path_of({proc, pid, "fd"}))) {
        char target[PATH_MAX];
        const ssize_t length = readlink(path_of({proc, pid, "fd", fd}).c_str(), target, sizeof target);
        const std::string path(target, length > 0 ? static_cast<size_t>(length) : 0);
        if (path.rfind("/dev/", 0) != 0 || path.rfind("/dev/pts/", 0) == 0 || path == "/dev/null") continue;
        if (!open_for_writing(proc, pid, fd)) continue;
        by_device_[path] = "process " + pid + " (" + printable(sysfs_text(path_of({proc, pid, "comm"}))) + ")";
      }
    }
  }

  std::mutex mutex_;
  std::string proc_;
  Clock::time_point read_{};
  std::map<std::string, std::string> by_device_;
};

Writers writers;

// By the labels: a pool that was given the whole device lies on its first partition.
std::string member_of(const std::string& device, const UseCheck& check) {
  const size_t slash = device.rfind('/') + 1;
  for (const std::string& part : device_and_partitions(device.substr(slash), check)) {
    const int fd = open((device.substr(0, slash) + part).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    std::string pool = pool_on_device(fd);
    close(fd);
    if (!pool.empty()) return pool;
  }
  return "";
}

std::string use_of(const std::string& name, const UseCheck& check) {
  if (const std::string point = mounted_at(name, check); !point.empty()) return "is mounted at " + printable(point);
  if (is_swap(name, check)) return "is used as swap";
  if (const std::string by = holder(name, check); !by.empty()) return "is used by " + printable(by);
  return "";
}

}  // namespace

std::string zvol_claimant(const std::string& device, const UseCheck& check) {
  const int exclusive = open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  if (exclusive >= 0) {
    close(exclusive);
    return "";
  }
  if (errno != EBUSY) return "";
  const std::string claimed = "is claimed by the kernel or another target";
  const std::string pool = member_of(device, check);
  return pool.empty() ? claimed : claimed + ", most likely by pool '" + pool + "'";
}

Result<void> check_zvol_unused(const std::string& device, const UseCheck& check) {
  char real[PATH_MAX];
  if (realpath(device.c_str(), real) == nullptr) return Error{errno, failure("look at", device, errno)};
  const std::string node = real;
  const std::string name = node.substr(node.rfind('/') + 1);
  for (const std::string& part : device_and_partitions(name, check)) {
    const std::string use = use_of(part, check);
    if (!use.empty()) return Error{EBUSY, std::string("/dev/").append(part).append(" ").append(use)};
  }
  if (const std::string store = lio_backstore(node, check); !store.empty()) {
    return Error{EBUSY, node + " is served by the kernel's target as '" + printable(store) + "'"};
  }
  if (const std::string writer = writers.of(node, check.proc); !writer.empty()) {
    return Error{EBUSY, node + " is open for writing in " + writer};
  }
  const std::string claim = check.probe_claim ? zvol_claimant(node, check) : "";
  if (!claim.empty()) return Error{EBUSY, node + " " + claim};
  return {};
}

}  // namespace zvolt::backing
