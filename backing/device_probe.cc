// See device_probe.h.
#include "backing/device_probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "backing/aligned_buffer.h"
#include "backing/open_probe.h"

namespace zvolt::backing {

namespace {

constexpr uint32_t kOldMemoryAlignment = 512;  // bytes; what kernels ask for that do not say

Error busy_error(const std::string& path) {
  struct stat st {};
  const std::string point = stat(path.c_str(), &st) == 0 ? mount_point(st.st_rdev) : "";
  const std::string why =
      point.empty() ? " is mounted or in use by the kernel or another process" : " is mounted at " + point;
  return Error{EBUSY, path + why + ": it cannot be served as a LUN at the same time"};
}

int try_open(const DeviceOptions& options, int exclusive, int& fd) {
  fd = open(options.path.c_str(), (options.read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC | exclusive);
  return fd >= 0 ? 0 : errno;
}

}  // namespace

OpenDevice::~OpenDevice() {
  if (fd_ >= 0) close(fd_);
}

Result<OpenDevice> claim_device(const DeviceOptions& options) {
  struct stat st {};
  if (stat(options.path.c_str(), &st) != 0) {
    const int error = errno;
    return Error{error, failure("open", options.path, error)};
  }
  if (!S_ISBLK(st.st_mode)) return Error{ENOTBLK, options.path + " is not a block device"};
  // What is mounted will not become free by waiting.
  if (!options.force && !mount_point(st.st_rdev).empty()) return busy_error(options.path);
  int fd = -1;
  const auto attempt = [&options, &fd] { return try_open(options, O_EXCL, fd); };
  int error = retry_while_busy(attempt, EBUSY, options.force ? options.force_wait : options.busy_wait);
  if (error == EBUSY && options.force) error = try_open(options, 0, fd);
  if (error == EBUSY) return busy_error(options.path);
  if (error != 0) return Error{error, failure("open", options.path, error)};
  return OpenDevice(fd);
}

namespace {

// The queue limits of a partition are its disk's, one directory up.
std::string queue_directory(dev_t device) {
  const std::string base = "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  struct stat st {};
  return stat((base + "/queue").c_str(), &st) == 0 ? base + "/queue/" : base + "/../queue/";
}

// "zd16", or a partition "zd16p1".
bool is_zvol(dev_t device) {
  char target[512];
  const std::string link = "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  return length > 0 && std::string(target, static_cast<size_t>(length)).find("/block/zd") != std::string::npos;
}

void read_discard_limits(dev_t device, Geometry& geometry, bool& punch) {
  const std::string queue = queue_directory(device);
  const uint64_t granularity = sysfs_number(queue + "discard_granularity", 0);
  if (sysfs_number(queue + "discard_max_bytes", 0) == 0 || granularity == 0 || granularity > UINT32_MAX) return;
  geometry.discard_granularity = static_cast<uint32_t>(round_up(granularity, geometry.logical_block));
  const std::string own = "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const uint64_t alignment = sysfs_number(own + "/discard_alignment", 0);
  // The kernel says -1 where the start can never be aligned: the first granule then is anywhere; take offset 0.
  geometry.discard_alignment = alignment < granularity ? static_cast<uint32_t>(alignment) : 0;
  // discard_zeroes_data says 0 on all newer kernels. A zvol frees whole volblocks, and what is not there reads as
  // zeros; elsewhere only WRITE ZEROES with unmap promises that.
  punch = !is_zvol(device) && sysfs_number(queue + "write_zeroes_max_bytes", 0) != 0;
  geometry.discard_zeroes = is_zvol(device) || punch || sysfs_number(queue + "discard_zeroes_data", 0) == 1;
}

uint32_t sane_block(uint32_t value, uint32_t least) {
  return value >= least && std::has_single_bit(value) ? value : least;
}

Result<void> read_geometry(const DeviceOptions& options, int fd, dev_t device, FdSetup& setup, bool& punch) {
  int logical = 0;
  unsigned physical = 0;
  unsigned optimal = 0;
  int read_only = 0;
  if (ioctl(fd, BLKSSZGET, &logical) != 0 || ioctl(fd, BLKGETSIZE64, &setup.size) != 0) {
    const int error = errno;
    return Error{error, failure("read the geometry of", options.path, error)};
  }
  ioctl(fd, BLKPBSZGET, &physical);
  ioctl(fd, BLKIOOPT, &optimal);
  ioctl(fd, BLKROGET, &read_only);
  Geometry& geometry = setup.geometry;
  geometry.logical_block = sane_block(static_cast<uint32_t>(logical), 512);
  geometry.physical_block = sane_block(physical, geometry.logical_block);
  geometry.optimal_io = optimal;
  geometry.io_alignment = geometry.logical_block;
  DirectAlignment alignment;
  const bool told = statx_direct_alignment(fd, alignment) && alignment.memory != 0;
  geometry.memory_alignment = told ? alignment.memory : std::max(kOldMemoryAlignment, geometry.logical_block);
  geometry.read_only = options.read_only || read_only != 0;
  geometry.volatile_cache = sysfs_text(queue_directory(device) + "write_cache") != "write through";
  read_discard_limits(device, geometry, punch);
  return {};
}

}  // namespace

Result<DeviceFacts> read_device(const DeviceOptions& options, int fd) {
  struct stat st {};
  if (fstat(fd, &st) != 0) {
    const int error = errno;
    return Error{error, failure("stat", options.path, error)};
  }
  DeviceFacts facts;
  FdSetup& setup = facts.setup;
  const Result<void> read = read_geometry(options, fd, st.st_rdev, setup, facts.punch);
  if (!read) return read.error();
  if (setup.size == 0) return Error{EINVAL, options.path + " has no size (no medium, or an empty loop device)"};
  setup.description = "device " + options.path + " (O_DIRECT, " + std::to_string(setup.geometry.logical_block) + "/" +
                      std::to_string(setup.geometry.physical_block) + " byte blocks" +
                      (setup.geometry.volatile_cache ? "" : ", write through") +
                      (setup.geometry.read_only ? ", read only)" : ")");
  return facts;
}

}  // namespace zvolt::backing
