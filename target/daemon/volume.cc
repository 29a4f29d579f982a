// See volume.h.
#include "target/daemon/volume.h"

#include "backing/zfs/zfs.h"

namespace zvolt::daemon {

std::string device_path(const config::Volume& volume) {
  return volume.kind == config::StoreKind::zvol ? "/dev/zvol/" + volume.path : volume.path;
}

std::string lane_of(const config::Volume& volume) {
  switch (volume.kind) {
    case config::StoreKind::zvol:
      return "pool " + backing::pool_of(volume.path);
    case config::StoreKind::device:
      return "devices";
    case config::StoreKind::file:
      return "files";
    case config::StoreKind::memory:
    case config::StoreKind::null:
      break;
  }
  return "memory";
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

scsi::RateLimit rate_limit(const config::Limit& limit) {
  return {limit.iops, limit.bandwidth, std::chrono::milliseconds(limit.burst_ms)};
}

Result<std::shared_ptr<scsi::LogicalUnit>> make_unit(const OpenVolume& volume) {
  scsi::UnitOptions options;
  options.name = volume.config.name;
  options.uuid = *volume.uuid;
  options.block_size = volume.config.block_size;
  options.physical_block_size = volume.config.physical_block_size;
  static_assert(scsi::UnitOptions::kPhysicalOfStore == UINT32_MAX);  // as config::Volume says it
  options.sync = sync_mode(volume.config.sync);
  options.read_only = volume.config.read_only;
  options.limit = rate_limit(volume.config.limit);
  options.may_be_late = volume.followed != nullptr;
  return scsi::LogicalUnit::create(std::move(options), volume.served());
}

}  // namespace zvolt::daemon
