// Commands to a logical unit number that nothing is mapped to (SAM-5 4.7.4, SPC-4 6.6.1): INQUIRY, REQUEST SENSE and,
// to LUN 0, REPORT LUNS are answered, everything else is 05/25/00.
#pragma once

#include "scsi/task.h"

namespace zvolt::scsi {

class ItNexus;
void answer_without_unit(ItNexus& nexus, Task& task);

}  // namespace zvolt::scsi
