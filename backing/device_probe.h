// Opening a block device: the exclusive claim, and what the device says of itself. Used by open_device() and by
// FollowedDevice; never on a shard (all of it can block). No state.
#pragma once

#include "backing/fd_store.h"
#include "backing/stores.h"

namespace zvolt::backing {

// A descriptor, closed when it is given up before release().
class OpenDevice {
 public:
  OpenDevice() = default;
  explicit OpenDevice(int fd) : fd_(fd) {}
  ~OpenDevice();
  OpenDevice(OpenDevice&& other) noexcept : fd_(other.release()) {}
  OpenDevice& operator=(OpenDevice&&) = delete;
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// O_EXCL, which the kernel refuses (EBUSY) while the device or a partition of it is mounted, part of an array, or held
// by another process. After kill -9 the claim stands until the old process's last request is done. `force` first waits
// options.force_wait for the claim, so that an old process's requests are over, and then opens without it.
Result<OpenDevice> claim_device(const DeviceOptions& options);

struct DeviceFacts {
  FdSetup setup;       // with no descriptor in it
  bool punch = false;  // see DeviceStore
};
// EINVAL when it has no size (no medium, an empty loop device).
Result<DeviceFacts> read_device(const DeviceOptions& options, int fd);

}  // namespace zvolt::backing
