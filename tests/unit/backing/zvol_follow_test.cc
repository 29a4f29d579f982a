// FollowedZvol and ZvolCatalog with the fake zfs: where a zvol's device is, whether it may be served, what errors mean,
// and how many commands that takes. Devices are files whose first line is the dataset's name (see zvol_device_test.cc).
#include "backing/zfs/zvol.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/unit/backing/fake_pool.h"

namespace zvolt::backing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakePool;

class FollowZvol : public testing::Test {
 protected:
  FollowZvol() {
    DeviceSearch search;
    search.dev_root = pool.file("zvol");
    search.sys_block = pool.file("no_sys");
    search.name_of = [this](int device) -> Result<std::string> {
      char path[4096];
      const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(device)).c_str(), path, sizeof path);
      const std::string name(path, static_cast<size_t>(length));
      return name.substr(fs::canonical(pool.file("files")).string().size() + 1);
    };
    UseCheck uses;
    uses.proc = pool.file("no_proc");
    host = std::make_shared<ZvolHost>(FakePool::options(), search, uses);
    host->explain_properties = host->explain_health = seconds(20);  // a loaded machine; the times have their own test
  }

  void create(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"create", "-s", "-V", "64M"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back(name);
    pool.zfs(arguments);
  }
  std::shared_ptr<FollowedZvol> follow(const std::string& name, bool allow_sync_disabled = false) {
    return std::make_shared<FollowedZvol>(ZvolOptions{.name = name, .allow_sync_disabled = allow_sync_disabled}, host);
  }
  // locate, open and admit as a FollowedStore does.
  Result<void> open_it(FollowedZvol& zvol) {
    close_it();
    const Result<std::string> device = zvol.locate();
    if (!device) return device.error();
    fd = open(device->c_str(), O_RDWR | O_CLOEXEC);
    return zvol.admit(fd);
  }
  void close_it() {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  ~FollowZvol() override { close_it(); }

  static IoRequest request(IoKind kind, uint64_t length = 4096) {
    IoRequest made;
    made.kind = kind;
    made.length = length;
    return made;
  }
  // What was asked of ZFS is forgotten, as after a second.
  void later() { host->catalog.forget("tank"); }

  FakePool pool;
  std::shared_ptr<ZvolHost> host;
  int fd = -1;
};

TEST_F(FollowZvol, AVolumeIsFoundAndAdmitted) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  const Result<void> opened = open_it(*zvol);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE(zvol->guid(), 0u);
  ASSERT_TRUE(zvol->properties().has_value());
  EXPECT_EQ(zvol->properties()->volblocksize, 16384u);
}

TEST_F(FollowZvol, ItsOptionsAreThoseOfAFollowedStore) {
  create("tank/a");
  FollowOptions options;
  {
    const auto zvol =
        std::make_shared<FollowedZvol>(ZvolOptions{.name = "tank/a", .read_only = true, .force = true}, host);
    options = zvol->follow_options();
  }  // the options keep it alive
  EXPECT_EQ(options.name, "tank/a");
  EXPECT_TRUE(options.read_only);
  EXPECT_TRUE(options.force);
  const auto device = options.locate();
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(fs::canonical(*device), fs::canonical(pool.file("files/tank/a")));
  EXPECT_EQ(options.explain(EIO, request(IoKind::read)), EIO);
}

TEST_F(FollowZvol, WhyThereIsNoDeviceIsSaid) {
  const auto reason = [&](const std::string& name) {
    later();
    const auto device = follow(name)->locate();
    EXPECT_FALSE(device.ok());
    EXPECT_EQ(device.error().code, ENOENT);
    return device.error().message;
  };
  create("tank/hidden", {"-o", "volmode=none"});
  pool.zfs({"create", "tank/fs"});
  pool.write("no_devices", "");
  create("tank/late");
  EXPECT_NE(reason("tank/no").find("does not exist"), std::string::npos);
  EXPECT_NE(reason("other/a").find("pool 'other' is not imported"), std::string::npos);
  EXPECT_NE(reason("tank/hidden").find("volmode is none"), std::string::npos);
  EXPECT_NE(reason("tank/fs").find("is a filesystem, not a volume"), std::string::npos);
  EXPECT_NE(reason("tank/late").find("has not appeared yet"), std::string::npos);
  pool.zpool({"export", "tank"});
  EXPECT_NE(reason("tank/late").find("pool 'tank' is not imported"), std::string::npos);
}

TEST_F(FollowZvol, ALateDeviceIsFoundWhenItComes) {
  pool.write("no_devices", "");
  create("tank/a");
  const auto zvol = follow("tank/a");
  EXPECT_FALSE(zvol->locate().ok());
  fs::remove(pool.file("no_devices"));
  pool.zfs({"set", "volmode=dev", "tank/a"});
  EXPECT_TRUE(open_it(*zvol).ok());
}

