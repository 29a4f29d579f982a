// LUNs of every shape beside each other: many, sparse, read-only, 4096-byte blocks, odd sizes, no LUN 0.
#include <sys/stat.h>

#include <filesystem>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr const char* kSecondTarget = "iqn.2026-11.org.example:second";

class LunKinds : public ::testing::Test {
 protected:
  void start(std::vector<std::string> luns) {
    daemon_.config().luns = std::move(luns);
    const auto started = daemon_.start();
    ASSERT_TRUE(started) << started.error().message;
  }
  void TearDown() override {
    if (daemon_.running()) {
      EXPECT_EQ(daemon_.terminate(), 0);
    }
    if (HasFailure()) std::cerr << "zvoltd's log:\n" << daemon_.log() << '\n';
  }
  LibiscsiSession opened(int lun, const std::string& target = kTargetName) {
    auto session = LibiscsiSession::open(daemon_.url(lun, target));
    EXPECT_TRUE(session) << session.error().message;
    if (!session) return {};
    session->command(test_unit_ready());
    return std::move(*session);
  }
  // The last LBA; 0 when the command failed.
  static uint64_t capacity_of(LibiscsiSession& session) {
    const ScsiResult result = session.command(read_capacity16(), 32);
    EXPECT_TRUE(result.good() && result.data.size() >= 12) << result.text();
    return result.data.size() < 12 ? 0 : get64(result.data.data());
  }
  std::string path(const std::string& name) const { return daemon_.directory().file(name); }

  Daemon daemon_;
};

TEST_F(LunKinds, ManyLunsKeepTheirDataApart) {
  constexpr int kLuns = 40;
  std::vector<std::string> luns;
  for (int i = 0; i < kLuns; ++i)
    luns.push_back("{ lun: " + std::to_string(i * 6) + ", name: m" + std::to_string(i) + ", memory: 1MiB }");
  start(luns);
  LibiscsiSession session = opened(0);
  const ScsiResult list = session.command(report_luns(4096), 4096);
  ASSERT_TRUE(list.good()) << list.text();
  EXPECT_EQ(get32(list.data.data()), kLuns * 8u);
  for (int i = 0; i < kLuns; ++i) {
    LibiscsiSession at = opened(i * 6);
    ASSERT_TRUE(at.write(4096, pattern(4096, 100 + i)).good()) << "LUN " << i * 6;
  }
  for (int i = 0; i < kLuns; ++i)
    EXPECT_TRUE(opened(i * 6).read(4096, 4096).data == pattern(4096, 100 + i)) << "LUN " << i * 6;
}

