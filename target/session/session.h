// Session: what belongs to an I_T nexus rather than to a connection: negotiated parameters, the CmdSN window, the SCSI
// nexus and the command table (RFC 7143 4.2.2.1). Lives on one shard; one connection each for now.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scsi/it_nexus.h"
#include "target/limits.h"
#include "target/login/login.h"
#include "target/login/text_session.h"
#include "target/session/command.h"
#include "target/session/shard.h"
#include "target/stats/lun_stats.h"

namespace zvolt::iscsi {

// The statistics of each logical unit, one for each entry of the session's LUN map.
struct UnitStats {
  const scsi::LogicalUnit* unit = nullptr;
  std::shared_ptr<stats::LunStats> stats;
};

class Session {
 public:
  Session(SessionParameters parameters, uint16_t tsih, Shard& shard, scsi::NexusNames names,
          std::shared_ptr<const scsi::LunMap> luns, const std::vector<UnitStats>& unit_stats,
          std::function<std::vector<DiscoveredTarget>()> discover);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Grants a command window against memory for its unsolicited data; false when not even the smallest is left.
  bool reserve_window();

  // The session has ended and this many commands are still in the store: the rest of its memory goes back.
  void keep_memory_for(uint32_t commands);

  // RFC 7143 4.2.2.1: [ExpCmdSN, MaxCmdSN]. MaxCmdSN moves when a slot becomes free, and never back.
  uint32_t max_cmd_sn() const { return exp_cmd_sn + window_ - in_flight - 1; }
  uint32_t window() const { return window_; }
  bool unsolicited_allowed() const { return parameters.immediate_data || !parameters.initial_r2t; }

  // A command object with a slot in the table, or nullptr when the session holds its maximum.
  Command* take_command();
  void give_back(Command& command);
  Command* by_slot(uint32_t slot) const { return slot < table_.size() ? table_[slot] : nullptr; }
  const std::vector<Command*>& table() const { return table_; }
  uint32_t commands() const { return used_; }

  // The target's new map, with the statistics of its units. Commands of numbers that went run to their end on their old
  // unit. Returns whether anything changed.
  bool replace_map(const std::shared_ptr<const scsi::LunMap>& luns, const std::vector<UnitStats>& unit_stats);

  SessionParameters parameters;
  const uint16_t tsih;
  Shard& shard;
  scsi::ItNexus nexus;
  TextSession text;
  uint32_t exp_cmd_sn = 0;
  uint32_t in_flight = 0;  // non-immediate commands without a response
  uint32_t immediate = 0;  // immediate SCSI commands without a response

 private:
  void attach_lanes(const std::vector<UnitStats>& unit_stats);
  std::vector<Command*> table_;
  std::vector<uint32_t> free_slots_;
  uint32_t used_ = 0;
  uint32_t window_ = 0;
  size_t reserved_bytes_ = 0;
};

}  // namespace zvolt::iscsi
