// ItNexus: one initiator port's view of a target (SAM-5 4.6.2 I_T nexus): its LUN map, and per LUN the state that
// belongs to the pair (unit attentions, later reservations' registrations). The entry point of the scsi layer for a
// transport. Threading: one per session, used on the session's shard; unit attentions may be raised from any thread.
// Lifetime: outlives its tasks.
//
// A command's life (the transport's side):
//   start(task)  ->  complete: send response
//                ->  data_out: collect parameter data into task.data, data_out(task) -> complete or pending
//                ->  media_in/media_out: media_io() for each piece (several at once, any order), then finish(task)
//                ->  pending: wait for task.advanced(), then look at task.phase again
// All of them set task.phase before they return or call advanced(). finish() sets complete or pending.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "scsi/task.h"

namespace zvolt::scsi {

// Immutable; a new one replaces it when the configuration changes (ItNexus::replace_map).
struct LunMap {
  struct Entry {
    uint16_t number = 0;  // 0..16383
    std::shared_ptr<LogicalUnit> unit;
    bool read_only = false;  // this mapping refuses writes (07/27/00), whatever the unit allows
  };
  std::vector<Entry> entries;  // ascending by number
};

// Who talks to whom: for VPD 83 (target port), unit attentions and logs.
struct NexusNames {
  std::string initiator;       // InitiatorName
  std::string initiator_port;  // "iqn...,i,0x00023d000001"
  std::string target;          // TargetName
  std::string target_port;     // "iqn...,t,0x0001"
  uint16_t relative_port = 1;  // relative target port identifier: the portal group tag
};

class ItNexus {
 public:
  ItNexus(NexusNames names, std::shared_ptr<const LunMap> map);
  ~ItNexus();
  ItNexus(const ItNexus&) = delete;
  ItNexus& operator=(const ItNexus&) = delete;

  void start(Task& task);
  void data_out(Task& task);
  // true: finished at once (look at io.io.error); false: io.done will be called. A failed piece is remembered in the
  // task.
  bool media_io(Task& task, MediaIo& io);
  void finish(Task& task);
  // Sets task.aborted. True: the task was held back (hold_range) and will not be heard of again; false: a pending task
  // is advanced as soon as what it has in flight is done, one in another phase is the transport's to drop.
  bool abort(Task& task);

  // Logical unit number of a LUN field, or nullptr. For task management and statistics.
  LogicalUnit* unit(uint64_t lun) const;
  const NexusNames& names() const { return names_; }
  const LunMap& map() const { return *map_; }

  void clear_attention(struct UnitAttention what);  // on every unit of this nexus

  // Gives the nexus another map. A number that keeps its unit keeps its LunNexus, and with it everything. When numbers
  // came or went, 06/3F/0E is raised on all that stay. A number that belongs to another unit now begins with 06/3F/03
  // and 06/3F/0E, for itself only. A LunNexus whose number went retires: `live` are all tasks of this nexus that are
  // not over; those that belong to a retired one run to their end, on the old unit (not TASK ABORTED: Linux would
  // repeat the command at once, on the new one). Returns whether anything changed.
  bool replace_map(std::shared_ptr<const LunMap> map, std::span<Task* const> live);
  // A task of a retired LunNexus (task.nexus->retired()) is over.
  void task_over(Task& task);
  // For LunNexus::transport. All: those of the map in its order, then the retired ones. The notice: a retired one ends
  // (but not with the ItNexus itself).
  void for_each_nexus(const std::function<void(LunNexus&)>& visit);
  void on_retired_end(std::function<void(LunNexus&)> notice) { retired_end_ = std::move(notice); }

 private:
  friend void resume_held_task(void* task);
  LunNexus* find(uint64_t lun) const;
  void dispatch(Task& task, bool resumed);
  bool answer_notice(Task& task, const CommandEntry* entry);
  void retire(std::unique_ptr<LunNexus> nexus, std::span<Task* const> live);

  NexusNames names_;
  std::shared_ptr<const LunMap> map_;
  std::vector<std::unique_ptr<LunNexus>> nexuses_;  // parallel to map_->entries
  std::vector<std::unique_ptr<LunNexus>> retired_;  // bounded by the tasks of the session
  std::function<void(LunNexus&)> retired_end_;
};

// Runs on the task's shard when the range that it was held for is free (scsi/range_gate.h). `task` is a Task*.
void resume_held_task(void* task);

}  // namespace zvolt::scsi
