// INQUIRY, VPD pages, READ CAPACITY, REPORT LUNS, REQUEST SENSE, START STOP UNIT: what a host learns at attach.
#include <set>

#include "scsi/bytes.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using Inquiry = ScsiTest;
using Identity = ScsiTest;

std::string Text(const Bytes& data, size_t at, size_t size) {
  return {data.begin() + static_cast<std::ptrdiff_t>(at), data.begin() + static_cast<std::ptrdiff_t>(at + size)};
}

TEST_F(Inquiry, StandardDataNamesTheDisk) {
  const Bytes data = StandardInquiry(512).data;
  ASSERT_EQ(data.size(), size_t{data[4]} + 5);
  EXPECT_EQ(data[0], 0x00);
  EXPECT_EQ(data[1], 0x00);         // not removable
  EXPECT_EQ(data[2], 0x06);         // SPC-4
  EXPECT_EQ(data[3] & 0x0f, 2);     // response data format
  EXPECT_EQ(data[5], 0x00);         // no 3PC, no PROTECT
  EXPECT_EQ(data[7] & 0x02, 0x02);  // CMDQUE
  EXPECT_EQ(Text(data, 8, 8), "ZVOLT   ");
  EXPECT_EQ(Text(data, 16, 16), "VIRTUAL-DISK    ");
  EXPECT_EQ(Text(data, 32, 4), "0001");
  std::set<uint16_t> versions;
  for (size_t at = 58; at < 74; at += 2) versions.insert(get16(data.data() + at));
  for (const uint16_t wanted : std::vector<uint16_t>{0x0960, 0x0460, 0x04c0})
    EXPECT_TRUE(versions.contains(wanted)) << wanted;
}

TEST_F(Inquiry, EveryAllocationLengthCutsTheSameData) {
  const Bytes whole = StandardInquiry(512).data;
  for (const uint16_t allocation : std::vector<uint16_t>{0, 1, 4, 5, 36, 95, 96, 97, 255, 511, 65535}) {
    const Reply reply = StandardInquiry(allocation);
    ExpectGood(reply);
    ASSERT_EQ(reply.data.size(), std::min<size_t>(allocation, whole.size()));
    EXPECT_TRUE(std::equal(reply.data.begin(), reply.data.end(), whole.begin()));
  }
}

TEST_F(Inquiry, PageCodeWithoutEvpdIsRefused) {
  ExpectInvalidField(Send(Cdb6(0x12, 0, 0x83, 0, 255)), 2);
  ExpectInvalidField(Send(Cdb6(0x12, 2, 0, 0, 255)), 1);
}

TEST_F(Inquiry, EveryListedPageIsReadableAndTheListIsAscending) {
  const Bytes list = Vpd(0x00).data;
  ASSERT_EQ(list.size(), size_t{4} + get16(list.data() + 2));
  EXPECT_EQ(Bytes(list.begin() + 4, list.end()), (Bytes{0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2}));
  for (size_t i = 4; i < list.size(); ++i) {
    const Reply page = Vpd(list[i], 4096);
    ExpectGood(page);
    EXPECT_EQ(page.data[1], list[i]);
    EXPECT_EQ(page.data.size(), size_t{4} + get16(page.data.data() + 2));
  }
}

TEST_F(Inquiry, PagesThatAreNotListedAreRefused) {
  const Bytes list = Vpd(0x00).data;
  const std::set<uint8_t> listed(list.begin() + 4, list.end());
  for (int page = 0; page < 256; ++page) {
    if (listed.contains(static_cast<uint8_t>(page))) continue;
    ExpectInvalidField(Vpd(static_cast<uint8_t>(page)), 2);
  }
}

TEST_F(Inquiry, AShortAllocationLeavesThePageLengthAlone) {
  EXPECT_EQ(Vpd(0x00, 1).data.size(), 1u);  // as Windows asks
  const Bytes cut = Vpd(0xb0, 8).data;
  ASSERT_EQ(cut.size(), 8u);
  EXPECT_EQ(get16(cut.data() + 2), 0x3c);
}

TEST_F(Inquiry, BlockLimitsSayWhatCommandsAreHeldTo) {
  const Bytes page = Vpd(0xb0).data;
  EXPECT_EQ(get16(page.data() + 2), 0x3c);
  EXPECT_EQ(page[4], 0);                         // WSNZ
  EXPECT_EQ(page[5], 0);                         // no COMPARE AND WRITE
  EXPECT_EQ(get16(page.data() + 6), 8);          // granularity: 4096 bytes
  EXPECT_EQ(get32(page.data() + 8), 65536u);     // maximum transfer: 32 MiB
  EXPECT_EQ(get32(page.data() + 12), 2048u);     // optimal: 1 MiB
  EXPECT_EQ(get32(page.data() + 20), 1u << 20);  // unmap LBA count
  EXPECT_EQ(get32(page.data() + 24), 256u);
  EXPECT_EQ(get32(page.data() + 28), 8u);
  EXPECT_EQ(get32(page.data() + 32), 0x80000000u);  // UGAVALID
  EXPECT_EQ(get64(page.data() + 36), 65536u);       // write same
}

