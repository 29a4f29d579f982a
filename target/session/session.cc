// See session.h.
#include "target/session/session.h"

#include <algorithm>
#include <utility>

#include "scsi/lun_nexus.h"

namespace zvolt::iscsi {

namespace {
UnitLane* lane_of(const scsi::LunNexus& unit_nexus) {
  return static_cast<UnitLane*>(unit_nexus.transport);
}
}  // namespace

Session::Session(SessionParameters session_parameters, uint16_t session_tsih, Shard& session_shard,
                 scsi::NexusNames names, std::shared_ptr<const scsi::LunMap> luns,
                 const std::vector<UnitStats>& unit_stats, std::function<std::vector<DiscoveredTarget>()> discover)
    : parameters(std::move(session_parameters)),
      tsih(session_tsih),
      shard(session_shard),
      nexus(std::move(names), std::move(luns)),
      text(parameters, std::move(discover)) {
  nexus.on_retired_end([this](scsi::LunNexus& ended) { shard.lanes().release(lane_of(ended)); });
  attach_lanes(unit_stats);
}

Session::~Session() {
  keep_memory_for(0);
  nexus.for_each_nexus([this](scsi::LunNexus& unit_nexus) { shard.lanes().release(lane_of(unit_nexus)); });
}

// Those that are new have none. The map's own nexuses come first.
void Session::attach_lanes(const std::vector<UnitStats>& unit_stats) {
  size_t i = 0;
  nexus.for_each_nexus([&](scsi::LunNexus& unit_nexus) {
    if (unit_nexus.transport == nullptr)
      unit_nexus.transport = shard.lanes().acquire(unit_nexus.unit(), unit_stats[i].stats, shard.index());
    ++i;
  });
}

bool Session::replace_map(const std::shared_ptr<const scsi::LunMap>& luns, const std::vector<UnitStats>& unit_stats) {
  if (&nexus.map() == luns.get()) return false;
  std::vector<scsi::Task*> live;
  for (Command* command : table_)
    if (command != nullptr) live.push_back(command);
  const bool changed = nexus.replace_map(luns, live);
  attach_lanes(unit_stats);
  return changed;
}

void Session::keep_memory_for(uint32_t commands) {
  const size_t kept = std::min(reserved_bytes_, commands * backing::BufferPool::rounded(parameters.first_burst_length));
  if (kept < reserved_bytes_) shard.short_of_memory.store(false, std::memory_order_relaxed);
  shard.pool().unreserve(reserved_bytes_ - kept);
  reserved_bytes_ = kept;
}

bool Session::reserve_window() {
  if (parameters.discovery || !unsolicited_allowed()) {
    window_ = parameters.discovery ? limits::kWindowMin : limits::kWindowMax;
    return true;
  }
  const size_t per_command = backing::BufferPool::rounded(parameters.first_burst_length);
  // A part of what is not promised yet, so that many later sessions get a window too.
  const backing::BufferPool& pool = shard.pool();
  const size_t affordable = (pool.budget() - pool.reserved()) / limits::kWindowShare / per_command;
  const auto wanted = static_cast<uint32_t>(std::clamp<size_t>(affordable, limits::kWindowMin, limits::kWindowMax));
  // The immediate commands beyond the window carry data too.
  for (uint32_t window = wanted; window >= limits::kWindowMin; window /= 2) {
    const size_t bytes = per_command * (window + limits::kImmediateCommands);
    if (!shard.pool().reserve(bytes)) continue;
    reserved_bytes_ = bytes;
    window_ = window;
    return true;
  }
  shard.short_of_memory.store(true, std::memory_order_relaxed);
  return false;
}

Command* Session::take_command() {
  if (used_ >= limits::kSessionCommands) return nullptr;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(table_.size()));
    table_.push_back(nullptr);
  }
  Command& command = shard.take_command();
  command.slot = free_slots_.back();
  free_slots_.pop_back();
  table_[command.slot] = &command;
  ++used_;
  return &command;
}

void Session::give_back(Command& command) {
  if (command.nexus != nullptr && command.nexus->retired()) nexus.task_over(command);
  table_[command.slot] = nullptr;
  free_slots_.push_back(command.slot);
  --used_;
  shard.give_back(command);
}

}  // namespace zvolt::iscsi
