// See task.h.
#include "scsi/task.h"

namespace zvolt::scsi {

namespace {
constexpr size_t kKeptBytes = 4096;  // scratch memory that an idle task object may keep

void shrink(std::vector<uint8_t>& bytes) {
  bytes.clear();
  if (bytes.capacity() > kKeptBytes) bytes.shrink_to_fit();
}
}  // namespace

void Task::reset() {
  lun = 0;
  attribute = TaskAttribute::simple;
  phase = Phase::complete;
  status = Status::good;
  op_class = OpClass::other;
  sense.length = 0;
  transfer_length = media_offset = 0;
  stamps = {};
  lu = nullptr;
  nexus = nullptr;
  command = nullptr;
  fua = aborted = false;
  error_offset = 0;
  error = 0;
  next_waiting = nullptr;
  shrink(data);
  shrink(scratch);
}

}  // namespace zvolt::scsi
