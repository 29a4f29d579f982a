// REPORT SUPPORTED OPERATION CODES, generated from the command table. SPC-4 6.35.
#include <vector>

#include "scsi/bytes.h"
#include "scsi/command_table.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"

namespace zvolt::scsi {

namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kRecommendedTimeout = 60;  // seconds, what hosts use for disks behind a network
constexpr size_t kTimeoutsSize = 12;

enum class Reporting : uint8_t { all = 0, opcode = 1, service_action = 2, either = 3 };

// The command timeouts descriptor, SPC-4 6.35.4. Nominal and command-specific times are not stated.
void add_timeouts(Bytes& out) {
  const size_t at = out.size();
  out.resize(at + kTimeoutsSize);
  put16(out.data() + at, kTimeoutsSize - 2);
  put32(out.data() + at + 8, kRecommendedTimeout);
}

void add_descriptor(const CommandEntry& entry, bool timeouts, Bytes& out) {
  constexpr uint8_t kServactv = 0x01, kCtdp = 0x02;
  const size_t at = out.size();
  out.resize(at + 8);
  uint8_t* to = out.data() + at;
  const bool has_action = entry.service_action != kNoServiceAction;
  to[0] = entry.opcode;
  if (has_action) put16(to + 2, static_cast<uint16_t>(entry.service_action));
  to[5] = static_cast<uint8_t>((has_action ? kServactv : 0) | (timeouts ? kCtdp : 0));
  put16(to + 6, cdb_length(entry.format));
  if (timeouts) add_timeouts(out);
}

void report_all(const UnitCall& call, bool timeouts) {
  Bytes out(4);
  for (const CommandEntry& entry : all_commands()) {
    if (entry.has(kNeedsUnmap) && !call.unit.limits().unmap) continue;
    add_descriptor(entry, timeouts, out);
  }
  put32(out.data(), out.size() - 4);
  answer(call.task, out, call.cdb.length);
}

void report_one(const UnitCall& call, const CommandEntry* entry, bool timeouts) {
  constexpr uint8_t kNotSupported = 0x01, kPerStandard = 0x03, kCtdp = 0x80;
  Bytes out(4);
  if (entry == nullptr) {
    out[1] = kNotSupported;
    return answer(call.task, out, call.cdb.length);
  }
  const uint8_t size = cdb_length(entry->format);
  out[1] = static_cast<uint8_t>(kPerStandard | (timeouts ? kCtdp : 0));
  put16(out.data() + 2, size);
  out.insert(out.end(), entry->usage.begin(), entry->usage.begin() + size);
  // The usage map of a service action carries the action's own value (SPC-4 table 258).
  if (entry->service_action != kNoServiceAction) out[5] = static_cast<uint8_t>(entry->service_action);
  if (timeouts) add_timeouts(out);
  answer(call.task, out, call.cdb.length);
}

bool has_service_actions(uint8_t opcode) {
  for (const CommandEntry& entry : all_commands()) {
    if (entry.opcode == opcode) return entry.service_action != kNoServiceAction;
  }
  return false;
}

bool is_implemented(uint8_t opcode, bool unmap) {
  return find_command(opcode, 0, unmap).lookup != Lookup::no_opcode;
}

}  // namespace

void report_supported_operation_codes(const UnitCall& call) {
  constexpr uint8_t kRctd = 0x80;
  const bool timeouts = (call.cdb.bytes[2] & kRctd) != 0;
  const uint8_t options = call.cdb.bytes[2] & 0x07;
  const uint8_t opcode = call.cdb.bytes[3];
  const uint16_t action = get16(call.cdb.bytes + 4);
  const bool unmap = call.unit.limits().unmap;
  if (options > static_cast<uint8_t>(Reporting::either)) return refuse_field(call.task, 2, 2);
  const auto reporting = static_cast<Reporting>(options);
  if (reporting == Reporting::all) return report_all(call, timeouts);

  // A question that does not fit the command: the pointer to byte 2 tells that it is the question that is wrong.
  const bool with_actions = has_service_actions(opcode);
  if (reporting == Reporting::opcode && with_actions) return refuse_field(call.task, 2, 2);
  if (reporting == Reporting::service_action && !with_actions && is_implemented(opcode, unmap)) {
    return refuse_field(call.task, 2, 2);
  }
  // Service actions have five bits; of a command without them only action 0 exists.
  const bool action_fits = with_actions ? action <= 0x1f : reporting == Reporting::opcode || action == 0;
  const Found found = find_command(opcode, static_cast<uint8_t>(action & 0x1f), unmap);
  report_one(call, action_fits ? found.entry : nullptr, timeouts);
}

}  // namespace zvolt::scsi
