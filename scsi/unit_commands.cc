// Commands about the unit itself: TEST UNIT READY, REQUEST SENSE, START STOP UNIT, REPORT LUNS, READ CAPACITY.
// SPC-4 6.39, 6.47, SBC-3 5.15, 5.16, 5.25.
#include <algorithm>
#include <array>

#include "scsi/bytes.h"
#include "scsi/flush.h"
#include "scsi/handlers.h"
#include "scsi/it_nexus.h"
#include "scsi/logical_unit.h"
#include "scsi/lun_address.h"
#include "scsi/report_luns.h"

namespace zvolt::scsi {

void test_unit_ready(const UnitCall& call) {
  good(call.task);
}

// A pending unit attention stays pending: what is reported is the state (SPC-4 6.39; SAM-5 5.14 leaves that choice).
void request_sense(const UnitCall& call) {
  constexpr uint8_t kDesc = 0x01;
  const Sense state = make_sense(state_sense(call.unit.state()), {}, call.cdb.flag(kDesc));
  answer(call.task, state.view(), call.cdb.length);
}

// A fixed disk that is always spinning: every power condition is accepted and changes nothing, there is nothing to
// eject. Stopping makes what is cached durable first, as SBC-3 asks.
void start_stop_unit(const UnitCall& call) {
  constexpr uint8_t kStart = 0x01, kNoFlush = 0x04, kPowerCondition = 0xf0;
  const uint8_t what = call.cdb.bytes[4];
  const bool stops = (what & (kStart | kNoFlush | kPowerCondition)) == 0;
  if (stops && call.unit.flush_on_demand()) return flush_then_settle(call.task);
  good(call.task);
}

std::optional<std::vector<uint8_t>> lun_list(const LunMap& map, uint8_t select_report) {
  constexpr uint8_t kSingleLevel = 0x00, kWellKnown = 0x01, kAll = 0x02;
  if (select_report != kSingleLevel && select_report != kWellKnown && select_report != kAll) return std::nullopt;
  std::vector<uint8_t> out(8);
  if (select_report != kWellKnown) {  // there are no well known logical units
    for (const LunMap::Entry& entry : map.entries) {
      out.resize(out.size() + 8);
      put64(out.data() + out.size() - 8, encode_lun(entry.number));
    }
  }
  put32(out.data(), out.size() - 8);
  return out;
}

void report_luns(const UnitCall& call) {
  const std::optional<std::vector<uint8_t>> list = lun_list(call.nexus.map(), call.cdb.bytes[2]);
  if (!list) return refuse_field(call.task, 2);
  call.nexus.clear_attention(attention::kReportedLunsChanged);  // the host has just read the new inventory
  answer(call.task, *list, call.cdb.length);
}

void read_capacity_10(const UnitCall& call) {
  std::array<uint8_t, 8> out{};
  put32(out.data(), std::min<uint64_t>(call.unit.last_block(), UINT32_MAX));
  put32(out.data() + 4, call.unit.block_size());
  answer(call.task, out, out.size());
}

void read_capacity_16(const UnitCall& call) {
  const UnitLimits& limits = call.unit.limits();
  constexpr uint8_t kLbpme = 0x80, kLbprz = 0x40;
  std::array<uint8_t, 32> out{};
  put64(out.data(), call.unit.last_block());
  put32(out.data() + 8, call.unit.block_size());
  out[13] = limits.physical_exponent;
  out[14] = static_cast<uint8_t>((limits.unmap ? kLbpme : 0) | (limits.unmapped_reads_zero ? kLbprz : 0));
  answer(call.task, out, call.cdb.length);
}

}  // namespace zvolt::scsi
