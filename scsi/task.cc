// See task.h.
#include "scsi/task.h"

namespace zvolt::scsi {

namespace {
constexpr size_t kKeptBytes = 4096;  // data memory that an idle task object may keep

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
  announced_data_out = kUnknownLength;
  fua = aborted = waiting = media_after_flush = in_data_out = false;
  error = 0;
  error_offset = held_offset = held_length = 0;
  next_waiting = nullptr;
  job.reset();
  shrink(data);
}

}  // namespace zvolt::scsi
