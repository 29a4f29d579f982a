// What this host has to say about a configuration before anything is opened: stores that are missing, and how LVM, udev
// and partition scans of the host may get at the guests' disks. Called by `zvoltd --check` and `zvoltctl check`: a
// library of its own, so that zvoltctl takes nothing else of the daemon. Reads only; blocks on file systems and zfs
// commands.
#pragma once

#include <string>
#include <vector>

#include "backing/zfs/zfs.h"
#include "config/model.h"

namespace zvolt::daemon {

struct HostFindings {
  std::vector<config::Problem> missing;   // files that are not there and are not to be made: the daemon will not start
  std::vector<config::Problem> warnings;  // it starts, but somebody should know
};

struct HostOptions {
  backing::ZfsOptions zfs;
  std::string lvm_conf = "/etc/lvm/lvm.conf";  // not there: no LVM
  std::string udev_run = "/run/udev";          // not there: no udev
  std::string udev_rules = "/etc/udev/rules.d";
};

HostFindings check_host(const config::Config& config, const HostOptions& options);

}  // namespace zvolt::daemon
