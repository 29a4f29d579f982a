// INQUIRY: vital product data pages, one builder per page and one table of them. SPC-4 7.8, SBC-3 6.6.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "scsi/bytes.h"
#include "scsi/handlers.h"
#include "scsi/identity.h"
#include "scsi/inquiry.h"
#include "scsi/it_nexus.h"
#include "scsi/logical_unit.h"

namespace zvolt::scsi {

namespace {

using Bytes = std::vector<uint8_t>;

struct Page {
  uint8_t code;
  void (*build)(const UnitCall& call, Bytes& out);  // out: four header bytes, to which the page is added
};

void supported_pages(const UnitCall& call, Bytes& out);

void append(Bytes& out, std::string_view text) {
  out.insert(out.end(), text.begin(), text.end());
}

void unit_serial_number(const UnitCall& call, Bytes& out) {
  append(out, unit_serial(call.unit.options().uuid));
}

// --- 83h: designation descriptors (SPC-4 7.8.6) ---

enum class Association : uint8_t { unit = 0x00, port = 0x10, device = 0x20 };
enum class CodeSet : uint8_t { binary = 0x01, ascii = 0x02, utf8 = 0x03 };
enum class Designator : uint8_t { t10_vendor = 0x01, naa = 0x03, relative_port = 0x04, scsi_name = 0x08 };
constexpr uint8_t kProtocolIscsi = 0x50;
constexpr uint8_t kProtocolValid = 0x80;
constexpr size_t kMaxDesignator = 252;  // the length field is one byte, and SCSI name strings come in fours

void add_designator(Bytes& out, Association association, CodeSet set, Designator type, std::string_view value) {
  const bool of_port = association != Association::unit;  // PIV and the protocol apply to ports and devices only
  const std::string_view kept = value.substr(0, kMaxDesignator);
  out.push_back(static_cast<uint8_t>((of_port ? kProtocolIscsi : 0) | static_cast<uint8_t>(set)));
  out.push_back(static_cast<uint8_t>((of_port ? kProtocolValid : 0) | static_cast<uint8_t>(association) |
                                     static_cast<uint8_t>(type)));
  out.push_back(0);
  out.push_back(static_cast<uint8_t>(kept.size()));
  append(out, kept);
}

// A SCSI name string ends in a NUL and is padded with them to a multiple of four.
void add_name(Bytes& out, Association association, const std::string& name) {
  std::string padded = name.substr(0, kMaxDesignator - 1);
  padded.resize((padded.size() / 4 + 1) * 4, '\0');
  add_designator(out, association, CodeSet::utf8, Designator::scsi_name, padded);
}

std::string binary(uint64_t value, size_t size) {
  uint8_t bytes[8];
  put64(bytes, value);
  return {reinterpret_cast<const char*>(bytes) + (8 - size), size};
}

void device_identification(const UnitCall& call, Bytes& out) {
  const UnitOptions& options = call.unit.options();
  const NexusNames& names = call.nexus.names();
  uint8_t vendor[8];
  put_ascii(vendor, sizeof vendor, options.vendor);
  std::string t10(reinterpret_cast<const char*>(vendor), sizeof vendor);
  t10 += unit_t10_suffix(options.uuid);
  add_designator(out, Association::unit, CodeSet::binary, Designator::naa, binary(unit_naa(options.uuid), 8));
  add_designator(out, Association::unit, CodeSet::ascii, Designator::t10_vendor, t10);
  add_designator(out, Association::port, CodeSet::binary, Designator::relative_port, binary(names.relative_port, 4));
  add_name(out, Association::port, names.target_port);
  add_name(out, Association::device, names.target);
}

void extended_inquiry(const UnitCall& call, Bytes& out) {
  out.resize(64);
  out[5] = 0x05;                                           // HEADSUP, SIMPSUP
  out[6] = call.unit.write_cache_enabled() ? 0x01 : 0x00;  // V_SUP: the cache may be volatile
}

void block_limits(const UnitCall& call, Bytes& out) {
  const UnitLimits& limits = call.unit.limits();
  out.resize(64);
  uint8_t* page = out.data();
  put16(page + 6, limits.transfer_granularity);
  put32(page + 8, limits.max_transfer);
  put32(page + 12, limits.optimal_transfer);
  put32(page + 20, limits.max_unmap_blocks);
  put32(page + 24, limits.max_unmap_descriptors);
  put32(page + 28, limits.unmap_granularity);
  constexpr uint32_t kAlignmentValid = 0x80000000;
  if (limits.unmap) put32(page + 32, kAlignmentValid | limits.unmap_alignment);
  put64(page + 36, limits.max_write_same);
}

void block_characteristics(const UnitCall&, Bytes& out) {
  out.resize(64);
  put16(out.data() + 4, 1);  // MEDIUM ROTATION RATE: non-rotating, so that hosts do not reorder for a disk arm
}

void provisioning(const UnitCall& call, Bytes& out) {
  out.resize(8);
  const UnitLimits& limits = call.unit.limits();
  if (!limits.unmap) return;
  constexpr uint8_t kLbpu = 0x80, kLbpws = 0x40, kLbpws10 = 0x20, kLbprz = 0x04, kThin = 0x02;
  out[5] = static_cast<uint8_t>(kLbpu | kLbpws | kLbpws10 | (limits.unmapped_reads_zero ? kLbprz : 0));
  out[6] = kThin;
}

// Ascending: Windows ignores B0h and what follows otherwise.
constexpr Page kPages[] = {
    {0x00, supported_pages}, {0x80, unit_serial_number},    {0x83, device_identification}, {0x86, extended_inquiry},
    {0xb0, block_limits},    {0xb1, block_characteristics}, {0xb2, provisioning},
};

void supported_pages(const UnitCall&, Bytes& out) {
  for (const Page& page : kPages) out.push_back(page.code);
}

}  // namespace

void inquiry_vpd(const UnitCall& call, uint8_t code) {
  const Page* page =
      std::find_if(std::begin(kPages), std::end(kPages), [&](const Page& it) { return it.code == code; });
  if (page == std::end(kPages)) return refuse_field(call.task, 2);
  Bytes out{kDirectAccess, code, 0, 0};
  page->build(call, out);
  put16(out.data() + 2, out.size() - 4);
  answer(call.task, out, call.cdb.length);
}

}  // namespace zvolt::scsi
