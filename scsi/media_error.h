// How a task fails because of its store: the errno table applied to it. Shared by media transfers, jobs and flushes.
#pragma once

#include "scsi/errno_sense.h"
#include "scsi/task.h"

namespace zvolt::scsi {

// `offset`: the failing byte on the LUN, where the answer carries an LBA.
void fail_by_errno(Task& task, int error, StoreOperation operation, uint64_t offset);

// Remembers a piece's failure: of several the one with the lowest offset is reported, whatever order they finish in.
inline void note_error(Task& task, int error, uint64_t offset) {
  if (task.error != 0 && task.error_offset <= offset) return;
  task.error = error;
  task.error_offset = offset;
}

}  // namespace zvolt::scsi
