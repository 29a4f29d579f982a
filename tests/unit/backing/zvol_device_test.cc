// Finding a zvol's device with and without udev's links, and telling who else uses a device. The trees below /sys, /dev
// and /proc are made up; a "device" is a file with the dataset's name in it, read where BLKZNAME would be asked.
#include "backing/zfs/zvol_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "backing/zfs/child.h"
#include "backing/zfs/pool_label.h"
#include "tests/support/temp_dir.h"

namespace zvolt::backing {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

class ZvolDevice : public testing::Test {
 protected:
  ZvolDevice() {
    search.dev_root = dir.file("zvol");
    search.sys_block = dir.file("sys");
    search.dev_nodes = dir.file("dev");
    search.name_of = [this](int fd) -> Result<std::string> {
      ++asked;
      char name[256];
      const ssize_t got = read(fd, name, sizeof name);
      if (got <= 0) return Error{ENXIO, "gone"};
      return std::string(name, static_cast<size_t>(got));
    };
  }

  std::string device(const std::string& node, const std::string& name) {
    fs::create_directories(dir.path() / "sys" / node);
    write(dir.path() / "dev" / node, name);
    return dir.file("dev/" + node);
  }
  void link(const std::string& name, const std::string& node) {
    const fs::path at = dir.path() / "zvol" / name;
    fs::create_directories(at.parent_path());
    fs::remove(at);
    fs::create_symlink(dir.path() / "dev" / node, at);
  }

  test::TempDir dir;
  DeviceSearch search;
  int asked = 0;
};

TEST_F(ZvolDevice, TheLinkIsTakenWhenTheDeviceAgrees) {
  device("zd0", "tank/other");
  const std::string node = device("zd16", "tank/a");
  link("tank/a", "zd16");
  const auto found = find_zvol_device("tank/a", search);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(*found, node);
  EXPECT_EQ(asked, 1);
}

TEST_F(ZvolDevice, BlanksAreAPlusInTheLink) {
  const std::string node = device("zd16", "tank/my disk");
  link("tank/my+disk", "zd16");
  fs::remove_all(dir.path() / "sys");
  EXPECT_EQ(*find_zvol_device("tank/my disk", search), node);
}

TEST_F(ZvolDevice, AStaleLinkIsNotBelieved) {
  device("zd0", "tank/renamed");
  const std::string node = device("zd16", "tank/a");
  link("tank/a", "zd0");
  EXPECT_EQ(*find_zvol_device("tank/a", search), node);
}

TEST_F(ZvolDevice, WithoutUdevAllDevicesAreAsked) {
  device("zd0", "tank/x");
  device("zd16", "");  // it is going away
  device("sda", "tank/a");
  const std::string node = device("zd32", "tank/a");
  EXPECT_EQ(*find_zvol_device("tank/a", search), node);
}

TEST_F(ZvolDevice, NoDeviceIsENOENT) {
  device("zd0", "tank/ab");
  EXPECT_EQ(find_zvol_device("tank/a", search).error().code, ENOENT);
  fs::remove_all(dir.path() / "sys");
  EXPECT_EQ(find_zvol_device("tank/a", search).error().code, ENOENT);
}

TEST_F(ZvolDevice, ALinkIsEnoughWhereTestsSaySo) {
  const std::string node = device("loop7", "");
  link("tank/a", "loop7");
  search.trust_links = true;
  EXPECT_EQ(*find_zvol_device("tank/a", search), node);
}

TEST_F(ZvolDevice, FiveHundredVolumesAreFoundByOneScan) {
  for (int i = 0; i < 500; ++i) device("zd" + std::to_string(i * 16), "tank/v" + std::to_string(i));
  ZvolDevices devices(search);
  for (int i = 0; i < 500; ++i) {
    const auto found = devices.find("tank/v" + std::to_string(i));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, dir.file("dev/zd" + std::to_string(i * 16)));
  }
  EXPECT_LE(asked, 1000);  // the scan, and each answer checked
}

TEST_F(ZvolDevice, ARenameIsSeenThoughTheScanIsFresh) {
  device("zd0", "tank/a");
  const std::string other = device("zd16", "tank/b");
  ZvolDevices devices(search);
  ASSERT_TRUE(devices.find("tank/a").ok());
  device("zd0", "tank/c");
  device("zd16", "tank/a");
  EXPECT_EQ(*devices.find("tank/a"), other);
}

