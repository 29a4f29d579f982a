// See it_nexus.h. The order of the common checks: LUN, operation code, control byte, unit attention, write protection;
// everything after that is the command's.
#include "scsi/it_nexus.h"

#include <algorithm>
#include <utility>

#include "scsi/command_table.h"
#include "scsi/logical_unit.h"
#include "scsi/lun_address.h"
#include "scsi/lun_nexus.h"
#include "scsi/media.h"
#include "scsi/no_unit.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

namespace {

void report_attention(Task& task, LunNexus& unit_nexus) {
  const std::optional<UnitAttention> what = unit_nexus.take_attention();
  if (!what) return fail_status(task, Status::busy);  // cleared meanwhile by another command's answer; the host repeats
  fail(task, {SenseKey::unit_attention, what->asc, what->ascq});
}

void refuse_unknown(Task& task, Lookup why) {
  if (why == Lookup::no_opcode) return fail(task, sense::kInvalidOpcode);
  refuse_field(task, 1, 4);  // the SERVICE ACTION field
}

}  // namespace

ItNexus::ItNexus(NexusNames names, std::shared_ptr<const LunMap> map) : names_(std::move(names)), map_(std::move(map)) {
  nexuses_.reserve(map_->entries.size());
  for (const LunMap::Entry& entry : map_->entries) {
    nexuses_.push_back(std::make_unique<LunNexus>(*this, entry.unit, entry.read_only));
  }
}

ItNexus::~ItNexus() = default;

LunNexus* ItNexus::find(uint64_t lun) const {
  const std::optional<uint16_t> number = decode_lun(lun);
  if (!number) return nullptr;
  const std::vector<LunMap::Entry>& entries = map_->entries;
  // Nearly every map counts from 0 without gaps.
  if (*number < entries.size() && entries[*number].number == *number) return nexuses_[*number].get();
  const auto at = std::lower_bound(entries.begin(), entries.end(), *number,
                                   [](const LunMap::Entry& entry, uint16_t wanted) { return entry.number < wanted; });
  if (at == entries.end() || at->number != *number) return nullptr;
  return nexuses_[static_cast<size_t>(at - entries.begin())].get();
}

LogicalUnit* ItNexus::unit(uint64_t lun) const {
  const LunNexus* found = find(lun);
  return found == nullptr ? nullptr : &found->unit();
}

void ItNexus::clear_attention(UnitAttention what) {
  for (const std::unique_ptr<LunNexus>& nexus : nexuses_) nexus->clear_attention(what);
}

void ItNexus::start(Task& task) {
  LunNexus* unit_nexus = find(task.lun);
  if (unit_nexus == nullptr) [[unlikely]] {
    return answer_without_unit(*this, task);
  }
  task.nexus = unit_nexus;
  task.lu = &unit_nexus->unit();
  task.block_size = task.lu->block_size();
  task.phase = Phase::pending;
  const Found found = find_command(task.cdb[0], task.cdb[1], task.lu->limits().unmap);
  const bool bypasses = found.entry != nullptr && found.entry->has(kBypassesAttention);
  if (unit_nexus->attention_pending() && !bypasses) [[unlikely]] {
    return report_attention(task, *unit_nexus);
  }
  if (found.entry == nullptr) [[unlikely]] {
    return refuse_unknown(task, found.lookup);
  }
  task.command = found.entry;
  task.op_class = found.entry->op_class;
  dispatch(task, false);
}

void ItNexus::data_out(Task& task) {
  task.phase = Phase::pending;
  dispatch(task, false);
}

// Runs the handler of the stage that the task is in. A resumed task was checked when it came, and its handler checks
// again what can have changed (capacity).
void ItNexus::dispatch(Task& task, bool resumed) {
  const CommandEntry& entry = *task.command;
  const Cdb cdb = decode_cdb(task.cdb, entry.format);
  const UnitCall call{*this, *task.nexus, *task.lu, task, cdb};
  if (!resumed && !task.in_data_out) {
    if ((cdb.control & kNaca) != 0) return refuse_field(task, cdb.control_at, 2);
    if (entry.has(kWrites) && task.nexus->read_only()) return fail(task, sense::kWriteProtected);
  }
  const Handler handler = task.in_data_out ? entry.data_out : entry.start;
  handler(call);
  if (resumed) return;  // settled: may be gone; or waiting still
  if (task.phase == Phase::pending) task.waiting = true;
}

void resume_held_task(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  if (task.aborted) return fail_status(task, Status::task_aborted);
  task.nexus->owner().dispatch(task, true);
}

bool ItNexus::media_io(Task& task, MediaIo& io) {
  return start_media_io(task, io);
}

void ItNexus::finish(Task& task) {
  task.phase = Phase::pending;
  finish_media(task);
  if (task.phase == Phase::pending) task.waiting = true;
}

bool ItNexus::abort(Task& task) {
  task.aborted = true;
  if (task.phase != Phase::pending || task.lu == nullptr) return false;
  if (!task.lu->gate().withdraw(task)) return false;
  task.waiting = false;
  task.status = Status::task_aborted;
  task.phase = Phase::complete;
  return true;
}

}  // namespace zvolt::scsi