TEST_F(Inquiry, AVolblocksizeIsPublishedWhereHostsUseItSafely) {
  Build(
      [](backing::Geometry& geometry) {
        geometry.physical_block = 65536;
        geometry.discard_granularity = 65536;
        geometry.discard_alignment = 1024;
      },
      {});
  const Bytes page = Vpd(0xb0).data;
  EXPECT_EQ(get16(page.data() + 6), 128);
  EXPECT_EQ(get32(page.data() + 12) % 128, 0u);
  EXPECT_EQ(get32(page.data() + 28), 128u);
  EXPECT_EQ(get32(page.data() + 32), 0x80000002u);
  EXPECT_EQ(ReadCapacity16().data[13], 3);  // but the physical block is 4096
}

TEST_F(Inquiry, ThinProvisioningIsClaimedInAllPlacesOrNone) {
  EXPECT_EQ(Vpd(0xb2).data, (Bytes{0x00, 0xb2, 0, 4, 0, 0xe4, 0x02, 0}));
  EXPECT_EQ(ReadCapacity16().data[14], 0xc0);
  Build([](backing::Geometry& geometry) { geometry.discard_zeroes = false; }, {});
  EXPECT_EQ(Vpd(0xb2).data[5], 0xe0);
  EXPECT_EQ(ReadCapacity16().data[14], 0x80);
  Build([](backing::Geometry& geometry) { geometry.discard_granularity = 0; }, {});
  EXPECT_EQ(Vpd(0xb2).data, (Bytes{0x00, 0xb2, 0, 4, 0, 0, 0, 0}));
  EXPECT_EQ(ReadCapacity16().data[14], 0);
  EXPECT_EQ(get32(Vpd(0xb0).data.data() + 20), 0u);
  EXPECT_EQ(get32(Vpd(0xb0).data.data() + 32), 0u);
}

TEST_F(Inquiry, BlockDeviceCharacteristicsHaveTheLengthThatWindowsWants) {
  const Bytes page = Vpd(0xb1).data;
  EXPECT_EQ(get16(page.data() + 2), 0x3c);
  EXPECT_EQ(page.size(), 64u);
  EXPECT_EQ(get16(page.data() + 4), 1);
}

// --- identity ---

struct Found {
  uint8_t association, type;
  std::string value;
};

std::vector<Found> Designators(const Bytes& page) {
  std::vector<Found> out;
  for (size_t at = 4; at + 4 <= page.size(); at += size_t{4} + page[at + 3]) {
    out.push_back({static_cast<uint8_t>((page[at + 1] >> 4) & 3), static_cast<uint8_t>(page[at + 1] & 15),
                   Text(page, at + 4, page[at + 3])});
  }
  return out;
}

std::string Designator(const Bytes& page, uint8_t association, uint8_t type) {
  for (const Found& found : Designators(page)) {
    if (found.association == association && found.type == type) return found.value;
  }
  return {};
}

TEST_F(Identity, SerialIsTheUuid) {
  const Bytes page = Vpd(0x80).data;
  EXPECT_EQ(Text(page, 4, page.size() - 4), "101112131415161718191a1b1c1d1e1f");
}

TEST_F(Identity, TheUnitHasALocallyAssignedNaaAndAT10Name) {
  const Bytes page = Vpd(0x83, 4096).data;
  const std::string naa = Designator(page, 0, 3);
  ASSERT_EQ(naa.size(), 8u);
  EXPECT_EQ(static_cast<uint8_t>(naa[0]) >> 4, 3);
  const std::string t10 = Designator(page, 0, 1);
  EXPECT_EQ(t10.substr(0, 8), "ZVOLT   ");
  EXPECT_EQ(t10.size(), 24u);
}

// These values are in hosts' databases: a change makes every disk a new one.
TEST_F(Identity, NamesNeverChange) {
  const Bytes page = Vpd(0x83, 4096).data;
  EXPECT_EQ(Designator(page, 0, 1), "ZVOLT   d3fde3d6de2dc8b0");
  EXPECT_EQ(Designator(page, 0, 3), "\x3d\x3f\xde\x3d\x6d\xe2\xdc\x8b");
}

TEST_F(Identity, UuidsThatDifferInOneBitDifferInTheFirstEightCharacters) {
  std::set<std::string> prefixes;
  std::set<std::string> naas;
  for (uint8_t last = 0; last < 64; ++last) {
    Build({}, [=](UnitOptions& options) { options.uuid = {}, options.uuid[15] = last; });
    const Bytes page = Vpd(0x83, 4096).data;
    prefixes.insert(Designator(page, 0, 1).substr(8, 8));
    naas.insert(Designator(page, 0, 3));
  }
  EXPECT_EQ(prefixes.size(), 64u);
  EXPECT_EQ(naas.size(), 64u);
}

