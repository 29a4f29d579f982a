// Kinds of devices and file systems below a LUN, through the real daemon: 4096-byte loop devices under LUNs of both
// block sizes, mounted devices, read-only files, tmpfs and ext4, odd sizes. Root only.
#include <filesystem>
#include <fstream>

#include "tests/integration/controlled_daemon.h"

namespace zvolt::test {
namespace {

class DeviceKinds : public ControlledDaemon {
 protected:
  void SetUp() override {
    if (!may_use_devices()) GTEST_SKIP() << "needs root, loop devices and mounts";
  }
  void make_disk(const std::string& name, uint64_t bytes) const {
    std::ofstream(path(name)).close();
    std::filesystem::resize_file(path(name), bytes);
  }
  // An MBR with one partition, from block 2048 on.
  void make_partition_table(const std::string& name) const {
    constexpr uint32_t kFirst = 2048, kBlocks = 100'000;
    Bytes mbr(512, 0);
    uint8_t* entry = &mbr[446];
    entry[4] = 0x83;
    for (int i = 0; i < 4; ++i) {
      entry[8 + i] = static_cast<uint8_t>(kFirst >> 8 * i);
      entry[12 + i] = static_cast<uint8_t>(kBlocks >> 8 * i);
    }
    mbr[510] = 0x55;
    mbr[511] = 0xaa;
    std::fstream disk(path(name), std::ios::in | std::ios::out | std::ios::binary);
    disk.write(reinterpret_cast<const char*>(mbr.data()), static_cast<std::streamsize>(mbr.size()));
  }
  // Verified I/O of pieces of `bytes` at odd places, some of them side by side in one 4096-byte block.
  static void write_pieces(LibiscsiSession& session, uint32_t bytes) {
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(session.write(i * bytes * 3, pattern(bytes, i)).good()) << i;
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(session.read(i * bytes * 3, bytes).data == pattern(bytes, i)) << i;
    EXPECT_TRUE(session.read(bytes, bytes).data == Bytes(bytes, 0)) << "beside a piece nothing changes";
  }
  void load_for_a_moment(int lun) const {
    const CommandResult load = run_command({program("zvolt-verify-loop"), "--url", daemon_.url(lun), "--sessions", "4",
                                            "--seconds", "3", "--span", std::to_string(16 << 20)},
                                           std::chrono::seconds(100));
    EXPECT_EQ(load.status, 0) << load.output;
  }
};

TEST_F(DeviceKinds, LoopDeviceOf4096ByteBlocksUnderBothBlockSizes) {
  make_disk("one", 64 << 20);
  make_disk("two", 64 << 20);
  const LoopDevice one(path("one"), 4096), two(path("two"), 4096);
  if (!one.attached() || !two.attached()) GTEST_SKIP() << "no loop device of 4096-byte blocks to be had";
  daemon_.config().luns = {"{ lun: 0, name: a, device: " + one.path() + ", block_size: 512 }",
                           "{ lun: 1, name: b, device: " + two.path() + ", block_size: 4096 }"};
  start();
  LibiscsiSession small = opened(0, 1), large = opened(1, 2);
  large.set_block_size(4096);
  const Bytes small_capacity = small.command(read_capacity16(), 32).data;
  const Bytes large_capacity = large.command(read_capacity16(), 32).data;
  ASSERT_EQ(small_capacity.size(), 32u);
  ASSERT_EQ(large_capacity.size(), 32u);
  EXPECT_EQ(get32(&small_capacity[8]), 512u);
  EXPECT_EQ(small_capacity[13] & 15, 3) << "8 logical blocks per physical block";
  EXPECT_EQ(get32(&large_capacity[8]), 4096u);
  write_pieces(small, 512);
  write_pieces(large, 4096);
  load_for_a_moment(0);
  load_for_a_moment(1);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DeviceKinds, MountedDeviceIsNotServedAndItsMountPointIsTold) {
  make_disk("disk", 64 << 20);
  const LoopDevice loop(path("disk"));
  ASSERT_TRUE(loop.attached());
  ASSERT_EQ(run_command({"mkfs.ext4", "-q", loop.path()}).status, 0);
  std::filesystem::create_directory(path("mnt"));
  daemon_.config().luns = {"{ lun: 0, name: d, device: " + loop.path() + " }"};
  {
    const Mount mount({loop.path()}, path("mnt"));
    ASSERT_TRUE(mount.mounted());
    start();
    EXPECT_EQ(lun("d").at("presence"), "refused");
    EXPECT_NE(lun("d").at("reason").get<std::string>().find("mounted at " + path("mnt")), std::string::npos)
        << lun("d").dump(2);
    EXPECT_EQ(opened(0).command(read10(0, 8), 4096).sense, "02/04/01");
  }
  EXPECT_TRUE(becomes("d", "serving")) << "once it is unmounted";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DeviceKinds, MountedPartitionKeepsTheWholeDiskFromBeingServed) {
  make_disk("disk", 64 << 20);
  make_partition_table("disk");
  const LoopDevice loop(path("disk"), 0, true);
  ASSERT_TRUE(loop.attached());
  run_command({"partx", "--add", loop.path()});  // for a kernel that reads no partition tables itself
  const std::string partition = loop.path() + "p1";
  if (!eventually([&] { return std::filesystem::exists(partition); }, std::chrono::seconds(3)))
    GTEST_SKIP() << "this kernel or /dev makes no partitions of loop devices";
  ASSERT_EQ(run_command({"mkfs.ext4", "-q", partition}).status, 0);
  std::filesystem::create_directory(path("mnt"));
  const Mount mount({partition}, path("mnt"));
  ASSERT_TRUE(mount.mounted());
  daemon_.config().luns = {"{ lun: 0, name: whole, device: " + loop.path() + " }",
                           "{ lun: 1, name: part, device: " + partition + " }"};
  start();
  for (const char* name : {"whole", "part"}) {
    EXPECT_EQ(lun(name).at("presence"), "refused") << name;
    EXPECT_NE(lun(name).at("reason").get<std::string>().find(path("mnt")), std::string::npos) << lun(name).dump(2);
  }
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DeviceKinds, FilesOnTmpfsAndExt4) {
  make_disk("disk", 128 << 20);
  const LoopDevice loop(path("disk"));
  ASSERT_TRUE(loop.attached());
  ASSERT_EQ(run_command({"mkfs.ext4", "-q", loop.path()}).status, 0);
  for (const char* point : {"ext4", "tmpfs"}) std::filesystem::create_directory(path(point));
  const Mount ext4({loop.path()}, path("ext4")), tmpfs({"-t", "tmpfs", "tmpfs"}, path("tmpfs"));
  ASSERT_TRUE(ext4.mounted() && tmpfs.mounted());
  daemon_.config().luns = {"{ lun: 0, name: e, file: " + path("ext4/e.img") + ", provision: { size: 64MiB } }",
                           "{ lun: 1, name: t, file: " + path("tmpfs/t.img") + ", provision: { size: 64MiB } }"};
  start();
  for (int number = 0; number < 2; ++number) {
    LibiscsiSession session = opened(number, static_cast<uint32_t>(number + 1));
    write_pieces(session, 512);
    load_for_a_moment(number);
  }
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DeviceKinds, ReadOnlyFileIsReadAndNotWritten) {
  write_file(path("iso"), std::string(1 << 20, 'x'));
  daemon_.config().luns = {"{ lun: 0, name: iso, file: " + path("iso") + ", read_only: true }"};
  start();
  LibiscsiSession session = opened(0);
  EXPECT_TRUE(session.read(0, 4096).data == Bytes(4096, 'x'));
  EXPECT_EQ(session.write(0, pattern(4096, 1)).sense, "07/27/00");
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_EQ(read_file(path("iso")), std::string(1 << 20, 'x'));
}

TEST_F(DeviceKinds, OddSizeIsRoundedDownToWholeBlocks) {
  write_file(path("odd"), std::string((1 << 20) + 700, 'x'));
  daemon_.config().luns = {"{ lun: 0, name: odd, file: " + path("odd") + " }"};
  start();
  LibiscsiSession session = opened(0);
  const Bytes capacity = session.command(read_capacity16(), 32).data;
  ASSERT_EQ(capacity.size(), 32u);
  const uint64_t last = get64(capacity.data());
  EXPECT_EQ(last, ((1u << 20) + 700) / 512 - 1);
  EXPECT_TRUE(session.write(last * 512, pattern(512, 4)).good());
  EXPECT_TRUE(session.read(last * 512, 512).data == pattern(512, 4));
  EXPECT_EQ(session.read((last + 1) * 512, 512).sense, "05/21/00");
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_EQ(std::filesystem::file_size(path("odd")), (1u << 20) + 700) << "the rest is left alone";
}

}  // namespace
}  // namespace zvolt::test
