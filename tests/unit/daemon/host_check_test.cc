// What the host says of a configuration, with fakes for ZFS, LVM and udev.
#include "target/daemon/host_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/loader.h"
#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

class HostCheckTest : public ::testing::Test {
 protected:
  HostCheckTest() {
    ::setenv("FAKE_ZFS_DIR", temp_.file("zfs").c_str(), 1);
    std::filesystem::create_directories(temp_.file("zfs"));
    options_.zfs.command = std::string(ZVOLT_FAKE_ZFS) + "/zfs";
    options_.zfs.zpool_command = std::string(ZVOLT_FAKE_ZFS) + "/zpool";
    options_.lvm_conf = temp_.file("lvm.conf");
    options_.udev_run = temp_.file("run-udev");
    options_.udev_rules = temp_.file("rules.d");
    std::filesystem::create_directories(options_.udev_rules);
  }
  void zfs(const std::string& arguments) const {
    ASSERT_EQ(std::system((options_.zfs.command + " " + arguments + " >/dev/null 2>&1").c_str()), 0) << arguments;
  }
  void pool() const { ASSERT_EQ(std::system((options_.zfs.zpool_command + " create tank 10G").c_str()), 0); }
  HostFindings check(const std::string& luns) const {
    const auto loaded = config::load_text(
        "listen: [127.0.0.1]\ntargets: [ { name: \"iqn.2026-11.org.example:a\", luns: [ " + luns + " ] } ]\n",
        "t.yaml");
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.problems[0].text());
    return check_host(loaded.config, options_);
  }
  static bool says(const std::vector<config::Problem>& problems, const std::string& text) {
    return std::any_of(problems.begin(), problems.end(),
                       [&](const auto& problem) { return problem.message.find(text) != std::string::npos; });
  }

  const test::TempDir temp_;
  HostOptions options_;
};

TEST_F(HostCheckTest, MissingFileIsAnErrorUnlessItIsToBeMade) {
  const std::string path = temp_.file("a.img");
  const auto found = check("{ lun: 0, name: a, file: " + path + " }");
  ASSERT_EQ(found.missing.size(), 1u);
  EXPECT_EQ(found.missing[0].where.line, 2);
  EXPECT_TRUE(check("{ lun: 0, name: a, file: " + path + ", provision: { size: 1MiB } }").missing.empty());
  std::ofstream(path) << "x";
  EXPECT_TRUE(check("{ lun: 0, name: a, file: " + path + " }").missing.empty());
}

TEST_F(HostCheckTest, MissingDeviceIsAWarning) {
  const auto found = check("{ lun: 0, name: a, device: /dev/zvolt-none }");
  EXPECT_TRUE(found.missing.empty());
  EXPECT_TRUE(says(found.warnings, "/dev/zvolt-none is not there; its LUN will wait"));
}

TEST_F(HostCheckTest, MissingZvolIsAWarning) {
  pool();
  EXPECT_TRUE(says(check("{ lun: 0, zvol: tank/none }").warnings, "tank/none: there is no such zvol"));
}

TEST_F(HostCheckTest, VolmodeSnapdevAndSyncAreToldOf) {
  pool();
  zfs("create -s -V 64M tank/a");
  zfs("create -s -V 64M -o volmode=dev -o snapdev=visible -o sync=disabled tank/b");
  const auto found = check("{ lun: 0, zvol: tank/a }, { lun: 1, zvol: tank/b }").warnings;
  EXPECT_TRUE(says(found, "tank/a: with this volmode"));
  EXPECT_FALSE(says(found, "tank/b: with this volmode"));
  EXPECT_TRUE(says(found, "tank/b: snapdev=visible"));
  EXPECT_TRUE(says(found, "sync=disabled on tank/b"));
  EXPECT_FALSE(says(found, "sync=disabled on tank/a"));
}

TEST_F(HostCheckTest, ManyVolumesAreOneWarning) {
  pool();
  std::string luns;
  for (int i = 0; i < 5; ++i) {
    zfs("create -s -V 64M tank/v" + std::to_string(i));
    luns += "{ lun: " + std::to_string(i) + ", zvol: tank/v" + std::to_string(i) + " }, ";
  }
  EXPECT_TRUE(says(check(luns).warnings, "tank/v0 and 4 more: with this volmode"));
}

TEST_F(HostCheckTest, LvmWithoutAFilterIsToldOf) {
  pool();
  zfs("create -s -V 64M -o volmode=dev tank/a");
  const std::string lun = "{ lun: 0, zvol: tank/a }";
  EXPECT_FALSE(says(check(lun).warnings, "LVM")) << "no LVM here";
  std::ofstream(options_.lvm_conf) << "devices {\n  # global_filter = [ \"r|/dev/zd.*|\" ]\n}\n";
  EXPECT_TRUE(says(check(lun).warnings, "global_filter"));
  std::ofstream(options_.lvm_conf) << "devices {\n  global_filter = [ \"r|/dev/zd.*|\" ]\n}\n";
  EXPECT_FALSE(says(check(lun).warnings, "LVM"));
}

TEST_F(HostCheckTest, UdevWithoutARuleIsToldOf) {
  pool();
  zfs("create -s -V 64M -o volmode=dev tank/a");
  const std::string lun = "{ lun: 0, zvol: tank/a }";
  EXPECT_FALSE(says(check(lun).warnings, "udev")) << "no udev here";
  std::filesystem::create_directories(options_.udev_run);
  EXPECT_TRUE(says(check(lun).warnings, "udev of this host"));
  std::ofstream(options_.udev_rules + "/59-zvolt.rules") << "KERNEL==\"zd*\", OPTIONS+=\"nowatch\"\n";
  EXPECT_FALSE(says(check(lun).warnings, "udev"));
}

TEST_F(HostCheckTest, HostWithoutZfsIsOneWarning) {
  options_.zfs.command = temp_.file("no-such-zfs");
  const auto found = check("{ lun: 0, zvol: tank/a }");
  EXPECT_TRUE(found.missing.empty());
  EXPECT_TRUE(says(found.warnings, "ZFS cannot be asked"));
}

}  // namespace
}  // namespace zvolt::daemon