TEST_F(ZvolDevice, WhatIsMissingIsNotScannedForAgainAtOnce) {
  for (int i = 0; i < 10; ++i) device("zd" + std::to_string(i), "tank/v" + std::to_string(i));
  ZvolDevices devices(search);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(devices.find("tank/no").error().code, ENOENT);
  EXPECT_LE(asked, 30);
}

TEST(ZvolName, OnlyAZvolTellsOne) {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(zvol_name_of(fd).error().code, ENOTTY);
  close(fd);
  EXPECT_EQ(zvol_name_of(-1).error().code, EBADF);
}

class DeviceUse : public testing::Test {
 protected:
  DeviceUse() {
    check.sys_block = dir.file("sys");
    check.proc = dir.file("proc");
    check.target_core = dir.file("core");
    write(node, "");
    write(dir.path() / "sys/zd16/dev", "230:16\n");
    write(dir.path() / "sys/zd16/size", "1000\n");
  }
  std::string reason() const {
    const Result<void> unused = check_zvol_unused(node, check);
    if (unused.ok()) return "";
    EXPECT_EQ(unused.error().code, EBUSY);
    return unused.error().message;
  }

  test::TempDir dir;
  UseCheck check;
  std::string node = dir.file("dev/zd16");
};

TEST_F(DeviceUse, AFreeDeviceIsFree) {
  EXPECT_EQ(reason(), "");
}

TEST_F(DeviceUse, AMissingDeviceIsNotBusy) {
  EXPECT_EQ(check_zvol_unused(dir.file("dev/zd99"), check).error().code, ENOENT);
}

TEST_F(DeviceUse, AMountedPartitionIsToldWithItsPlace) {
  struct stat st {};
  ASSERT_EQ(stat("/proc", &st), 0);
  write(dir.path() / "sys/zd16/zd16p1/partition", "1\n");
  write(dir.path() / "sys/zd16p1/dev",
        std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev)) + "\n");
  EXPECT_EQ(reason(), "/dev/zd16p1 is mounted at /proc");
}

TEST_F(DeviceUse, SwapIsTold) {
  write(dir.path() / "proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/zd16    partition\t1\t0\t-2\n");
  EXPECT_EQ(reason(), "/dev/zd16 is used as swap");
}

TEST_F(DeviceUse, WhatIsBuiltOnItIsTold) {
  fs::create_directories(dir.path() / "sys/zd16/holders/dm-3");
  write(dir.path() / "sys/dm-3/dm/name", "vg0-root\n");
  EXPECT_EQ(reason(), "/dev/zd16 is used by dm-3 (vg0-root)");
}

TEST_F(DeviceUse, TheKernelsTargetIsTold) {
  write(dir.path() / "core/iblock_0/disk one/udev_path", fs::canonical(node).string() + "\n");
  write(dir.path() / "core/iblock_0/hba_info", "x\n");
  EXPECT_NE(reason().find("served by the kernel's target as 'disk one'"), std::string::npos);
}

// The node of these two must be below /dev: any will do.
TEST_F(DeviceUse, AProcessThatWritesIsTold) {
  node = "/dev/full";
  fs::create_directories(dir.path() / "proc/4711/fd");
  fs::create_symlink(node, dir.path() / "proc/4711/fd/9");
  write(dir.path() / "proc/4711/fdinfo/9", "pos:\t0\nflags:\t02100002\nmnt_id:\t5\n");
  write(dir.path() / "proc/4711/comm", "qemu-system-x86\n");
  EXPECT_EQ(reason(), "/dev/full is open for writing in process 4711 (qemu-system-x86)");
}

TEST_F(DeviceUse, OneThatOnlyReadsIsNoReason) {
  node = "/dev/full";
  fs::create_directories(dir.path() / "proc/4711/fd");
  fs::create_symlink(node, dir.path() / "proc/4711/fd/9");
  write(dir.path() / "proc/4711/fdinfo/9", "pos:\t0\nflags:\t02100000\nmnt_id:\t5\n");
  EXPECT_EQ(reason(), "");
}

TEST_F(DeviceUse, WeAreNoReasonOurselves) {
  node = "/dev/full";
  check.proc = "/proc";
  const int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(reason(), "");
  close(fd);
}