TEST_F(Identity, PortAndDeviceAreNamed) {
  const Bytes page = Vpd(0x83, 4096).data;
  EXPECT_EQ(Designator(page, 1, 4), std::string("\0\0\0\1", 4));
  std::string port = Designator(page, 1, 8);
  EXPECT_EQ(port.size() % 4, 0u);
  EXPECT_EQ(port.c_str(), std::string("iqn.2026-11.org.example:disks,t,0x0001"));
  EXPECT_EQ(Designator(page, 2, 8).c_str(), std::string("iqn.2026-11.org.example:disks"));
}

TEST_F(Identity, TheLongestNamesStillFitTheirDesignators) {
  NexusNames names = Names();
  names.target = std::string(223, 'a');
  names.target_port = names.target + ",t,0x0001";
  nexus = std::make_unique<ItNexus>(names, MakeMap({{0, unit}}));
  host = std::make_unique<Initiator>(*nexus, engine);
  const Bytes page = Vpd(0x83, 4096).data;
  EXPECT_EQ(page.size(), size_t{4} + get16(page.data() + 2));
  EXPECT_EQ(Designator(page, 1, 8).c_str(), names.target_port);
}

// --- capacity, LUNs, sense, start/stop ---

TEST_F(Inquiry, ReadCapacityTenAndSixteenAgree) {
  const Bytes ten = Send(CdbLba10(0x25, {})).data;
  ASSERT_EQ(ten.size(), 8u);
  EXPECT_EQ(get32(ten.data()), unit->blocks() - 1);
  EXPECT_EQ(get32(ten.data() + 4), 512u);
  const Bytes sixteen = ReadCapacity16().data;
  ASSERT_EQ(sixteen.size(), 32u);
  EXPECT_EQ(get64(sixteen.data()), unit->blocks() - 1);
  EXPECT_EQ(get32(sixteen.data() + 8), 512u);
  EXPECT_EQ(sixteen[12], 0);
  EXPECT_EQ(sixteen[13], 3);
  for (uint32_t allocation = 0; allocation <= 40; ++allocation) {
    EXPECT_EQ(ReadCapacity16(allocation).data.size(), std::min(allocation, 32u));
  }
}

TEST_F(Inquiry, ReportLunsListsTheMapWithBothAddressingMethods) {
  nexus = std::make_unique<ItNexus>(Names(), MakeMap({{0, unit}, {7, unit}, {300, unit}}));
  host = std::make_unique<Initiator>(*nexus, engine);
  const Bytes list = ReportLuns().data;
  ASSERT_EQ(list.size(), 8u + 3 * 8);
  EXPECT_EQ(get32(list.data()), 24u);
  EXPECT_EQ(get64(list.data() + 8), 0u);
  EXPECT_EQ(get64(list.data() + 16), uint64_t{7} << 48);
  EXPECT_EQ(get64(list.data() + 24), uint64_t{0x412c} << 48);
  for (size_t at = 8; at < list.size(); at += 8) {
    host->lun = get64(list.data() + at);
    EXPECT_EQ(StandardInquiry().data[0], 0x00);
  }
}

TEST_F(Inquiry, ReportLunsKeepsItsLengthWhenCut) {
  const Bytes cut = ReportLuns(0, 16).data;  // Windows' first command
  EXPECT_EQ(cut.size(), 16u);
  EXPECT_EQ(get32(cut.data()), 8u);
  EXPECT_EQ(ReportLuns(0, 0).data.size(), 0u);
  EXPECT_EQ(ReportLuns(2).data.size(), 16u);
  EXPECT_EQ(get32(ReportLuns(1).data.data()), 0u);
  ExpectInvalidField(ReportLuns(3), 2);
  ExpectInvalidField(ReportLuns(0x10), 2);
}

TEST_F(Inquiry, RequestSenseReportsNoSenseInTheFormatAskedFor) {
  const Bytes fixed = Send(Cdb6(0x03, 0, 0, 0, 252)).data;
  ASSERT_EQ(fixed.size(), 18u);
  EXPECT_EQ(fixed[0], 0x70);
  EXPECT_EQ(fixed[2], 0);
  const Bytes descriptor = Send(Cdb6(0x03, 1, 0, 0, 252)).data;
  ASSERT_EQ(descriptor.size(), 8u);
  EXPECT_EQ(descriptor[0], 0x72);
  for (const uint8_t allocation : Bytes{0, 8, 18})
    EXPECT_EQ(Send(Cdb6(0x03, 0, 0, 0, allocation)).data.size(), allocation);
}

TEST_F(Inquiry, StartStopUnitNeverTakesAFixedDiskAway) {
  for (int byte = 0; byte < 256; ++byte) {
    ExpectGood(Send(Cdb6(0x1b, static_cast<uint8_t>(byte % 2), 0, 0, static_cast<uint8_t>(byte))));
    ExpectGood(TestUnitReady());
  }
}

}  // namespace
}  // namespace zvolt::scsi::test
