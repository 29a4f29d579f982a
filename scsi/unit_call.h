// UnitCall: what a command handler gets, and the ways in which it ends. Every handler settles its task exactly once, as
// the last thing it does with it (or leaves it to a job, a flush group or the range gate): after settle() the task may
// be gone. Used on the task's shard only.
#pragma once

#include <cstdint>
#include <span>

#include "scsi/cdb.h"
#include "scsi/sense.h"
#include "scsi/task.h"

namespace zvolt::scsi {

class ItNexus;

struct UnitCall {
  ItNexus& nexus;
  LunNexus& unit_nexus;
  LogicalUnit& unit;
  Task& task;
  const Cdb& cdb;
};

using Handler = void (*)(const UnitCall& call);

// Gives the task back to the transport in that phase: by returning to it, or through Task::advanced when it waits.
void settle(Task& task, Phase phase);

void good(Task& task);
void fail(Task& task, SenseCode code, const SenseDetail& detail = {});
void fail_status(Task& task, Status status);                                          // a status without sense: BUSY
void refuse_field(Task& task, uint16_t byte, int8_t bit = FieldPointer::kNoBit);      // 05/24/00, the CDB
void refuse_parameter(Task& task, uint16_t byte, int8_t bit = FieldPointer::kNoBit);  // 05/26/00, the list
// GOOD with data-in, cut to the allocation length; no field inside the data is changed by that (SPC-4 4.3.5.6).
void answer(Task& task, std::span<const uint8_t> bytes, uint64_t allocation_length);
// Ask for parameter data; the entry's data_out handler goes on when it is there.
void want_data_out(Task& task, uint64_t length);

}  // namespace zvolt::scsi
