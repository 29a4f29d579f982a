// See session.h.
#include "target/session/session.h"

#include <algorithm>
#include <utility>

namespace zvolt::iscsi {

Session::Session(SessionParameters session_parameters, uint16_t session_tsih, Shard& session_shard,
                 scsi::NexusNames names, std::shared_ptr<const scsi::LunMap> luns, std::vector<UnitStats> unit_stats,
                 std::function<std::vector<DiscoveredTarget>()> discover)
    : parameters(std::move(session_parameters)),
      tsih(session_tsih),
      shard(session_shard),
      nexus(std::move(names), std::move(luns)),
      text(parameters, std::move(discover)),
      unit_stats_(std::move(unit_stats)),
      shard_stats_(unit_stats_.size(), nullptr) {}

Session::~Session() {
  keep_memory_for(0);
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
  table_[command.slot] = nullptr;
  free_slots_.push_back(command.slot);
  --used_;
  shard.give_back(command);
}

stats::LunShardStats* Session::stats_of(const scsi::LogicalUnit* unit) {
  for (size_t i = 0; i < unit_stats_.size(); ++i) {
    if (unit_stats_[i].unit != unit) continue;
    if (shard_stats_[i] == nullptr) shard_stats_[i] = &unit_stats_[i].stats->shard(shard.index());
    return shard_stats_[i];
  }
  return nullptr;
}

}  // namespace zvolt::iscsi