TEST_F(FollowZvol, SyncDisabledIsRefusedUnlessTheVolumePromisesNothing) {
  create("tank/a", {"-o", "sync=disabled"});
  const Result<void> refused = open_it(*follow("tank/a"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("sync=disabled"), std::string::npos);
  EXPECT_TRUE(open_it(*follow("tank/a", true)).ok());
}

TEST_F(FollowZvol, SyncDisabledIsNoticedWhileServing) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  ASSERT_TRUE(open_it(*zvol).ok());
  EXPECT_TRUE(zvol->check(fd).servable.ok());
  pool.zfs({"set", "sync=disabled", "tank/a"});
  later();
  EXPECT_FALSE(zvol->check(fd).servable.ok());
  pool.zfs({"inherit", "sync", "tank/a"});
  later();
  EXPECT_TRUE(zvol->check(fd).servable.ok());
}

TEST_F(FollowZvol, WithoutZfsNothingIsServedUnlessForced) {
  create("tank/a");
  pool.fault(R"({"status": 1, "err": "The ZFS modules are not loaded.\n"})");
  EXPECT_FALSE(open_it(*follow("tank/a")).ok());
  const auto forced = std::make_shared<FollowedZvol>(ZvolOptions{.name = "tank/a", .force = true}, host);
  EXPECT_TRUE(open_it(*forced).ok());
}

TEST_F(FollowZvol, ARenameIsFollowedWhileOpen) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  ASSERT_TRUE(open_it(*zvol).ok());
  EXPECT_EQ(zvol->check(fd).renamed_from, "");
  pool.zfs({"rename", "tank/a", "tank/b"});
  EXPECT_EQ(zvol->check(fd).renamed_from, "tank/a");
  EXPECT_EQ(zvol->check(fd).renamed_from, "");
  EXPECT_EQ(zvol->name(), "tank/b");
  EXPECT_TRUE(zvol->check(fd).servable.ok());
  EXPECT_TRUE(open_it(*zvol).ok());  // closed and opened again: under its new name
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EIO);
}

TEST_F(FollowZvol, RenamedBackWhileClosedItIsFoundByItsConfiguredName) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  ASSERT_TRUE(open_it(*zvol).ok());
  pool.zfs({"rename", "tank/a", "tank/b"});
  zvol->check(fd);
  close_it();
  pool.zfs({"rename", "tank/b", "tank/a"});
  later();
  const Result<void> opened = open_it(*zvol);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(zvol->name(), "tank/a");
}

TEST_F(FollowZvol, AnotherVolumeUnderItsNameIsNotServed) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  ASSERT_TRUE(open_it(*zvol).ok());
  close_it();
  pool.zfs({"destroy", "tank/a"});
  create("tank/a");
  later();
  const Result<void> refused = open_it(*zvol);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ESTALE);
}

TEST_F(FollowZvol, ADeviceOfAnotherVolumeIsNotAdmitted) {
  create("tank/a");
  create("tank/b");
  const auto zvol = follow("tank/a");
  fd = open(pool.file("files/tank/b").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(zvol->admit(fd).error().code, ESTALE);
}

TEST_F(FollowZvol, ADeviceInUseIsNotGivenOut) {
  create("tank/a");
  host->use_check.sys_block = pool.file("sys");
  fs::create_directories(pool.file("sys/a/holders/md0"));
  const auto device = follow("tank/a")->locate();
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, EBUSY);
  EXPECT_NE(device.error().message.find("used by md0"), std::string::npos);
}

// --- explain ---

TEST_F(FollowZvol, AFailedWriteOnAHealthyPoolIsAFailedWrite) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  for (const IoKind kind : {IoKind::read, IoKind::write, IoKind::flush, IoKind::discard}) {
    EXPECT_EQ(zvol->explain(EIO, request(kind)), EIO);
  }
}

TEST_F(FollowZvol, AFullQuotaIsToldFromAFullPool) {
  pool.zfs({"create", "-o", "quota=1M", "tank/small"});
  create("tank/small/a");
  const auto zvol = follow("tank/small/a");
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EDQUOT);
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::read)), EIO);
  pool.zpool({"create", "tiny", "1M"});
  create("tiny/a");
  EXPECT_EQ(follow("tiny/a")->explain(EIO, request(IoKind::write)), ENOSPC);
}

