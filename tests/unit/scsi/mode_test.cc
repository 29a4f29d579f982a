// MODE SENSE(6) and (10): pages, page control, truncation, block descriptors, write protection.
#include "scsi/bytes.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using ModeSense = ScsiTest;
constexpr uint8_t kDbd = 0x08, kLlbaa = 0x10;

TEST_F(ModeSense, EveryAllocationLengthCutsTheSameData) {
  for (const uint8_t page : Bytes{0x3f, 0x08, 0x0a, 0x1c}) {
    const Bytes whole = ModeSense6(page).data;
    EXPECT_EQ(whole.size(), size_t{whole[0]} + 1);
    for (const uint8_t allocation : Bytes{0, 3, 4, 12, 192, 255}) {
      const Reply reply = ModeSense6(page, 0, allocation);
      ExpectGood(reply);
      ASSERT_EQ(reply.data.size(), std::min<size_t>(allocation, whole.size()));
      EXPECT_TRUE(std::equal(reply.data.begin(), reply.data.end(), whole.begin()));
    }
    const Bytes ten = ModeSense10(page).data;
    EXPECT_EQ(ten.size(), size_t{get16(ten.data())} + 2);
    EXPECT_EQ(ModeSense10(page, 0, 4).data, Bytes(ten.begin(), ten.begin() + 4));
    EXPECT_TRUE(std::equal(ten.begin() + 8, ten.end(), whole.begin() + 4, whole.end()));
  }
}

TEST_F(ModeSense, AllPagesComeAscendingWithTheirLengths) {
  const Bytes data = ModeSense6(0x3f, kDbd).data;
  Bytes codes;
  for (size_t at = 4; at < data.size(); at += size_t{2} + data[at + 1]) codes.push_back(data[at]);
  EXPECT_EQ(codes, (Bytes{0x08, 0x0a, 0x1c}));
}

TEST_F(ModeSense, DbdLeavesTheBlockDescriptorOut) {
  const Bytes with = ModeSense6(0x08).data, without = ModeSense6(0x08, kDbd).data;
  EXPECT_EQ(with[3], 8);
  EXPECT_EQ(without[3], 0);
  EXPECT_EQ(with.size(), without.size() + 8);
  EXPECT_EQ(get32(with.data() + 4), unit->blocks());
  EXPECT_EQ(get24(with.data() + 9), 512u);
  EXPECT_EQ(without[4], 0x08);
}

TEST_F(ModeSense, LongBlockDescriptorOnRequestOfTheTenByteForm) {
  const Bytes data = ModeSense10(0x08, kLlbaa).data;
  EXPECT_EQ(data[4], 1);
  EXPECT_EQ(get16(data.data() + 6), 16);
  EXPECT_EQ(get64(data.data() + 8), unit->blocks());
  EXPECT_EQ(get32(data.data() + 20), 512u);
}

TEST_F(ModeSense, NothingIsChangeableAndNothingIsSaved) {
  const Bytes data = ModeSense6(0x40 | 0x3f, kDbd).data;
  EXPECT_EQ(data.size(), ModeSense6(0x3f, kDbd).data.size());
  for (size_t at = 4; at < data.size(); at += size_t{2} + data[at + 1]) {
    EXPECT_EQ(Bytes(data.begin() + at + 2, data.begin() + at + 2 + data[at + 1]), Bytes(data[at + 1], 0));
  }
  EXPECT_EQ(ModeSense6(0x80 | 0x3f).data, ModeSense6(0x3f).data);
  ExpectSense(ModeSense6(0xc0 | 0x3f), 5, 0x39, 0);
  ExpectSense(ModeSense10(0xc0 | 0x08), 5, 0x39, 0);
}

TEST_F(ModeSense, OtherPagesAreRefused) {
  for (uint8_t page = 0; page < 0x3f; ++page) {
    if (page == 0x08 || page == 0x0a || page == 0x1c) continue;
    ExpectInvalidField(ModeSense6(page), 2);
    ExpectInvalidField(ModeSense10(page), 2);
  }
  ExpectInvalidField(ModeSense6(0x08, 0, 255, 1), 3);
  ExpectGood(ModeSense6(0x3f, 0, 255, 0xff));
}

TEST_F(ModeSense, WriteProtectionShowsForUnitStoreAndMapping) {
  const auto wp = [&] { return ModeSense6(0x3f).data[2]; };
  EXPECT_EQ(wp(), 0x10);  // DPOFUA
  Build({}, [](UnitOptions& options) { options.read_only = true; });
  EXPECT_EQ(wp(), 0x90);
  Build([](backing::Geometry& geometry) { geometry.read_only = true; }, {});
  EXPECT_EQ(wp(), 0x90);
  Build({}, {}, TestStore::kDefaultSize, true);
  EXPECT_EQ(wp(), 0x90);
  EXPECT_EQ(ModeSense10(0x3f).data[3], 0x90);
}

TEST_F(ModeSense, DescriptorSenseBitAgreesWithTheSenseFormat) {
  EXPECT_EQ(ModeSense6(0x0a, kDbd).data[6] & 0x04, 0);
  EXPECT_EQ(Read10(unit->blocks(), 1).sense.bytes[0], 0x70);
  unit->set_descriptor_sense(true);
  EXPECT_EQ(ModeSense6(0x0a, kDbd).data[6] & 0x04, 0x04);
  EXPECT_EQ(Read10(unit->blocks(), 1).sense.bytes[0], 0x72);
}

}  // namespace
}  // namespace zvolt::scsi::test
