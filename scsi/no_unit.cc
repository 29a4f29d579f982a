// See no_unit.h.
#include "scsi/no_unit.h"

#include "scsi/inquiry.h"
#include "scsi/it_nexus.h"
#include "scsi/lun_address.h"
#include "scsi/report_luns.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

namespace {

constexpr uint8_t kRequestSense = 0x03, kInquiry = 0x12, kReportLuns = 0xa0;

void inquiry_without_unit(Task& task) {
  const Cdb cdb = decode_cdb(task.cdb, CdbFormat::length6_wide);
  if (cdb.flag(0x01)) return fail(task, sense::kUnitNotSupported);  // EVPD: there are no pages of nothing
  if (cdb.bytes[2] != 0) return refuse_field(task, 2);
  answer(task, standard_inquiry(kNoDevice, "ZVOLT", "", ""), cdb.length);
}

void request_sense_without_unit(Task& task) {
  const Cdb cdb = decode_cdb(task.cdb, CdbFormat::length6);
  answer(task, make_sense(sense::kUnitNotSupported, {}, cdb.flag(0x01)).view(), cdb.length);
}

void report_luns_without_unit(ItNexus& nexus, Task& task) {
  const Cdb cdb = decode_cdb(task.cdb, CdbFormat::length12);
  const auto list = lun_list(nexus.map(), cdb.bytes[2]);
  if (!list) return refuse_field(task, 2);
  answer(task, *list, cdb.length);
}

}  // namespace

void answer_without_unit(ItNexus& nexus, Task& task) {
  switch (task.cdb[0]) {
    case kInquiry:
      return inquiry_without_unit(task);
    case kRequestSense:
      return request_sense_without_unit(task);
    case kReportLuns:
      if (decode_lun(task.lun) == uint16_t{0}) return report_luns_without_unit(nexus, task);
      break;
    default:
      break;
  }
  fail(task, sense::kUnitNotSupported);
}

}  // namespace zvolt::scsi
