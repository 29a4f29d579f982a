// See unit_call.h.
#include "scsi/unit_call.h"

#include <algorithm>

#include "scsi/logical_unit.h"

namespace zvolt::scsi {

void settle(Task& task, Phase phase) {
  task.phase = phase;
  if (!task.waiting) return;
  task.waiting = false;
  task.advanced(task);
}

void good(Task& task) {
  task.status = Status::good;
  settle(task, Phase::complete);
}

void fail(Task& task, SenseCode code, const SenseDetail& detail) {
  const bool descriptor_format = task.lu != nullptr && task.lu->descriptor_sense();
  task.sense = make_sense(code, detail, descriptor_format);
  fail_status(task, Status::check_condition);
}

void fail_status(Task& task, Status status) {
  task.status = status;
  task.data.clear();
  settle(task, Phase::complete);
}

void refuse_field(Task& task, uint16_t byte, int8_t bit) {
  fail(task, sense::kInvalidFieldInCdb, {.information = {}, .field = FieldPointer{byte, bit, true}});
}

void refuse_parameter(Task& task, uint16_t byte, int8_t bit) {
  fail(task, sense::kInvalidFieldInParameters, {.information = {}, .field = FieldPointer{byte, bit, false}});
}

void answer(Task& task, std::span<const uint8_t> bytes, uint64_t allocation_length) {
  const size_t size = static_cast<size_t>(std::min<uint64_t>(bytes.size(), allocation_length));
  task.data.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  task.transfer_length = size;
  good(task);
}

void want_data_out(Task& task, uint64_t length) {
  task.transfer_length = length;
  task.in_data_out = true;
  settle(task, Phase::data_out);
}

}  // namespace zvolt::scsi
