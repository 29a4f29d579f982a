// The command table: one row per operation code (and service action) that this device server implements. Command
// dispatch, REPORT SUPPORTED OPERATION CODES and the tests all read this table, so none can say what another does not
// do. Constant data. SPC-4 6.35 (usage data), SBC-3 clause 5.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scsi/cdb.h"
#include "scsi/task.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

// What a row says about its command.
enum CommandFlag : uint8_t {
  kNoFlags = 0,
  kWrites = 1,             // changes the medium: refused with 07/27/00 on a read-only unit, before any parameter check
  kBypassesAttention = 2,  // is processed, and reports no unit attention, while one is pending (SAM-5 5.14)
  kNeedsUnmap = 4,         // exists only on a unit whose store can discard
  kWithoutMedium = 8,      // works on a unit that is not ready (UnitState)
};

inline constexpr int16_t kNoServiceAction = -1;

struct CommandEntry {
  uint8_t opcode = 0;
  int16_t service_action = kNoServiceAction;  // low five bits of byte 1
  CdbFormat format = CdbFormat::plain6;
  OpClass op_class = OpClass::other;
  uint8_t flags = kNoFlags;
  Handler start = nullptr;
  Handler data_out = nullptr;       // parameter data has arrived; null when the command takes none
  std::array<uint8_t, 16> usage{};  // CDB usage data: [0] is the opcode, then the bits that are looked at

  bool has(CommandFlag flag) const { return (flags & flag) != 0; }
};

enum class Lookup : uint8_t { found, no_opcode, no_service_action };

struct Found {
  Lookup lookup = Lookup::no_opcode;
  const CommandEntry* entry = nullptr;
};

// The row for a CDB; `unmap`: the unit's store can discard.
Found find_command(uint8_t opcode, uint8_t byte1, bool unmap);
// All rows, ascending by opcode and service action.
std::span<const CommandEntry> all_commands();

}  // namespace zvolt::scsi