TEST_F(LunKinds, ProvisionedFileIsSparseAndKeepsItsData) {
  start({"{ lun: 0, name: f, file: " + path("new.img") + ", provision: { size: 1GiB } }"});
  struct stat status {};
  ASSERT_EQ(::stat(path("new.img").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 1 << 30);
  EXPECT_LT(status.st_blocks, 2048) << "created sparse";
  const Bytes data = pattern(1 << 20, 1);
  ASSERT_TRUE(opened(0).write((1 << 30) - (1 << 20), data).good());
  ASSERT_EQ(daemon_.terminate(), 0);
  const auto restarted = daemon_.start();
  ASSERT_TRUE(restarted) << restarted.error().message;
  EXPECT_TRUE(opened(0).read((1 << 30) - (1 << 20), 1 << 20).data == data);
}

TEST_F(LunKinds, ExistingFileKeepsItsSize) {
  write_file(path("old.img"), std::string(1 << 20, 'x'));
  start({"{ lun: 0, name: f, file: " + path("old.img") + ", provision: { size: 1GiB } }"});
  LibiscsiSession session = opened(0);
  EXPECT_EQ(capacity_of(session), (1u << 20) / 512 - 1);
  EXPECT_TRUE(session.read(0, 512).data == Bytes(512, 'x'));
}

TEST_F(LunKinds, ReadOnlyLunSaysSoAndRefusesWrites) {
  write_file(path("iso.img"), std::string(1 << 20, 'r'));
  ASSERT_EQ(::chmod(path("iso.img").c_str(), 0444), 0);
  start({"{ lun: 0, name: iso, file: " + path("iso.img") + ", read_only: true }"});
  LibiscsiSession session = opened(0);
  EXPECT_TRUE(session.read(0, 4096).data == Bytes(4096, 'r'));
  const ScsiResult mode = session.command(mode_sense6(0x3f, 255), 255);
  ASSERT_TRUE(mode.good()) << mode.text();
  EXPECT_EQ(mode.data[2] & 0x80, 0x80) << "WP of the device-specific parameter";
  EXPECT_EQ(session.write(0, Bytes(512)).sense, "07/27/00");
  EXPECT_EQ(session.command_out(unmap(24), unmap_list(0, 8)).sense, "07/27/00");
  EXPECT_EQ(session.command_out(write_same16(0, 8, 0), Bytes(512)).sense, "07/27/00");
  EXPECT_TRUE(session.command(synchronize_cache10()).good());
  EXPECT_EQ(read_file(path("iso.img")), std::string(1 << 20, 'r'));
}

TEST_F(LunKinds, FourKilobyteBlocks) {
  start({"{ lun: 0, name: k, file: " + path("4k.img") + ", block_size: 4096, provision: { size: 64MiB } }"});
  LibiscsiSession session = opened(0);
  session.set_block_size(4096);
  const ScsiResult capacity = session.command(read_capacity16(), 32);
  ASSERT_TRUE(capacity.good()) << capacity.text();
  EXPECT_EQ(get64(capacity.data.data()), (64u << 20) / 4096 - 1);
  EXPECT_EQ(get32(capacity.data.data() + 8), 4096u);
  for (const uint32_t blocks : {1u, 3u, 64u, 257u}) {
    const Bytes data = pattern(blocks * 4096, blocks);
    ASSERT_TRUE(session.write(blocks * 4096, data).good());
    EXPECT_TRUE(session.read(blocks * 4096, blocks * 4096).data == data);
  }
}

TEST_F(LunKinds, SizeThatIsNoMultipleOfTheBlockIsRoundedDown) {
  write_file(path("odd.img"), std::string((1 << 20) + 700, 'o'));
  start({"{ lun: 0, name: odd, file: " + path("odd.img") + " }"});
  LibiscsiSession session = opened(0);
  EXPECT_EQ(capacity_of(session), (1u << 20) / 512);
  const Bytes data = pattern(512, 3);
  ASSERT_TRUE(session.write(1 << 20, data).good()) << "the last whole block";
  EXPECT_TRUE(session.read(1 << 20, 512).data == data);
  EXPECT_EQ(session.command(read16((1 << 20) / 512 + 1, 1), 512).sense, "05/21/00");
  EXPECT_EQ(std::filesystem::file_size(path("odd.img")), (1u << 20) + 700);
}

TEST_F(LunKinds, OneVolumeOfTwoTargetsIsOneDisk) {
  daemon_.config().more_yaml = "volumes:\n  shared: { memory: 8MiB }\n";
  daemon_.config().more_targets = {"{ name: " + std::string(kSecondTarget) +
                                   ", luns: [ { lun: 5, volume: shared, read_only: true } ] }"};
  start({"{ lun: 0, volume: shared }"});
  LibiscsiSession first = opened(0), second = opened(5, kSecondTarget);
  const Bytes data = pattern(4096, 4);
  ASSERT_TRUE(first.write(0, data).good());
  EXPECT_TRUE(second.read(0, 4096).data == data);
  EXPECT_EQ(second.write(0, data).sense, "07/27/00") << "read-only through this mapping";
  const ScsiResult serial = first.command(inquiry(255, true, 0x80), 255);
  EXPECT_TRUE(serial.good() && serial.data == second.command(inquiry(255, true, 0x80), 255).data) << "one identity";
}

TEST_F(LunKinds, LunZeroMayBeMissing) {
  start({"{ lun: 3, name: three, memory: 8MiB }"});
  LibiscsiSession session = opened(3);
  const ScsiResult list = session.command_lun(0, report_luns(256), 256);
  ASSERT_TRUE(list.good()) << list.text();
  EXPECT_EQ(get32(list.data.data()), 8u);
  EXPECT_EQ(list.data[9], 3);
  EXPECT_TRUE(session.write(0, pattern(512, 9)).good());
}

TEST_F(LunKinds, OneTargetsLunsAreNotSeenThroughAnother) {
  daemon_.config().more_targets = {"{ name: " + std::string(kSecondTarget) +
                                   ", luns: [ { lun: 0, name: other, memory: 16MiB } ] }"};
  start({"{ lun: 0, name: first, memory: 8MiB }"});
  ASSERT_TRUE(opened(0).write(0, pattern(512, 1)).good());
  LibiscsiSession session = opened(0, kSecondTarget);
  EXPECT_EQ(capacity_of(session), (16u << 20) / 512 - 1);
  EXPECT_TRUE(session.read(0, 512).data == Bytes(512)) << "the other target's block";
  const auto targets = discover(daemon_.portal());
  ASSERT_TRUE(targets) << targets.error().message;
  EXPECT_EQ(targets->size(), 2u);
}

}  // namespace
}  // namespace zvolt::test
