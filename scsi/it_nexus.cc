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

bool ItNexus::replace_map(std::shared_ptr<const LunMap> map, std::span<Task* const> live) {
  std::vector<std::unique_ptr<LunNexus>> next;
  next.reserve(map->entries.size());
  std::vector<std::unique_ptr<LunNexus>> gone;
  std::vector<bool> same(map->entries.size(), false);
  bool inventory = false, changed = false;
  size_t old = 0;
  const auto drop_before = [&](uint32_t number) {  // old entries whose numbers are not in the new map
    for (; old < nexuses_.size() && map_->entries[old].number < number; ++old) {
      gone.push_back(std::move(nexuses_[old]));
      inventory = true;
    }
  };
  for (size_t i = 0; i < map->entries.size(); ++i) {
    const LunMap::Entry& entry = map->entries[i];
    drop_before(entry.number);
    const bool known = old < nexuses_.size() && map_->entries[old].number == entry.number;
    if (!known) {
      next.push_back(std::make_unique<LunNexus>(*this, entry.unit, entry.read_only));
      inventory = true;
      continue;
    }
    std::unique_ptr<LunNexus> kept = std::move(nexuses_[old++]);
    if (&kept->unit() == entry.unit.get()) {
      changed = changed || kept->mapped_read_only() != entry.read_only;
      kept->set_mapped_read_only(entry.read_only);
      same[i] = true;
      next.push_back(std::move(kept));
      continue;
    }
    changed = true;
    gone.push_back(std::move(kept));
    next.push_back(std::make_unique<LunNexus>(
        *this, entry.unit, entry.read_only,
        std::initializer_list<UnitAttention>{attention::kInquiryDataChanged, attention::kReportedLunsChanged}));
  }
  drop_before(UINT32_MAX);
  nexuses_ = std::move(next);
  map_ = std::move(map);
  for (size_t i = 0; inventory && i < nexuses_.size(); ++i)
    if (same[i]) nexuses_[i]->raise(attention::kReportedLunsChanged);
  for (auto& nexus : gone) retire(std::move(nexus), live);
  return changed || inventory;
}

void ItNexus::retire(std::unique_ptr<LunNexus> nexus, std::span<Task* const> live) {
  nexus->retired_ = true;
  nexus->tasks_ = static_cast<uint32_t>(
      std::count_if(live.begin(), live.end(), [&](const Task* task) { return task->nexus == nexus.get(); }));
  if (nexus->tasks_ != 0) {
    retired_.push_back(std::move(nexus));
  } else if (retired_end_) {
    retired_end_(*nexus);
  }
}

void ItNexus::task_over(Task& task) {
  LunNexus* nexus = task.nexus;
  if (nexus == nullptr || !nexus->retired_ || --nexus->tasks_ != 0) return;
  const auto at = std::find_if(retired_.begin(), retired_.end(), [&](const auto& it) { return it.get() == nexus; });
  if (retired_end_) retired_end_(*nexus);
  retired_.erase(at);
}

void ItNexus::for_each_nexus(const std::function<void(LunNexus&)>& visit) {
  for (const auto& nexus : nexuses_) visit(*nexus);
  for (const auto& nexus : retired_) visit(*nexus);
}

void ItNexus::clear_attention(UnitAttention what) {
  for (const std::unique_ptr<LunNexus>& nexus : nexuses_) nexus->clear_attention(what);
}

// A unit attention is pending or the unit is not ready. False: this command goes on all the same.
bool ItNexus::answer_notice(Task& task, const CommandEntry* entry) {
  LunNexus& unit_nexus = *task.nexus;
  const UnitState state = unit_nexus.unit().state();
  if (state == UnitState::removed) {
    task.nexus = nullptr;
    task.lu = nullptr;
    return answer_without_unit(*this, task), true;
  }
  const bool bypasses = entry != nullptr && entry->has(kBypassesAttention);
  if (unit_nexus.attention_pending() && !bypasses) return report_attention(task, unit_nexus), true;
  if (unit_nexus.unit_ready() || entry == nullptr || entry->has(kWithoutMedium)) return false;
  return fail(task, state_sense(state)), true;
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
  if (unit_nexus->has_notice() && answer_notice(task, found.entry)) [[unlikely]] {
    return;
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
