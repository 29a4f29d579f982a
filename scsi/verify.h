// VERIFY: what media.cc needs of it to serve the data that a host sends for comparison. SBC-3 5.30-5.32.
#pragma once

#include "scsi/task.h"

namespace zvolt::scsi {

// As ItNexus::media_io: reads the medium beside the piece and compares. A difference is noted as Task::kMiscompare.
bool start_compare_io(Task& task, MediaIo& piece);
// 0e/1d/00 with the byte offset of the first difference from the start of the data.
void fail_miscompare(Task& task);

}  // namespace zvolt::scsi
