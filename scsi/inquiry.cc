// INQUIRY: standard data; the pages are in inquiry_vpd.cc. SPC-4 6.6.
#include "scsi/inquiry.h"

#include <algorithm>

#include "scsi/bytes.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"

namespace zvolt::scsi {

namespace {
// SPC-4 table 145 and following. SBC-3, because Block Limits is 3Ch long. 0960h is asked for by Windows' certification.
constexpr uint16_t kVersionDescriptors[] = {
    0x00a0,  // SAM-5
    0x0960,  // iSCSI
    0x0460,  // SPC-4
    0x04c0,  // SBC-3
};
}  // namespace

void put_ascii(uint8_t* to, size_t size, std::string_view text) {
  std::fill_n(to, size, uint8_t{' '});
  std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(size, text.size())), to,
                 [](char c) { return c >= 0x20 && c < 0x7f ? static_cast<uint8_t>(c) : uint8_t{'?'}; });
}

std::array<uint8_t, kInquirySize> standard_inquiry(uint8_t peripheral, std::string_view vendor,
                                                   std::string_view product, std::string_view revision) {
  std::array<uint8_t, kInquirySize> out{};
  out[0] = peripheral;
  out[2] = 0x06;         // VERSION: SPC-4
  out[3] = 0x10 | 0x02;  // HISUP: LUN numbers as REPORT LUNS shows them; RESPONSE DATA FORMAT 2
  out[4] = kInquirySize - 5;
  out[6] = 0x10;  // MULTIP: there may be several ports
  out[7] = 0x02;  // CMDQUE
  put_ascii(out.data() + 8, 8, vendor);
  put_ascii(out.data() + 16, 16, product);
  put_ascii(out.data() + 32, 4, revision);
  uint8_t* descriptor = out.data() + 58;
  for (const uint16_t version : kVersionDescriptors) {
    put16(descriptor, version);
    descriptor += 2;
  }
  return out;
}

void inquiry(const UnitCall& call) {
  constexpr uint8_t kEvpd = 0x01, kCmdDt = 0x02;
  if (call.cdb.flag(kCmdDt)) return refuse_field(call.task, 1, 1);  // obsolete
  if (call.cdb.flag(kEvpd)) return inquiry_vpd(call, call.cdb.bytes[2]);
  if (call.cdb.bytes[2] != 0) return refuse_field(call.task, 2);
  const UnitOptions& options = call.unit.options();
  answer(call.task, standard_inquiry(kDirectAccess, options.vendor, options.product, options.revision),
         call.cdb.length);
}

}  // namespace zvolt::scsi
