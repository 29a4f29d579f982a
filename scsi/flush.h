// Flushing the store for a task. The store shares one flush among all that are ready (backing/block_store.h), so every
// task simply asks for its own. Shard thread only.
#pragma once

#include "scsi/task.h"

namespace zvolt::scsi {

// Flushes, then settles the task: GOOD, or the flush's error, or (media_after_flush) phase media_in.
void flush_then_settle(Task& task);

// A flush that nobody waits for (SYNCHRONIZE CACHE with IMMED). A failure is met again by the next flush: a store never
// forgets one.
void flush_in_background(Task& task);

}  // namespace zvolt::scsi
