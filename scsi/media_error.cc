// See media_error.h.
#include "scsi/media_error.h"

#include "scsi/logical_unit.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

void fail_by_errno(Task& task, int error, StoreOperation operation, uint64_t offset) {
  ErrnoAnswer answer = errno_answer(error, operation);
  // "Away" means what the unit's state says of it, should that be known by now.
  if (answer.code == sense::kBecomingReady && task.lu->state() != UnitState::ready)
    answer.code = state_sense(task.lu->state());
  if (answer.status != Status::check_condition) return fail_status(task, answer.status);
  SenseDetail detail;
  if (answer.information) detail.information = offset / task.block_size;
  fail(task, answer.code, detail);
}

}  // namespace zvolt::scsi
