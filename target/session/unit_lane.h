// UnitLane: one shard's side of one logical unit: its statistics, the pieces that this shard has in the unit's store,
// and the commands that wait because there are too many of them (limits::kUnitInFlight). Every LunNexus of a session
// on this shard points to the unit's lane (LunNexus::transport), so that a command finds it with one load. Shard thread
// only. UnitLanes owns them; a lane lives as long as some nexus of this shard uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "scsi/logical_unit.h"
#include "target/limits.h"
#include "target/stats/lun_stats.h"

namespace zvolt::iscsi {

struct Command;

struct UnitLane {
  const scsi::LogicalUnit* unit = nullptr;
  stats::LunShardStats* stats = nullptr;
  uint32_t in_store = 0;         // pieces that the store has
  std::deque<Command*> waiting;  // in order of arrival; bounded by the sessions' commands
  uint32_t users = 0;            // nexuses
  std::shared_ptr<stats::LunStats> kept;

  bool full() const { return in_store >= limits::kUnitInFlight; }
};

class UnitLanes {
 public:
  // One more nexus on this shard uses the unit; release() once for each.
  UnitLane* acquire(const scsi::LogicalUnit& unit, const std::shared_ptr<stats::LunStats>& stats, size_t shard);
  void release(UnitLane* lane);

 private:
  std::unordered_map<const scsi::LogicalUnit*, std::unique_ptr<UnitLane>> lanes_;
};

}  // namespace zvolt::iscsi
