// What a well-behaved initiator (libiscsi) does with a LUN: discovery, login, identity, I/O of every size, and the
// commands of a thin disk.
#include <algorithm>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

class Initiator : public RunningDaemon {
 protected:
  Initiator() : RunningDaemon({.luns = {"{ lun: 0, name: disk, memory: 64MiB }"}}) {}
};

TEST_F(Initiator, DiscoveryNamesTheTargetAndItsPortal) {
  const auto targets = discover(daemon_.portal());
  ASSERT_TRUE(targets) << targets.error().message;
  ASSERT_EQ(targets->size(), 1u);
  EXPECT_EQ((*targets)[0].name, kTargetName);
  EXPECT_EQ((*targets)[0].portals, std::vector<std::string>{daemon_.portal() + ",1"});
}

TEST_F(Initiator, LogsInAndOut) {
  LibiscsiSession session = opened();
  EXPECT_TRUE(session.command(test_unit_ready()).good());
  EXPECT_TRUE(session.logout());
}

TEST_F(Initiator, InquirySaysDiskAndVendor) {
  LibiscsiSession session = opened();
  const ScsiResult result = session.command(inquiry(255), 255);
  ASSERT_TRUE(result.good()) << result.text();
  ASSERT_GE(result.data.size(), 36u);
  EXPECT_EQ(result.data[0], 0x00) << "connected direct-access block device";
  EXPECT_EQ(std::string(result.data.begin() + 8, result.data.begin() + 16), "ZVOLT   ");
  EXPECT_EQ(result.data[4] + 5u, result.data.size());
}

TEST_F(Initiator, CapacityIsTheStoresSize) {
  LibiscsiSession session = opened();
  const ScsiResult ten = session.command(read_capacity10(), 8);
  ASSERT_TRUE(ten.good()) << ten.text();
  EXPECT_EQ(get32(ten.data.data()), 64 * kMiB / 512 - 1);
  EXPECT_EQ(get32(ten.data.data() + 4), 512u);
  const ScsiResult sixteen = session.command(read_capacity16(), 32);
  ASSERT_TRUE(sixteen.good()) << sixteen.text();
  EXPECT_EQ(get64(sixteen.data.data()), 64 * kMiB / 512 - 1);
  EXPECT_EQ(get32(sixteen.data.data() + 8), 512u);
}

class InitiatorSizes : public Initiator, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(InitiatorSizes, WritesReadBack) {
  LibiscsiSession session = opened();
  const uint32_t bytes = GetParam();
  const Bytes data = pattern(bytes, bytes);
  const uint64_t offset = 3 * kMiB + 512;
  ASSERT_TRUE(session.write(offset - 512, pattern(512, 1)).good());
  ASSERT_TRUE(session.write(offset + bytes, pattern(512, 2)).good());
  const ScsiResult written = session.write(offset, data);
  ASSERT_TRUE(written.good()) << written.text();
  EXPECT_EQ(written.residual, 0u);
  const ScsiResult read = session.read(offset, bytes);
  ASSERT_TRUE(read.good()) << read.text();
  EXPECT_EQ(read.residual, 0u);
  EXPECT_TRUE(read.data == data);
  EXPECT_TRUE(session.read(offset - 512, 512).data == pattern(512, 1)) << "the block before is untouched";
  EXPECT_TRUE(session.read(offset + bytes, 512).data == pattern(512, 2)) << "the block after is untouched";
}

INSTANTIATE_TEST_SUITE_P(From512BytesTo16MiB, InitiatorSizes,
                         ::testing::Values(512u, 1024u, 4096u, 4608u, 8192u, 65536u, 66048u, 262144u, 262656u, 1048576u,
                                           1049088u, 4u << 20, 16u << 20),
                         [](const auto& size) { return std::to_string(size.param) + "Bytes"; });

TEST_F(Initiator, TwoSessionsSeeEachOthersWrites) {
  LibiscsiSession first = opened(0, 1), second = opened(0, 2);
  for (uint64_t round = 0; round < 50; ++round) {
    const Bytes data = pattern(8192, round);
    ASSERT_TRUE(first.write(round * 8192, data).good());
    ASSERT_TRUE(second.read(round * 8192, 8192).data == data);
    const Bytes changed = pattern(512, 1000 + round);
    ASSERT_TRUE(second.write(round * 8192 + 512, changed).good());
    ASSERT_TRUE(first.read(round * 8192 + 512, 512).data == changed);
  }
}

