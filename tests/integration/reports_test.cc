// Public reports of lost data and lost hosts, replayed against the real daemon: disks that grow under their hosts, thin
// stores that run full, two targets that invent the same disk.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kMiB = 1 << 20;

// --- a disk that grows: hosts were told nothing, or the wrong thing ---

class GrowingDisk : public RunningDaemon {
 protected:
  GrowingDisk() {
    for (int lun = 0; lun < 4; ++lun) {
      const std::string name = "disk" + std::to_string(lun);
      std::filesystem::path path = daemon_.directory().file(name + ".img");
      write_file(path, "");
      std::filesystem::resize_file(path, 16 * kMiB);
      luns_.push_back("{ lun: " + std::to_string(lun) + ", name: " + name + ", file: " + path.string() + " }");
    }
    daemon_.config().luns = luns_;
  }
  // All four power-on attentions taken.
  RawClient quiet_client(uint64_t isid) {
    RawClient client = logged_in({}, isid);
    for (uint16_t lun = 1; lun < 4; ++lun) client.command_none(test_unit_ready(), lun);
    return client;
  }
  void resize(int lun, uint64_t bytes) {
    std::filesystem::resize_file(daemon_.directory().file("disk" + std::to_string(lun) + ".img"), bytes);
  }
  // The daemon looks at its stores every second: asks with a command that attentions do not stop.
  bool capacity_becomes(RawClient& client, uint16_t lun, uint64_t bytes) {
    const auto end = std::chrono::steady_clock::now() + kReplyLimit;
    RawClient other = logged_in({}, 0x8000000000dd);
    while (std::chrono::steady_clock::now() < end) {
      const Outcome outcome = other.command_in(read_capacity16(), 32, lun);
      if (outcome.good() && get64(outcome.data.data()) == bytes / 512 - 1) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    static_cast<void>(client);
    return false;
  }
  std::vector<std::string> luns_;
};

TEST_F(GrowingDisk, EveryHostIsToldOnceOfThatDiskAndOfNoOther) {
  std::array<RawClient, 2> hosts = {quiet_client(0x800000000011), quiet_client(0x800000000012)};
  resize(3, 32 * kMiB);
  ASSERT_TRUE(capacity_becomes(hosts[0], 3, 32 * kMiB));
  for (RawClient& host : hosts) {
    EXPECT_TRUE(host.command_in(inquiry(36), 36, 3).good()) << "does not take the attention";
    EXPECT_TRUE(host.command_in(report_luns(256), 256, 3).good()) << "nor does this";
    EXPECT_EQ(host.command_none(test_unit_ready(), 3).sense(), "06/2a/09");
    EXPECT_TRUE(host.command_none(test_unit_ready(), 3).good()) << "told once";
    for (uint16_t lun = 0; lun < 3; ++lun) EXPECT_TRUE(host.command_none(test_unit_ready(), lun).good()) << lun;
    const Bytes data = pattern(512, 9);
    EXPECT_TRUE(host.command_out(write10(32 * kMiB / 512 - 1, 1), data, 512, 3).good());
    EXPECT_EQ(host.command_in(read10(32 * kMiB / 512 - 1, 1), 512, 3).data, data);
  }
}

TEST_F(GrowingDisk, AShrunkDiskKeepsItsDataAndRefusesWhatIsBeyond) {
  RawClient host = quiet_client(0x800000000011);
  const Bytes data = pattern(4096, 4);
  ASSERT_TRUE(host.command_out(write10(0, 8), data, 4096, 2).good());
  resize(2, 8 * kMiB);
  ASSERT_TRUE(capacity_becomes(host, 2, 8 * kMiB));
  EXPECT_EQ(host.command_none(test_unit_ready(), 2).sense(), "06/2a/09");
  EXPECT_EQ(host.command_in(read10(8 * kMiB / 512, 1), 512, 2).sense(), "05/21/00");
  EXPECT_EQ(host.command_in(read10(0, 8), 4096, 2).data, data);
}

// --- a thin disk on a full store: silent loss, or errors that hosts repeat for ever ---

class ThinDiskOnFullStore : public RunningDaemon {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounting a small file system needs root";
    mount_point_ = daemon_.directory().file("small");
    std::filesystem::create_directory(mount_point_);
    ASSERT_EQ(mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, "size=64m"), 0) << std::strerror(errno);
    daemon_.config().luns = {"{ lun: 0, name: thin, file: " + mount_point_ + "/thin.img, provision: { size: 1GiB } }"};
    RunningDaemon::SetUp();
  }
  void TearDown() override {
    if (mount_point_.empty()) return;
    RunningDaemon::TearDown();
    EXPECT_EQ(umount(mount_point_.c_str()), 0) << std::strerror(errno);
  }
  std::string mount_point_;
};

