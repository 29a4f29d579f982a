// Small probes that opening a store needs: alignment for O_DIRECT, kind of file system, who uses it. Called while a
// store is opened, never on a shard. No state.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace zvolt::backing {

struct DirectAlignment {
  uint32_t memory = 0;  // bytes; 0: O_DIRECT is not possible
  uint32_t offset = 0;
};

// What statx says (STATX_DIOALIGN, Linux 6.1); false when this kernel or file system does not say.
bool statx_direct_alignment(int fd, DirectAlignment& alignment);

// Memory backed (tmpfs, ramfs): I/O in place never waits for a device.
bool on_memory_file_system(int fd);

// Tries `attempt` until it succeeds, fails with something else than `busy`, or `wait` is over. Returns 0 or errno.
int retry_while_busy(const std::function<int()>& attempt, int busy, std::chrono::milliseconds wait);

// "process 4711 (zvoltd)" that has the inode locked by flock, or "another process".
std::string lock_owner(int fd);

// Where the device (or a partition of it) is mounted, empty when it is not.
std::string mount_point(dev_t device);

// First line of a sysfs file as a number; `fallback` when it is not there.
uint64_t sysfs_number(const std::string& path, uint64_t fallback);
std::string sysfs_text(const std::string& path);

std::string failure(const std::string& what, const std::string& path, int error);  // "cannot open /x: No such file"

}  // namespace zvolt::backing
