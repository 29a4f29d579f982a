// LogicalUnit::create: what fits a store, and the limits that follow from its geometry.
#include "scsi/logical_unit.h"

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

struct Made {
  UnitOptions options = DefaultOptions();
  backing::Geometry geometry = TestStore::default_geometry();
  uint64_t size = TestStore::kDefaultSize;

  Result<std::shared_ptr<LogicalUnit>> Create() const {
    return LogicalUnit::create(options, std::make_shared<TestStore>(size, geometry));
  }
  UnitLimits Limits() const { return Create().value()->limits(); }
};

TEST(LogicalUnit, SizeIsRoundedDownToWholeBlocks) {
  Made made;
  made.size = 10 * 512 + 511;
  EXPECT_EQ(made.Create().value()->blocks(), 10u);
}

TEST(LogicalUnit, LessThanOneBlockIsAnErrorThatSaysSo) {
  Made made;
  made.options.block_size = 4096;
  made.size = 4095;
  const auto result = made.Create();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("4095"), std::string::npos);
  EXPECT_NE(result.error().message.find("vol"), std::string::npos);
}

TEST(LogicalUnit, OnlyBlocksOf512And4096Exist) {
  for (const uint32_t block : {0u, 1u, 256u, 520u, 1024u, 8192u}) {
    Made made;
    made.options.block_size = block;
    EXPECT_FALSE(made.Create().ok());
  }
}

TEST(LogicalUnit, PhysicalBlockMustBeAPowerOfTwo) {
  Made made;
  made.options.physical_block_size = 5000;
  EXPECT_FALSE(made.Create().ok());
}

TEST(LogicalUnit, PhysicalExponentFollowsTheStoreUpTo4096) {
  struct Row {
    uint32_t block, logical, physical, option;
    int exponent;
  };
  const Row rows[] = {
      {512, 512, 512, 0, 0},       {512, 512, 4096, 0, 3},    {512, 512, 65536, 0, 3},
      {512, 4096, 4096, 0, 3},     {4096, 512, 512, 0, 0},    {4096, 4096, 65536, 0, 0},
      {512, 512, 65536, 65536, 7}, {512, 512, 65536, 512, 0}, {4096, 512, 65536, 512, 0},
  };
  for (const Row& row : rows) {
    Made made;
    made.options.block_size = row.block;
    made.options.physical_block_size = row.option;
    made.geometry.logical_block = row.logical;
    made.geometry.physical_block = row.physical;
    EXPECT_EQ(made.Limits().physical_exponent, row.exponent) << row.block << ' ' << row.physical << ' ' << row.option;
  }
}

TEST(LogicalUnit, OptimalTransferIsAWholeNumberOfStoreBlocks) {
  for (const uint32_t physical : {512u, 4096u, 65536u, 98304u, 1u << 20, 16u << 20}) {
    Made made;
    made.geometry.physical_block = physical;
    const UnitLimits limits = made.Limits();
    EXPECT_EQ(limits.optimal_transfer % (physical / 512), 0u);
    EXPECT_GE(limits.optimal_transfer, 2048u);
    EXPECT_LE(limits.optimal_transfer, limits.max_transfer);
    EXPECT_EQ(limits.transfer_granularity, physical / 512);
  }
}

TEST(LogicalUnit, LimitsOf4096ByteBlocksAreTheSameInBytes) {
  Made made;
  made.options.block_size = 4096;
  const UnitLimits limits = made.Limits();
  EXPECT_EQ(limits.max_transfer, 8192u);
  EXPECT_EQ(limits.max_write_same, 8192u);
  EXPECT_EQ(limits.optimal_transfer, 256u);
  EXPECT_EQ(limits.unmap_granularity, 1u);
  EXPECT_EQ(limits.transfer_granularity, 1u);
}

// A host may ask for as many blocks at once as one physical block has.
TEST(LogicalUnit, LimitsAgreeWithEachOther) {
  const UnitLimits limits = Made{}.Limits();
  EXPECT_GE(limits.max_unmap_blocks, 1u << limits.physical_exponent);
  EXPECT_LE(limits.max_unmap_blocks, 1u << 20);
  EXPECT_GT(limits.max_unmap_descriptors, 1u);
  EXPECT_TRUE(limits.max_transfer >= 65536 || limits.max_write_same < 65536);
}

TEST(LogicalUnit, AReadOnlyStoreMakesAReadOnlyUnit) {
  Made made;
  EXPECT_FALSE(made.Create().value()->read_only());
  made.geometry.read_only = true;
  EXPECT_TRUE(made.Create().value()->read_only());
}

}  // namespace
}  // namespace zvolt::scsi::test
