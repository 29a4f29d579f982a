// DeviceStore: a block device, zvols included. Made by open_device(); threading as BlockStore.
//
// Always O_DIRECT, and O_EXCL, which the kernel refuses (EBUSY) while the device or a partition of it is mounted, part
// of an array, or held by another daemon. After kill -9 the claim stands until the old process's last request is done.
// `force` first waits kForceWait for the claim, so that an old process's requests are over, and then opens without it.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/fd_store.h"
#include "backing/open_probe.h"
#include "backing/stores.h"

namespace zvolt::backing {

namespace {

// BLKDISCARD and BLKZEROOUT run to their end once begun; pieces keep one call short (a pool under load discards at a
// few hundred MiB/s).
constexpr uint64_t kRangePiece = uint64_t{128} << 20;  // bytes; a multiple of every granule up to that size
constexpr uint32_t kOldMemoryAlignment = 512;          // bytes; what kernels ask for that do not say

class DeviceStore final : public FdStore {
 public:
  DeviceStore(FdSetup setup, bool punch) : FdStore(std::move(setup)), punch_(punch) {}

 protected:
  int zero_aligned(uint64_t offset, uint64_t length) override;
  int discard_granules(uint64_t offset, uint64_t length) override;
  // A block device does not tell which of its blocks are allocated.
  int extent_at(uint64_t, uint64_t length, bool& mapped, uint64_t& extent) override {
    mapped = true;
    extent = length;
    return 0;
  }
  Result<uint64_t> read_size() override;

 private:
  // Runs `call(offset, length)` (0 or -1 and errno) piece by piece.
  template <typename Call>
  static int in_pieces(uint64_t offset, uint64_t length, uint64_t piece, Call call);
  int ioctl_range(unsigned long command, uint64_t offset, uint64_t length) const {
    uint64_t range[2] = {offset, length};
    return ioctl(fd(), command, range);
  }

  const bool punch_;  // discard by PUNCH_HOLE: unmaps and promises zeros, where the device has WRITE ZEROES
};

template <typename Call>
int DeviceStore::in_pieces(uint64_t offset, uint64_t length, uint64_t piece, Call call) {
  for (uint64_t done = 0; done < length; done += piece) {
    int rc;
    do {
      rc = call(offset + done, std::min(piece, length - done));
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) return errno;
  }
  return 0;
}

int DeviceStore::discard_granules(uint64_t offset, uint64_t length) {
  const uint64_t piece = round_up(kRangePiece, geometry().discard_granularity);
  if (!punch_) {
    return in_pieces(offset, length, piece,
                     [this](uint64_t at, uint64_t bytes) { return ioctl_range(BLKDISCARD, at, bytes); });
  }
  const int error = in_pieces(offset, length, piece, [this](uint64_t at, uint64_t bytes) {
    return fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                     static_cast<off_t>(bytes));
  });
  return error == EOPNOTSUPP ? zero_aligned(offset, length) : error;  // zeros were promised, freeing was not
}

int DeviceStore::zero_aligned(uint64_t offset, uint64_t length) {
  const int error = in_pieces(offset, length, kRangePiece,
                              [this](uint64_t at, uint64_t bytes) { return ioctl_range(BLKZEROOUT, at, bytes); });
  return error == EOPNOTSUPP || error == ENOTTY ? write_zeros(offset, length) : error;
}

Result<uint64_t> DeviceStore::read_size() {
  uint64_t size = 0;
  if (ioctl(fd(), BLKGETSIZE64, &size) == 0) return size;
  const int error = errno;
  return Error{error, failure("read the size of", describe(), error)};
}

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

Result<int> claim_device(const DeviceOptions& options) {
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
  int error = retry_while_busy(attempt, EBUSY, options.force ? kForceWait : options.busy_wait);
  if (error == EBUSY && options.force) error = try_open(options, 0, fd);
  if (error == EBUSY) return busy_error(options.path);
  if (error != 0) return Error{error, failure("open", options.path, error)};
  return fd;
}

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

Result<std::shared_ptr<BlockStore>> open_device(const DeviceOptions& options) {
  const Result<int> claimed = claim_device(options);
  if (!claimed) return claimed.error();
  struct stat st {};
  FdSetup setup;
  bool punch = false;
  const Result<void> read = fstat(*claimed, &st) == 0
                                ? read_geometry(options, *claimed, st.st_rdev, setup, punch)
                                : Result<void>(Error{errno, failure("stat", options.path, errno)});
  if (!read || setup.size == 0) {
    close(*claimed);
    if (!read) return read.error();
    return Error{EINVAL, options.path + " has no size (no medium, or an empty loop device)"};
  }
  setup.fd = *claimed;
  setup.description = "device " + options.path + " (O_DIRECT, " + std::to_string(setup.geometry.logical_block) + "/" +
                      std::to_string(setup.geometry.physical_block) + " byte blocks" +
                      (setup.geometry.volatile_cache ? "" : ", write through") +
                      (setup.geometry.read_only ? ", read only)" : ")");
  return std::shared_ptr<BlockStore>(std::make_shared<DeviceStore>(std::move(setup), punch));
}

}  // namespace zvolt::backing