TEST_F(FollowZvol, ALargeWriteNeedsMoreRoomThanASmallOne) {
  pool.zfs({"create", "-o", "quota=32M", "tank/small"});
  create("tank/small/a");
  const auto zvol = follow("tank/small/a");
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write, 4096)), EIO);
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write, 8 << 20)), EDQUOT);
}

TEST_F(FollowZvol, ReadonlyIsEROFSForWhatChangesData) {
  create("tank/a", {"-o", "readonly=on"});
  const auto zvol = follow("tank/a");
  EXPECT_TRUE(open_it(*zvol).ok());  // served, read-only
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EROFS);
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::flush)), EROFS);
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::read)), EIO);
}

TEST_F(FollowZvol, ADestroyedOrHiddenVolumeIsENODEV) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.zfs({"set", "volmode=none", "tank/a"});
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::read)), ENODEV);
  pool.zfs({"destroy", "tank/a"});
  later();
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), ENODEV);
  pool.zpool({"export", "tank"});
  later();
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), ENODEV);
}

TEST_F(FollowZvol, ASuspendedPoolMayComeBack) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.zpool({"fake-health", "tank", "SUSPENDED"});
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), ENOMEDIUM);
  later();
  pool.zpool({"fake-health", "tank", "DEGRADED"});
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EIO);
}

TEST_F(FollowZvol, ASuspendedPoolWhoseZfsHangsIsExplainedInTime) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.zpool({"fake-health", "tank", "SUSPENDED"});
  pool.fault(R"({"command": "zfs", "seconds": 600})");
  host->explain_properties = milliseconds(200);
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), ENOMEDIUM);
}

TEST_F(FollowZvol, WhenNothingAnswersTheErrorIsToldInTime) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.fault(R"({"seconds": 600})");
  host->explain_properties = ZvolHost().explain_properties;
  host->explain_health = ZvolHost().explain_health;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EIO);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));  // 1.8 s, and what a loaded machine adds
}

TEST_F(FollowZvol, AnErrorThatZfsCannotExplainIsLeftAsItIs) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.fault(R"({"status": 1, "err": "internal error: out of memory\n"})");
  EXPECT_EQ(zvol->explain(EIO, request(IoKind::write)), EIO);
  EXPECT_EQ(zvol->explain(ENXIO, request(IoKind::read)), ENXIO);
}

TEST_F(FollowZvol, AStormOfErrorsRunsTwoCommands) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  const auto start = std::chrono::steady_clock::now();
  const uint64_t before = host->catalog.questions();
  for (int i = 0; i < 1000; ++i) zvol->explain(EIO, request(IoKind::write));
  const auto took = std::chrono::steady_clock::now() - start;
  const auto seconds_begun = static_cast<uint64_t>(took / kCatalogAge) + 1;
  EXPECT_LE(host->catalog.questions() - before, 2 * seconds_begun);  // zfs and zpool, each second
}

TEST_F(FollowZvol, ManyVolumesAreAskedAboutTogether) {
  std::vector<std::shared_ptr<FollowedZvol>> zvols;
  for (int i = 0; i < 20; ++i) {
    create("tank/v" + std::to_string(i));
    zvols.push_back(follow("tank/v" + std::to_string(i)));
  }
  const uint64_t before = host->catalog.questions();
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> explained = 0;
  {
    std::vector<std::jthread> threads;
    for (const auto& zvol : zvols) {
      threads.emplace_back([&explained, zvol] { explained += zvol->explain(EIO, request(IoKind::write)) == EIO; });
    }
  }
  const auto seconds_begun = static_cast<uint64_t>((std::chrono::steady_clock::now() - start) / kCatalogAge) + 1;
  EXPECT_EQ(explained, 20);
  EXPECT_LE(host->catalog.questions() - before, 2 * seconds_begun);
}

TEST_F(FollowZvol, AFailureIsKeptAsLongAsAnAnswer) {
  create("tank/a");
  const auto zvol = follow("tank/a");
  pool.fault(R"({"status": 1, "err": "The ZFS modules are not loaded.\n"})");
  const size_t before = pool.commands_run();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(host->catalog.properties("tank/a", seconds(5)).error().code, ENOSYS);
  const auto seconds_begun = static_cast<size_t>((std::chrono::steady_clock::now() - start) / kCatalogAge) + 1;
  EXPECT_LE(pool.commands_run() - before, seconds_begun);
}

TEST_F(FollowZvol, ANameThatCannotBeSpoilsNoOthersAnswer) {
  create("tank/a");
  const auto bad = follow("tank/-/../x");
  const auto good = follow("tank/a");
  EXPECT_EQ(host->catalog.properties("tank/..", seconds(5)).error().code, EINVAL);
  EXPECT_TRUE(open_it(*good).ok());
}

}  // namespace
}  // namespace zvolt::backing
