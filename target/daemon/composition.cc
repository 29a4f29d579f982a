// See composition.h.
#include "target/daemon/composition.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

#include "backing/stores.h"
#include "target/daemon/faults.h"

namespace zvolt::daemon {
namespace {

using StorePtr = std::shared_ptr<backing::BlockStore>;

// Where a volume is in the file system; empty when it is in memory.
std::string device_path(const config::Volume& volume) {
  return volume.kind == config::StoreKind::zvol ? "/dev/zvol/" + volume.path : volume.path;
}

VolumeKey key_of(const config::Volume& volume) {
  VolumeKey key;
  key.name = volume.name;
  key.pinned = volume.uuid.value_or("");
  key.path = device_path(volume);
  switch (volume.kind) {
    case config::StoreKind::file:
      key.backing = "file:" + volume.path;
      break;
    case config::StoreKind::device:
      key.backing = "device:" + volume.path;
      break;
    case config::StoreKind::zvol:
      key.backing = "zvol:" + volume.path;
      break;
    case config::StoreKind::memory:
    case config::StoreKind::null:
      break;
  }
  return key;
}

Result<StorePtr> open_plain(const config::Volume& volume) {
  switch (volume.kind) {
    case config::StoreKind::file:
      return backing::open_file({.path = volume.path,
                                 .read_only = volume.read_only,
                                 .provision_size = volume.provision ? volume.provision->size.value_or(0) : 0,
                                 .force = volume.force});
    case config::StoreKind::device:
    case config::StoreKind::zvol:
      return backing::open_device({.path = device_path(volume), .read_only = volume.read_only, .force = volume.force});
    case config::StoreKind::memory:
      return backing::make_memory(volume.size);
    case config::StoreKind::null:
      return backing::make_null(volume.size);
  }
  return Error{EINVAL, "volume " + volume.name + ": unknown kind of store"};
}

scsi::SyncMode sync_mode(config::Sync sync) {
  switch (sync) {
    case config::Sync::standard:
      return scsi::SyncMode::standard;
    case config::Sync::always:
      return scsi::SyncMode::always;
    case config::Sync::disabled:
      return scsi::SyncMode::disabled;
  }
  return scsi::SyncMode::standard;
}

Result<std::shared_ptr<scsi::LogicalUnit>> make_unit(const config::Volume& volume, const Uuid& uuid,
                                                     const StorePtr& store) {
  scsi::UnitOptions options;
  options.name = volume.name;
  options.uuid = uuid;
  options.block_size = volume.block_size;
  const bool volblocksize = volume.physical_block_size == UINT32_MAX;
  options.physical_block_size = volblocksize ? store->geometry().physical_block : volume.physical_block_size;
  options.sync = sync_mode(volume.sync);
  options.read_only = volume.read_only;
  auto unit = scsi::LogicalUnit::create(std::move(options), store);
  if (!unit) return unit;
  // The unit owns the store: a strong pointer back would keep both for ever.
  store->on_resize([weak = std::weak_ptr(*unit)](uint64_t size_bytes) {
    if (const auto alive = weak.lock()) alive->capacity_changed(size_bytes);
  });
  return unit;
}

Result<OpenVolume> open_volume(const config::Volume& volume, const Uuid& uuid) {
  const auto in_context = [&](const Error& error) {
    return Error{error.code, volume.where.file + ":" + std::to_string(volume.where.line) + ": volume " + volume.name +
                                 ": " + error.message};
  };
  auto plain = open_plain(volume);
  if (!plain) return in_context(plain.error());
  StorePtr store = *plain;
  std::shared_ptr<backing::FaultStore> faults;
  if (!volume.faults.empty()) {
    auto faulty = with_faults(store, volume.faults);
    if (!faulty) return in_context(faulty.error());
    faults = *faulty;
    store = faults;
  }
  auto unit = make_unit(volume, uuid, store);
  if (!unit) return in_context(unit.error());
  return OpenVolume{volume, uuid, std::move(store), std::move(faults), std::move(*unit)};
}

unsigned cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Volumes that are LUNs, in the order of the configuration.
std::vector<const config::Volume*> used_volumes(const config::Config& config) {
  std::set<std::string> names;
  for (const config::Target& target : config.targets)
    for (const config::Lun& lun : target.luns) names.insert(lun.volume);
  std::vector<const config::Volume*> used;
  for (const config::Volume& volume : config.volumes)
    if (names.contains(volume.name)) used.push_back(&volume);
  return used;
}

iscsi::TargetNode make_target(const config::Target& target, const std::vector<OpenVolume>& volumes) {
  std::map<std::string, std::shared_ptr<scsi::LogicalUnit>> units;
  for (const OpenVolume& volume : volumes) units[volume.config.name] = volume.unit;
  auto luns = std::make_shared<scsi::LunMap>();
  for (const config::Lun& lun : target.luns) luns->entries.push_back({lun.number, units.at(lun.volume), lun.read_only});
  std::sort(luns->entries.begin(), luns->entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return {target.name, target.alias, target.groups, target.initiators, std::move(luns)};
}

}  // namespace

Result<Composition> compose(const config::Config& config, const StateDir& state) {
  const auto used = used_volumes(config);
  std::vector<VolumeKey> keys;
  for (const config::Volume* volume : used) keys.push_back(key_of(*volume));
  const auto uuids = identify(state, keys);
  if (!uuids) return uuids.error();

  Composition out;
  for (size_t i = 0; i < used.size(); ++i) {
    auto volume = open_volume(*used[i], (*uuids)[i]);
    if (!volume) return volume.error();
    out.volumes.push_back(std::move(*volume));
  }
  out.server.shards = config.threads == 0 ? cores() : config.threads;
  out.server.memory_bytes = config.memory;
  for (const config::Listen& listen : config.listen)
    out.server.portals.push_back({listen.address, listen.port, listen.group});
  for (const config::Target& target : config.targets) out.server.targets.push_back(make_target(target, out.volumes));
  return out;
}

}  // namespace zvolt::daemon
