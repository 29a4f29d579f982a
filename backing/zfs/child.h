// run_child: one command of the system (zfs, zpool), started without a shell, bounded in time and output. Called by Zfs
// on helper threads; blocks until the command ended or its deadline. Thread-safe.
//
// A process that hangs in the kernel (a suspended pool) does not die of SIGKILL: it is left behind, counted, and reaped
// by a later call. While kMaxAbandoned of them hang no more are started.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backing/result.h"

namespace zvolt::backing {

struct ChildLimits {
  std::chrono::milliseconds deadline{5000};
  // Bytes of standard output. 200 volumes of 18 properties of at most 255 + 64 + 8192 bytes are far below in practice
  // (40 KiB); more than this is no answer to any question of ours.
  size_t output = 8u << 20;
  // Gets standard output as it comes, in pieces of any length; then nothing of it is kept, and `output` does not count.
  std::function<void(std::string_view)> take;
};
// Bytes of standard error that are kept; the rest is read and dropped. A message for each of 200 names fits.
inline constexpr size_t kMaxErrorText = 64u << 10;
// Processes. Each is a blocked task of the kernel; a watcher that asks every second must not pile them up.
inline constexpr size_t kMaxAbandoned = 8;
// After SIGKILL, before a process counts as hanging in the kernel.
inline constexpr std::chrono::milliseconds kKillGrace{200};

struct ChildResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

// Standard input is /dev/null, the environment ours with LC_ALL=C, no other descriptor is inherited (a hung child must
// not hold a device open). A command without '/' is looked for in PATH and then in the sbin folders. Errors: ENOSYS not
// installed; ETIMEDOUT; EOVERFLOW too much output; EBUSY too many hang already; else errno of starting.
Result<ChildResult> run_child(const std::vector<std::string>& arguments, const ChildLimits& limits = {});

size_t abandoned_children();  // that still hang, after reaping those that ended (tests, status)

}  // namespace zvolt::backing