TEST_F(Initiator, ForcedUnitAccessAndSynchronizeCacheAreGood) {
  LibiscsiSession session = opened();
  const Bytes data = pattern(4096, 5);
  const ScsiResult written = session.write(0, data, kFua);
  EXPECT_TRUE(written.good()) << written.text();
  const ScsiResult read = session.command(read16(0, 8, kFua), 4096);
  EXPECT_TRUE(read.good()) << read.text();
  EXPECT_TRUE(read.data == data);
  EXPECT_TRUE(session.command(synchronize_cache10()).good());
  EXPECT_TRUE(session.command(synchronize_cache16()).good());
}

TEST_F(Initiator, UnmappedBlocksReadZeroAndTheirNeighboursStay) {
  LibiscsiSession session = opened();
  const Bytes data = pattern(kMiB, 6);
  ASSERT_TRUE(session.write(0, data).good());
  const ScsiResult unmapped = session.command_out(unmap(24), unmap_list(3, 1001));  // no multiple of anything
  ASSERT_TRUE(unmapped.good()) << unmapped.text();
  Bytes expected = data;
  std::fill_n(expected.begin() + 3 * 512, 1001 * 512, uint8_t{0});
  EXPECT_TRUE(session.read(0, kMiB).data == expected);
}

TEST_F(Initiator, WriteSameRepeatsOneBlock) {
  LibiscsiSession session = opened();
  const Bytes old = pattern(65536, 7), block = pattern(512, 8);
  ASSERT_TRUE(session.write(0, old).good());
  const ScsiResult result = session.command_out(write_same16(1, 100, 0), block);
  ASSERT_TRUE(result.good()) << result.text();
  Bytes expected = old;
  for (int i = 1; i <= 100; ++i) std::copy(block.begin(), block.end(), expected.begin() + i * 512);
  EXPECT_TRUE(session.read(0, 65536).data == expected);
}

TEST_F(Initiator, WriteSameWithUnmapBitIsExact) {
  LibiscsiSession session = opened();
  const Bytes old = pattern(kMiB, 9);
  ASSERT_TRUE(session.write(0, old).good());
  ASSERT_TRUE(session.command_out(write_same16(127, 1002, kUnmapBit), Bytes(512)).good());
  Bytes expected = old;
  std::fill_n(expected.begin() + 127 * 512, 1002 * 512, uint8_t{0});
  EXPECT_TRUE(session.read(0, kMiB).data == expected);
}

TEST_F(Initiator, WriteSameWithUnmapBitWritesAPatternThatIsNotZero) {
  LibiscsiSession session = opened();
  const Bytes block = pattern(512, 10);
  ASSERT_TRUE(session.command_out(write_same16(8, 16, kUnmapBit), block).good());
  for (uint64_t i = 8; i < 24; ++i) ASSERT_TRUE(session.read(i * 512, 512).data == block) << "block " << i;
}

TEST_F(Initiator, VerifyComparesWithTheDataSent) {
  LibiscsiSession session = opened();
  Bytes data = pattern(8192, 11);
  ASSERT_TRUE(session.write(4096, data).good());
  EXPECT_TRUE(session.command_out(verify16(8, 16, kBytchk), data).good());
  EXPECT_TRUE(session.command(verify16(8, 16, 0)).good()) << "without BYTCHK no data is sent";
  data[5000] ^= 1;
  const ScsiResult different = session.command_out(verify16(8, 16, kBytchk), data);
  EXPECT_EQ(different.sense, "0e/1d/00") << different.text();
}

TEST_F(Initiator, BlocksBeyondTheEndAreRefused) {
  LibiscsiSession session = opened();
  const uint64_t blocks = 64 * kMiB / 512;
  EXPECT_TRUE(session.command(read16(blocks - 1, 1), 512).good());
  EXPECT_EQ(session.command(read16(blocks - 1, 2), 1024).sense, "05/21/00");
  EXPECT_EQ(session.command_out(write16(blocks, 1), Bytes(512)).sense, "05/21/00");
  EXPECT_EQ(session.command_out(write16(~uint64_t{0}, 1), Bytes(512)).sense, "05/21/00");
  EXPECT_EQ(session.command(read16(uint64_t{1} << 55, 1), 512).sense, "05/21/00");
}

TEST_F(Initiator, UnknownCommandIsInvalidOpcode) {
  LibiscsiSession session = opened();
  EXPECT_EQ(session.command(cdb10(0xee, 0, 0)).sense, "05/20/00");
}

}  // namespace
}  // namespace zvolt::test
