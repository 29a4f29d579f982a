// See host_check.h.
#include "target/daemon/host_check.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace zvolt::daemon {
namespace {

using config::Problem;
using config::StoreKind;
using config::Volume;
using Volumes = std::vector<const Volume*>;

// Only what is a LUN is ever opened.
Volumes mapped_volumes(const config::Config& config) {
  std::set<std::string> names;
  for (const config::Target& target : config.targets)
    for (const config::Lun& lun : target.luns) names.insert(lun.volume);
  Volumes out;
  for (const Volume& volume : config.volumes)
    if (names.contains(volume.name)) out.push_back(&volume);
  return out;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

// Lines of a file without those that are comments.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] != '#') out.push_back(line.substr(first));
  }
  return out;
}

// One warning for many volumes: 500 zvols are not 500 lines.
void warn_together(const Volumes& volumes, const std::string& what, HostFindings& out) {
  if (volumes.empty()) return;
  std::string names = volumes.front()->path;
  if (volumes.size() > 1) names += " and " + std::to_string(volumes.size() - 1) + " more";
  out.warnings.push_back({volumes.front()->path_where, names + ": " + what});
}

void check_paths(const Volumes& volumes, HostFindings& out) {
  for (const Volume* volume : volumes) {
    if (volume->path.empty() || volume->kind == StoreKind::zvol || exists(volume->path)) continue;
    const bool file = volume->kind == StoreKind::file;
    if (file && volume->provision && !volume->read_only) continue;
    const Problem problem{volume->path_where, volume->path + " is not there" +
                                                  (file ? ": create it, or let it be made by 'provision: { size: ... }'"
                                                        : "; its LUN will wait for it")};
    (file ? out.missing : out.warnings).push_back(problem);
  }
}

void check_zvols(const Volumes& zvols, const HostOptions& options, HostFindings& out) {
  std::vector<std::string> names;
  for (const Volume* volume : zvols) names.push_back(volume->path);
  if (names.empty()) return;
  const auto found = backing::Zfs(options.zfs).list(names);
  if (!found) return warn_together(zvols, "ZFS cannot be asked about it on this host: " + found.error().message, out);
  std::map<std::string, const backing::ZvolProperties*> by_name;
  for (const backing::ZvolProperties& properties : *found) by_name[properties.name] = &properties;
  Volumes absent, scanned, snapshots;
  for (const Volume* volume : zvols) {
    const auto entry = by_name.find(volume->path);
    if (entry == by_name.end()) {
      if (!volume->provision) absent.push_back(volume);
      continue;
    }
    const backing::ZvolProperties& zvol = *entry->second;
    if (!zvol.problem.empty()) {
      out.warnings.push_back({volume->path_where, zvol.problem});
      continue;
    }
    if (zvol.sync == "disabled" && volume->sync != config::Sync::disabled)
      out.warnings.push_back({volume->path_where, "ZFS has sync=disabled on " + zvol.name +
                                                      ": flushes would keep nothing, so its LUN will not be served "
                                                      "('zfs set sync=standard " +
                                                      zvol.name + "')"});
    if (zvol.volmode != "dev" && zvol.volmode != "none") scanned.push_back(volume);
    if (zvol.volmode == "none")
      out.warnings.push_back({volume->path_where, zvol.name + " has volmode=none: it has no device to serve"});
    if (zvol.snapdev == "visible") snapshots.push_back(volume);
  }
  warn_together(absent, "there is no such zvol, and no 'provision' to make it; its LUN will wait for it", out);
  warn_together(scanned,
                "with this volmode the host looks for the guest's partitions on it; 'zfs set volmode=dev' "
                "keeps them the guest's own",
                out);
  warn_together(snapshots,
                "snapdev=visible shows its snapshots as disks of this host, with the same LVM and file "
                "system UUIDs; 'zfs set snapdev=hidden' unless something needs them",
                out);
}

// LVM of the host finds the guests' volume groups and activates them, and then the zvol is in use.
void check_lvm(const Volumes& zvols, const HostOptions& options, HostFindings& out) {
  if (zvols.empty() || !exists(options.lvm_conf)) return;
  for (const std::string& line : lines_of(options.lvm_conf)) {
    const bool filter = line.starts_with("global_filter") || line.starts_with("filter");
    if (filter && (line.find("/zd") != std::string::npos || line.find("/zvol") != std::string::npos)) return;
    if (line.starts_with("use_devicesfile") && line.find('1') != std::string::npos) return;
  }
  warn_together(zvols,
                "LVM of this host may take volume groups of guests on it for its own; write in " + options.lvm_conf +
                    ": global_filter = [ \"r|/dev/zd.*|\", \"r|/dev/zvol/.*|\" ]",
                out);
}

// udev looks into a disk again whenever somebody who wrote to it closes it, and holds it open meanwhile.
void check_udev(const Volumes& zvols, const HostOptions& options, HostFindings& out) {
  if (zvols.empty() || !exists(options.udev_run)) return;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(options.udev_rules, ec))
    for (const std::string& line : lines_of(entry.path().string()))
      if (line.find("KERNEL==\"zd") != std::string::npos && line.find("nowatch") != std::string::npos) return;
  warn_together(zvols,
                "udev of this host looks into the guest's disk; a file in " + options.udev_rules +
                    " with: SUBSYSTEM==\"block\", KERNEL==\"zd*\", OPTIONS+=\"nowatch\", "
                    "ENV{UDISKS_IGNORE}=\"1\"",
                out);
}

}  // namespace

HostFindings check_host(const config::Config& config, const HostOptions& options) {
  HostFindings out;
  const Volumes used = mapped_volumes(config);
  Volumes zvols;
  std::copy_if(used.begin(), used.end(), std::back_inserter(zvols),
               [](const Volume* volume) { return volume->kind == StoreKind::zvol; });
  check_paths(used, out);
  check_zvols(zvols, options, out);
  check_lvm(zvols, options, out);
  check_udev(zvols, options, out);
  return out;
}

}  // namespace zvolt::daemon