TEST_F(ThinDiskOnFullStore, SaysSoKeepsWhatItHasAndGoesOnWhenSpaceIsFreed) {
  RawClient host = logged_in();
  const Bytes data = pattern(kMiB, 1);
  uint32_t good = 0;
  Outcome refused;
  for (; good < 128; ++good) {
    refused = host.command_out(write10(good * 2048, 2048), data);
    if (!refused.good()) break;
  }
  ASSERT_GT(good, 32u);
  ASSERT_LE(good, 64u) << "the store has 64 MiB";
  EXPECT_EQ(refused.sense(), "07/27/07");
  for (uint32_t i = 0; i < good; ++i) {
    ASSERT_TRUE(host.command_in(read10(i * 2048, 2048), kMiB).data == data) << "MiB " << i;
  }
  EXPECT_TRUE(host.command_in(read10(1000 * 2048, 8), 4096).data == Bytes(4096)) << "never written";
  EXPECT_TRUE(host.command_out(write10(0, 8), pattern(4096, 2), 4096).good()) << "tmpfs writes over what it has";
  EXPECT_TRUE(host.command_none(cdb10(0x35, 0, 0)).good()) << "SYNCHRONIZE CACHE";
  Bytes list(24);
  put16(&list[0], 22);
  put16(&list[2], 16);
  put64(&list[8], 0);
  put32(&list[16], 16 * 2048);
  Cdb unmap(10);
  unmap[0] = 0x42;
  put16(&unmap[7], 24);
  EXPECT_TRUE(host.command_out(unmap, list, 24).good());
  EXPECT_TRUE(host.command_out(write10(good * 2048, 2048), data).good()) << "without a restart";
  EXPECT_TRUE(host.command_in(read10(good * 2048, 2048), kMiB).data == data);
}

class ThinDiskFullAtFlush : public RunningDaemon {
 protected:
  ThinDiskFullAtFlush()
      : RunningDaemon({.luns = {"{ lun: 0, name: thin, memory: 16MiB, faults: [ { op: flush, action: error, error: 28, "
                                "count: 1 } ] }"},
                       .more_targets = {},
                       .more_yaml = {},
                       .arguments = {"--test-stores"}}) {}
};

TEST_F(ThinDiskFullAtFlush, TheFlushSaysSo) {
  RawClient host = logged_in();
  ASSERT_TRUE(host.command_out(write10(0, 8), pattern(4096, 2), 4096).good());
  EXPECT_EQ(host.command_none(cdb10(0x35, 0, 0)).sense(), "07/27/07");
}

// --- two targets that invent the same disk: multipath merged them ---

std::pair<Bytes, Bytes> identity_of(Daemon& daemon, const std::string& target, uint16_t lun) {
  RawClient client;
  EXPECT_TRUE(client.connect(daemon.port()));
  LoginOptions options;
  options.target = target;
  EXPECT_TRUE(client.login(options).ok());
  client.command_none(test_unit_ready(), lun);
  return {client.command_in(inquiry(255, true, 0x80), 255, lun).data,
          client.command_in(inquiry(255, true, 0x83), 255, lun).data};
}

// Logical unit designators (association 0) of page 83h, without those of the port.
std::vector<Bytes> unit_designators(const Bytes& page) {
  std::vector<Bytes> out;
  for (size_t at = 4; at + 4 <= page.size() && at + 4 + page[at + 3] <= page.size(); at += 4u + page[at + 3]) {
    if ((page[at + 1] & 0x30) == 0)
      out.emplace_back(page.begin() + static_cast<long>(at), page.begin() + static_cast<long>(at) + 4 + page[at + 3]);
  }
  return out;
}

TEST(Identity, TwoDaemonsWithTheSameConfigurationServeDifferentDisks) {
  TempDir files;
  Daemon one({.luns = {"{ lun: 0, name: a, file: " + files.file("one.img") + ", provision: { size: 16MiB } }"},
              .more_targets = {},
              .more_yaml = {},
              .arguments = {}});
  Daemon two({.luns = {"{ lun: 0, name: a, file: " + files.file("two.img") + ", provision: { size: 16MiB } }"},
              .more_targets = {},
              .more_yaml = {},
              .arguments = {}});
  ASSERT_TRUE(one.start());
  ASSERT_TRUE(two.start());
  const auto first = identity_of(one, kTargetName, 0);
  const auto second = identity_of(two, kTargetName, 0);
  ASSERT_FALSE(unit_designators(first.second).empty());
  EXPECT_NE(first.first, second.first);
  EXPECT_NE(unit_designators(first.second), unit_designators(second.second));
  EXPECT_EQ(one.terminate(), 0);
  EXPECT_EQ(two.terminate(), 0);
}

TEST(Identity, StaysThroughEveryEditOfTheConfiguration) {
  TempDir files;
  const std::string a = "name: a, file: " + files.file("a.img") + ", provision: { size: 16MiB }";
  const std::string b = "name: b, file: " + files.file("b.img") + ", provision: { size: 16MiB }";
  Daemon daemon({.luns = {"{ lun: 0, " + a + " }", "{ lun: 1, " + b + " }"},
                 .more_targets = {},
                 .more_yaml = {},
                 .arguments = {}});
  ASSERT_TRUE(daemon.start());
  const auto before = identity_of(daemon, kTargetName, 0);
  EXPECT_NE(before.first, identity_of(daemon, kTargetName, 1).first);
  ASSERT_EQ(daemon.terminate(), 0);

  std::filesystem::resize_file(files.file("a.img"), 32 * kMiB);
  daemon.config().luns = {"{ lun: 3, " + b + " }", "{ lun: 7, " + a + " }"};
  const std::string other = "iqn.2026-11.org.example:renamed";
  daemon.config().more_targets = {"{ name: " + other + ", luns: [ { lun: 5, volume: a } ] }"};
  ASSERT_TRUE(daemon.start());
  const auto after = identity_of(daemon, kTargetName, 7);
  EXPECT_EQ(after, before) << "number, order and size are no part of it";
  const auto elsewhere = identity_of(daemon, other, 5);
  EXPECT_EQ(elsewhere.first, before.first);
  EXPECT_EQ(unit_designators(elsewhere.second), unit_designators(before.second));
  EXPECT_NE(elsewhere.second, before.second) << "the target port is another";
  EXPECT_EQ(daemon.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
