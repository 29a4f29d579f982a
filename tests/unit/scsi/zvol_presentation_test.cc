// What a host sees of a zvol, for every volblocksize that people use and both block sizes of a LUN: READ CAPACITY(16),
// Block Limits (B0h) and Logical Block Provisioning (B2h), each as a row of numbers. SBC-4 5.20, 6.6.4, 6.6.7.
#include "scsi/bytes.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

struct Row {
  uint32_t volblocksize, block_size;  // what there is, bytes
  uint8_t exponent;                   // LBPPBE: hosts accept 512n, 512e and 4Kn only
  uint16_t granularity;               // OPTIMAL TRANSFER LENGTH GRANULARITY, blocks
  uint32_t optimal;                   // OPTIMAL TRANSFER LENGTH, blocks: 1 MiB, not the 32 MiB that a zvol says
  uint32_t unmap_granularity;         // blocks
};

constexpr Row kRows[] = {
    {8192, 512, 3, 16, 2048, 16},     {8192, 4096, 0, 2, 256, 2},     // 8K, the old default
    {16384, 512, 3, 32, 2048, 32},    {16384, 4096, 0, 4, 256, 4},    // 16K, the default
    {32768, 512, 3, 64, 2048, 64},    {32768, 4096, 0, 8, 256, 8},    //
    {65536, 512, 3, 128, 2048, 128},  {65536, 4096, 0, 16, 256, 16},  //
    {131072, 512, 3, 256, 2048, 256}, {131072, 4096, 0, 32, 256, 32},
};

// As Linux presents a zvol.
backing::Geometry zvol_geometry(uint32_t volblocksize) {
  backing::Geometry geometry;
  geometry.logical_block = 512;
  geometry.physical_block = volblocksize;
  geometry.optimal_io = 32u << 20;
  geometry.io_alignment = 512;
  geometry.memory_alignment = 512;
  geometry.discard_granularity = volblocksize;
  geometry.discard_zeroes = true;
  return geometry;
}

class ZvolPresentation : public ScsiTest, public ::testing::WithParamInterface<Row> {
 protected:
  void SetUp() override {
    Build([](backing::Geometry& geometry) { geometry = zvol_geometry(GetParam().volblocksize); },
          [](UnitOptions& options) { options.block_size = GetParam().block_size; });
  }
};

TEST_P(ZvolPresentation, CapacityIsThatOfAThinDiskWithFourKilobytePhysicalBlocksAtMost) {
  const Bytes data = ReadCapacity16().data;
  ASSERT_EQ(data.size(), 32u);
  EXPECT_EQ(get64(&data[0]), TestStore::kDefaultSize / GetParam().block_size - 1);
  EXPECT_EQ(get32(&data[8]), GetParam().block_size);
  EXPECT_EQ(data[13], GetParam().exponent);
  EXPECT_EQ(get16(&data[14]), 0xc000) << "LBPME, LBPRZ, lowest aligned block 0";
}

TEST_P(ZvolPresentation, BlockLimitsCarryTheVolblocksize) {
  const Bytes page = Vpd(0xb0).data;
  ASSERT_EQ(page.size(), 64u);
  EXPECT_EQ(get16(&page[6]), GetParam().granularity);
  EXPECT_EQ(get32(&page[12]), GetParam().optimal);
  EXPECT_EQ(get32(&page[12]) % GetParam().granularity, 0u);
  EXPECT_EQ(get32(&page[20]), 1u << 20) << "an UNMAP of at most 1 Mi blocks delays nobody";
  EXPECT_EQ(get32(&page[28]), GetParam().unmap_granularity);
  EXPECT_EQ(get32(&page[32]), 0x80000000u) << "UGAVALID, aligned at block 0";
}

TEST_P(ZvolPresentation, ProvisioningIsThinAndFreedBlocksReadZero) {
  EXPECT_EQ(Vpd(0xb2).data, (Bytes{0x00, 0xb2, 0, 4, 0, 0xe4, 0x02, 0}));
}

// Over many granules and none whole: the edges hold data and must read as zeros, their neighbours stay.
TEST_P(ZvolPresentation, UnmapIsExactWhateverTheVolblocksize) {
  const uint64_t granule = GetParam().unmap_granularity;
  struct Range {
    uint64_t lba, blocks;
  };
  for (const Range& range : {Range{1, 1}, Range{granule - 1, 2}, Range{1, granule * 3}, Range{granule, granule},
                             Range{granule + 1, granule - 1}}) {
    store->fill(0x78);
    ExpectGood(SendUnmap({{range.lba, static_cast<uint32_t>(range.blocks)}}));
    EXPECT_EQ(Stored(range.lba, range.blocks), Repeated(0, range.blocks)) << range.lba << "+" << range.blocks;
    EXPECT_EQ(Stored(range.lba - 1, 1), Repeated(0x78, 1)) << range.lba << "+" << range.blocks;
    EXPECT_EQ(Stored(range.lba + range.blocks, 1), Repeated(0x78, 1)) << range.lba << "+" << range.blocks;
  }
}

std::string row_name(const ::testing::TestParamInfo<Row>& info) {
  return "Volblocksize" + std::to_string(info.param.volblocksize / 1024) + "KBlocks" +
         std::to_string(info.param.block_size);
}

INSTANTIATE_TEST_SUITE_P(Zvols, ZvolPresentation, ::testing::ValuesIn(kRows), row_name);

}  // namespace
}  // namespace zvolt::scsi::test
