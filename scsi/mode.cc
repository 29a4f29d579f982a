// MODE SENSE(6) and (10): pages 08h caching, 0Ah control, 1Ch informational exceptions. SPC-4 6.13, 6.14, 7.5,
// SBC-3 6.5.
#include <algorithm>
#include <iterator>
#include <vector>

#include "scsi/bytes.h"
#include "scsi/handlers.h"
#include "scsi/logical_unit.h"
#include "scsi/lun_nexus.h"

namespace zvolt::scsi {

namespace {

using Bytes = std::vector<uint8_t>;

enum class PageControl : uint8_t { current = 0, changeable = 1, defaults = 2, saved = 3 };

constexpr uint8_t kAllPages = 0x3f;
constexpr uint8_t kAllSubpages = 0xff;

// Writes the page's values from its third byte on into zeroed memory. There is no MODE SELECT, so nothing is changeable
// and the default values are the current ones.
struct ModePage {
  uint8_t code;
  uint8_t length;  // PAGE LENGTH
  void (*fill)(const LogicalUnit& unit, uint8_t* page);
};

void caching(const LogicalUnit& unit, uint8_t* page) {
  constexpr uint8_t kWce = 0x04;
  if (unit.write_cache_enabled()) page[2] = kWce;
}

void control(const LogicalUnit& unit, uint8_t* page) {
  constexpr uint8_t kDescriptorSense = 0x04, kUnrestrictedReordering = 0x10;
  if (unit.descriptor_sense()) page[2] = kDescriptorSense;
  page[3] = kUnrestrictedReordering;
  put16(page + 8, UINT16_MAX);  // BUSY TIMEOUT PERIOD: not limited
}

void informational_exceptions(const LogicalUnit&, uint8_t*) {}

// Ascending, as page 3Fh returns them.
constexpr ModePage kPages[] = {
    {0x08, 0x12, caching},
    {0x0a, 0x0a, control},
    {0x1c, 0x0a, informational_exceptions},
};

void add_page(const ModePage& page, PageControl which, const LogicalUnit& unit, Bytes& out) {
  const size_t at = out.size();
  out.resize(at + 2 + page.length);
  out[at] = page.code;
  out[at + 1] = page.length;
  if (which != PageControl::changeable) page.fill(unit, out.data() + at);
}

// Short: SPC-4 7.5.5.2 as SBC-3 6.5.2.2 fills it; long: 6.5.2.3.
void add_block_descriptor(const LogicalUnit& unit, bool long_lba, Bytes& out) {
  const size_t at = out.size();
  out.resize(at + (long_lba ? 16 : 8));
  if (long_lba) {
    put64(out.data() + at, unit.blocks());
    put32(out.data() + at + 12, unit.block_size());
  } else {
    put32(out.data() + at, std::min<uint64_t>(unit.blocks(), UINT32_MAX));
    put24(out.data() + at + 5, unit.block_size());
  }
}

uint8_t device_specific(const UnitCall& call) {
  constexpr uint8_t kWriteProtect = 0x80, kDpoFua = 0x10;
  return static_cast<uint8_t>(kDpoFua | (call.unit_nexus.read_only() ? kWriteProtect : 0));
}

struct Header {
  size_t size;
  bool ten;  // the form of MODE SENSE(10)
};

void fill_header(const UnitCall& call, Header header, bool long_lba, size_t descriptor_length, Bytes& out) {
  uint8_t* to = out.data();
  if (header.ten) {
    put16(to, out.size() - 2);
    to[3] = device_specific(call);
    to[4] = long_lba ? 1 : 0;
    put16(to + 6, descriptor_length);
  } else {
    to[0] = static_cast<uint8_t>(out.size() - 1);
    to[2] = device_specific(call);
    to[3] = static_cast<uint8_t>(descriptor_length);
  }
}

void mode_sense(const UnitCall& call, Header header) {
  constexpr uint8_t kDisableDescriptors = 0x08, kLongLba = 0x10;
  const uint8_t code = call.cdb.bytes[2] & 0x3f;
  const uint8_t subpage = call.cdb.bytes[3];
  const auto which = static_cast<PageControl>(call.cdb.bytes[2] >> 6);
  if (which == PageControl::saved) return fail(call.task, sense::kSavingNotSupported);
  if (subpage != 0 && subpage != kAllSubpages) return refuse_field(call.task, 3);

  const bool long_lba = header.ten && call.cdb.flag(kLongLba);
  Bytes out(header.size);
  if (!call.cdb.flag(kDisableDescriptors)) add_block_descriptor(call.unit, long_lba, out);
  const size_t descriptor_length = out.size() - header.size;
  const size_t before = out.size();
  for (const ModePage& page : kPages) {
    if (code == kAllPages || code == page.code) add_page(page, which, call.unit, out);
  }
  if (out.size() == before) return refuse_field(call.task, 2, 5);
  fill_header(call, header, long_lba, descriptor_length, out);
  answer(call.task, out, call.cdb.length);
}

}  // namespace

void mode_sense_6(const UnitCall& call) {
  mode_sense(call, {4, false});
}
void mode_sense_10(const UnitCall& call) {
  mode_sense(call, {8, true});
}

}  // namespace zvolt::scsi
