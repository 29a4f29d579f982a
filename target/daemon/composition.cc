// See composition.h.
#include "target/daemon/composition.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

namespace zvolt::daemon {
namespace {

using Units = std::map<std::string, std::shared_ptr<scsi::LogicalUnit>>;

unsigned cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

iscsi::TargetNode make_target(const config::Target& target, const Units& units) {
  auto luns = std::make_shared<scsi::LunMap>();
  for (const config::Lun& lun : target.luns)
    if (const auto unit = units.find(lun.volume); unit != units.end())
      luns->entries.push_back({lun.number, unit->second, lun.read_only});
  std::sort(luns->entries.begin(), luns->entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return {target.name, target.alias, target.groups, target.initiators, std::move(luns)};
}

}  // namespace

const OpenVolume* Composition::volume(const std::string& name) const {
  const auto found =
      std::find_if(volumes.begin(), volumes.end(), [&](const OpenVolume& v) { return v.config.name == name; });
  return found == volumes.end() ? nullptr : &*found;
}

std::vector<const config::Volume*> used_volumes(const config::Config& config) {
  std::set<std::string> names;
  for (const config::Target& target : config.targets)
    for (const config::Lun& lun : target.luns) names.insert(lun.volume);
  std::vector<const config::Volume*> used;
  for (const config::Volume& volume : config.volumes)
    if (names.contains(volume.name)) used.push_back(&volume);
  return used;
}

Result<Composed> compose(const config::Config& config, VolumeSet& set) {
  static_cast<void>(set.journals().open(config.journals));  // what cannot be opened is told by its volumes
  auto opened = set.open(used_volumes(config), {});
  if (!opened) return opened.error();
  return Composed{{config, std::move(opened->volumes)}, std::move(opened->made)};
}

unsigned shard_count(const config::Config& config) {
  return config.threads == 0 ? cores() : config.threads;
}

std::vector<iscsi::PortalOptions> portals_of(const config::Config& config) {
  std::vector<iscsi::PortalOptions> out;
  for (const config::Listen& listen : config.listen) out.push_back({listen.address, listen.port, listen.group});
  return out;
}

std::vector<iscsi::TargetNode> targets_of(const Composition& composition) {
  Units units;
  for (const OpenVolume& volume : composition.volumes)
    if (volume.unit) units[volume.config.name] = volume.unit;
  std::vector<iscsi::TargetNode> out;
  for (const config::Target& target : composition.config.targets) out.push_back(make_target(target, units));
  return out;
}

iscsi::ServerOptions server_options(const Composition& composition) {
  iscsi::ServerOptions out;
  out.shards = shard_count(composition.config);
  out.memory_bytes = composition.config.memory;
  out.portals = portals_of(composition.config);
  out.targets = targets_of(composition);
  return out;
}

}  // namespace zvolt::daemon
