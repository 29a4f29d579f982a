// GET LBA STATUS: what is a hole and what is data, in whole blocks, from the block that was asked for.
#include <cerrno>

#include "scsi/bytes.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using backing::IoKind;

struct Extent {
  uint64_t lba;
  uint64_t blocks;
  uint8_t status;
  bool operator==(const Extent&) const = default;
};

class GetLbaStatus : public ScsiTest {
 protected:
  Reply Ask(uint64_t lba, uint32_t allocation = 1024) { return Send(CdbLba16(0x9e, {lba, allocation, 0x12})); }
  static std::vector<Extent> Extents(const Reply& reply) {
    std::vector<Extent> out;
    for (size_t at = 8; at + 16 <= reply.data.size(); at += 16) {
      const uint8_t* d = reply.data.data() + at;
      out.push_back({get64(d), get32(d + 8), d[12]});
    }
    return out;
  }
};

TEST_F(GetLbaStatus, AnEmptyDiskIsOneHole) {
  const Reply reply = Ask(0);
  ExpectGood(reply);
  EXPECT_EQ(get32(reply.data.data()), reply.data.size() - 4);
  EXPECT_EQ(Extents(reply), (std::vector<Extent>{{0, unit->blocks(), 1}}));
}

TEST_F(GetLbaStatus, AFullDiskIsOneExtentFromTheBlockThatWasAsked) {
  store->fill(0x11);
  EXPECT_EQ(Extents(Ask(5)), (std::vector<Extent>{{5, unit->blocks() - 5, 0}}));
}

TEST_F(GetLbaStatus, HolesAndDataTakeTurns) {
  store->fill(0x11);
  ExpectGood(SendUnmap({{16, 8}, {64, 16}}));
  EXPECT_EQ(Extents(Ask(0)),
            (std::vector<Extent>{{0, 16, 0}, {16, 8, 1}, {24, 40, 0}, {64, 16, 1}, {80, unit->blocks() - 80, 0}}));
  EXPECT_EQ(Extents(Ask(20)).front(), (Extent{20, 4, 1}));
}

TEST_F(GetLbaStatus, TheAllocationLengthLimitsTheDescriptors) {
  store->fill(0x11);
  ExpectGood(SendUnmap({{16, 8}}));
  EXPECT_EQ(Ask(0, 24).data.size(), 24u);
  EXPECT_EQ(Ask(0, 40).data.size(), 40u);
  for (const uint32_t allocation : {0u, 1u, 8u, 23u}) {
    const Reply reply = Ask(0, allocation);
    ExpectGood(reply);
    EXPECT_EQ(reply.data.size(), allocation);
  }
}

TEST_F(GetLbaStatus, BeyondTheEndIsLbaOutOfRange) {
  for (const uint64_t lba : {unit->blocks(), unit->blocks() + 1, uint64_t{1} << 63, UINT64_MAX})
    ExpectSense(Ask(lba), 5, 0x21, 0);
}

TEST_F(GetLbaStatus, AStoreThatFailsIsAMediumError) {
  store->errors[IoKind::allocation_status] = EIO;
  ExpectSense(Ask(0), 3, 0x11, 0);
}

TEST_F(GetLbaStatus, WaitsForASlowStore) {
  store->timing = Timing::later;
  EXPECT_EQ(Extents(Ask(0)), (std::vector<Extent>{{0, unit->blocks(), 1}}));
}

}  // namespace
}  // namespace zvolt::scsi::test
