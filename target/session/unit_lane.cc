// See unit_lane.h.
#include "target/session/unit_lane.h"

namespace zvolt::iscsi {

UnitLane* UnitLanes::acquire(const scsi::LogicalUnit& unit, const std::shared_ptr<stats::LunStats>& stats,
                             size_t shard) {
  std::unique_ptr<UnitLane>& lane = lanes_[&unit];
  if (lane == nullptr) {
    lane = std::make_unique<UnitLane>();
    lane->unit = &unit;
    lane->kept = stats;
    lane->stats = &stats->shard(shard);
  }
  ++lane->users;
  return lane.get();
}

void UnitLanes::release(UnitLane* lane) {
  if (--lane->users == 0) lanes_.erase(lane->unit);
}

}  // namespace zvolt::iscsi