void put_word(std::vector<uint8_t>& out, size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

void put_string(std::vector<uint8_t>& out, const std::string& text) {
  put_word(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
  while (out.size() % 4 != 0) out.push_back(0);
}

void put_pair(std::vector<uint8_t>& out, const std::string& name, uint32_t type, const std::vector<uint8_t>& value) {
  std::vector<uint8_t> pair;
  put_string(pair, name);
  put_word(pair, type);
  put_word(pair, 1);
  pair.insert(pair.end(), value.begin(), value.end());
  put_word(out, pair.size() + 8);
  put_word(out, 64);
  out.insert(out.end(), pair.begin(), pair.end());
}

std::vector<uint8_t> label_of(const std::string& pool) {
  std::vector<uint8_t> list = {1, 1, 0, 0};
  put_word(list, 0);
  put_word(list, 1);
  put_pair(list, "version", 8, {0, 0, 0, 0, 0, 0, 0x13, 0x88});
  std::vector<uint8_t> name;
  put_string(name, pool);
  put_pair(list, "name", 9, name);
  put_word(list, 0);
  put_word(list, 0);
  return list;
}

TEST(PoolLabel, ThePoolsNameIsFound) {
  EXPECT_EQ(nvlist_string(label_of("backup"), "name"), "backup");
  EXPECT_EQ(nvlist_string(label_of("backup"), "version"), "");  // no string
  EXPECT_EQ(nvlist_string(label_of("backup"), "hostname"), "");
}

TEST(PoolLabel, NoTruncatedOrDamagedLabelIsReadBeyondItsEnd) {
  const std::vector<uint8_t> good = label_of("backup");
  for (size_t length = 0; length < good.size(); ++length) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    const std::string name = nvlist_string(cut, "name");
    EXPECT_TRUE(name.empty() || name == "backup");
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (const uint8_t value : {uint8_t{0}, uint8_t{0x7f}, uint8_t{0xff}}) {
      std::vector<uint8_t> damaged = good;
      damaged[at] = value;
      EXPECT_LT(nvlist_string(damaged, "name").size(), 300u);
    }
  }
}

// A claimed device says which pool, when it or its first partition has a label. Needs a loop device, so root.
class DeviceClaim : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may make a loop device";
    labelled(dir.file("disk"), "backup");
    const auto loop = run_child({"losetup", "-f", "--show", dir.file("disk")});
    if (!loop || loop->status != 0) GTEST_SKIP() << "this kernel gives no loop device";
    node = loop->out.substr(0, loop->out.size() - 1);
  }
  void TearDown() override {
    if (!node.empty()) {
      EXPECT_EQ(run_child({"losetup", "-d", node})->status, 0);
    }
  }
  static void labelled(const std::string& file, const std::string& pool) {
    const std::vector<uint8_t> label = label_of(pool);
    const int raw = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(ftruncate(raw, 1 << 20), 0);
    ASSERT_EQ(pwrite(raw, label.data(), label.size(), kLabelListOffset), static_cast<ssize_t>(label.size()));
    close(raw);
  }

  test::TempDir dir;
  std::string node;
};

TEST_F(DeviceClaim, AClaimedDeviceSaysWhichPool) {
  UseCheck check;
  check.proc = dir.file("proc");  // empty: losetup of a test beside this one opens every loop device for a moment
  EXPECT_TRUE(check_zvol_unused(node, check).ok());  // a guest's own pool is no reason
  const int claim = open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  const Result<void> unused = check_zvol_unused(node, check);
  close(claim);
  ASSERT_FALSE(unused.ok());
  EXPECT_NE(unused.error().message.find("most likely by pool 'backup'"), std::string::npos) << unused.error().message;
}

TEST_F(DeviceClaim, ThePoolOfAWholeDiskIsOnItsFirstPartition) {
  const std::string disk = dir.file("zd16");
  ASSERT_EQ(symlink(node.c_str(), disk.c_str()), 0);
  ASSERT_EQ(truncate(dir.file("disk").c_str(), 0), 0);  // no label on the disk itself
  ASSERT_EQ(truncate(dir.file("disk").c_str(), 1 << 20), 0);
  labelled(dir.file("zd16p1"), "inner");
  UseCheck check;
  check.sys_block = dir.file("sys");
  fs::create_directories(dir.file("sys/zd16/zd16p1"));
  std::ofstream(dir.file("sys/zd16/zd16p1/partition")) << "1\n";
  EXPECT_EQ(zvol_claimant(disk, check), "");
  const int claim = open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  EXPECT_EQ(zvol_claimant(disk, check), "is claimed by the kernel or another target, most likely by pool 'inner'");
  close(claim);
}

}  // namespace
}  // namespace zvolt::backing
