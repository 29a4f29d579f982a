// See media_error.h.
#include "scsi/media_error.h"

#include "scsi/unit_call.h"

namespace zvolt::scsi {

void fail_by_errno(Task& task, int error, StoreOperation operation, uint64_t offset) {
  const ErrnoAnswer answer = errno_answer(error, operation);
  if (answer.status != Status::check_condition) return fail_status(task, answer.status);
  SenseDetail detail;
  if (answer.information) detail.information = offset / task.block_size;
  fail(task, answer.code, detail);
}

}  // namespace zvolt::scsi
