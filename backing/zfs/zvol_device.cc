// See zvol_device.h: finding devices. Who uses them is in zvol_use.cc.
#include "backing/zfs/zvol_device.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "backing/open_probe.h"

namespace zvolt::backing {

namespace {

constexpr size_t kZfsNameLength = 256;  // ZFS_MAX_DATASET_NAME_LEN, with its NUL
// From OpenZFS's sys/zvol.h; part of its stable interface (zvol_id uses it).
constexpr unsigned long kBlkZname = _IOR(0x12, 125, char[kZfsNameLength]);
static_assert(kBlkZname == 0x8100127d);

// The name behind a device node, or an error. The open is read-only and not exclusive: it disturbs nobody.
Result<std::string> name_behind(const std::string& node, const DeviceSearch& search) {
  const int fd = open(node.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{errno, failure("open", node, errno)};
  Result<std::string> name = search.name_of(fd);
  close(fd);
  return name;
}

bool is_behind(const std::string& node, const std::string& name, const DeviceSearch& search) {
  const Result<std::string> found = name_behind(node, search);
  return found && *found == name;
}

// What the link below dev_root says: the node it leads to, "" when there is none or it leads elsewhere.
std::string by_link(const std::string& name, const DeviceSearch& search) {
  const std::string link = search.dev_root + "/" + zvol_link_name(name);
  char node[PATH_MAX];
  if (realpath(link.c_str(), node) == nullptr) return "";
  if (search.trust_links) return node;
  return is_behind(node, name, search) ? node : "";
}

// Nodes of all zvols and visible snapshots. A partition (zd0p1) is no entry of /sys/block.
std::vector<std::string> device_nodes(const DeviceSearch& search) {
  std::vector<std::string> nodes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(search.sys_block, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (file.rfind("zd", 0) == 0) nodes.push_back(search.dev_nodes + "/" + file);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

Error no_device(const std::string& name) {
  return {ENOENT, "there is no device of zvol '" + name + "'"};
}

}  // namespace

Result<std::string> zvol_name_of(int fd) {
  char name[kZfsNameLength + 1] = {};
  if (ioctl(fd, kBlkZname, name) != 0) {
    if (errno == ENOTTY || errno == EINVAL) return Error{ENOTTY, "it is not a zvol"};
    return Error{errno, std::string("the device does not tell its dataset: ") + strerror(errno)};
  }
  return std::string(name, strnlen(name, kZfsNameLength));
}

std::string zvol_link_name(const std::string& name) {
  std::string link = name;
  std::replace(link.begin(), link.end(), ' ', '+');
  return link;
}

Result<std::string> find_zvol_device(const std::string& name, const DeviceSearch& search) {
  if (std::string node = by_link(name, search); !node.empty()) return node;
  for (const std::string& node : device_nodes(search)) {
    if (is_behind(node, name, search)) return node;
  }
  return no_device(name);
}

Result<std::string> ZvolDevices::find(const std::string& name) {
  if (std::string node = by_link(name, search_); !node.empty()) return node;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const bool fresh = scanned_.time_since_epoch().count() != 0 && now - scanned_ < kScanEvery;
  const auto found = known_.find(name);
  if (found != known_.end() && is_behind(found->second, name, search_)) return found->second;
  // Known but elsewhere now: a rename or an import has changed everything, and the age of the scan does not matter.
  if (found == known_.end() && fresh) return no_device(name);
  known_.clear();
  for (const std::string& node : device_nodes(search_)) {
    if (const Result<std::string> behind = name_behind(node, search_); behind) known_[*behind] = node;
  }
  scanned_ = std::chrono::steady_clock::now();
  const auto again = known_.find(name);
  if (again == known_.end()) return no_device(name);
  return again->second;
}

}  // namespace zvolt::backing
