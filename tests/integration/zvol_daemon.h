// The fixture of tests of a daemon over zvols of the fake zfs command, on loop devices (root only,
// tests/support/fake_zfs).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/controlled_daemon.h"

namespace zvolt::test {

class Zvols : public ControlledDaemon {
 protected:
  void SetUp() override {
    if (!may_use_devices()) GTEST_SKIP() << "needs root and loop devices";
    const std::string state = path("zfs");
    std::filesystem::create_directories(state);
    environment_ = {"FAKE_ZFS_DIR=" + state, "FAKE_ZFS_LOOP=1"};
    daemon_.config().arguments = {"--test-stores"};
    daemon_.config().environment = environment_;
    daemon_.config().environment.push_back("ZVOLT_ZFS_COMMAND=" + fake_zfs("zfs"));
    daemon_.config().environment.push_back("ZVOLT_ZPOOL_COMMAND=" + fake_zfs("zpool"));
    daemon_.config().environment.push_back("ZVOLT_ZVOL_LINKS=" + state + "/zvol");
    ASSERT_EQ(run("zpool", {"create", "tank", "10G"}).status, 0);
  }
  void TearDown() override {
    ControlledDaemon::TearDown();
    daemon_.kill();
    if (!environment_.empty()) run("zpool", {"destroy", "tank"});  // detaches the loop devices
  }
  CommandResult run(const std::string& command, const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"env"};
    all.insert(all.end(), environment_.begin(), environment_.end());
    all.push_back(fake_zfs(command));
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_command(all);
  }
  void zfs(const std::vector<std::string>& arguments) const {
    const CommandResult result = run("zfs", arguments);
    ASSERT_EQ(result.status, 0) << result.output;
  }
  std::string value(const std::string& dataset, const std::string& property) const {
    const std::string text = run("zfs", {"get", "-Hp", "-o", "value", property, dataset}).output;
    return text.substr(0, text.find('\n'));
  }
  static std::string zvol_lun(int number, const std::string& name, const std::string& more = "") {
    return "{ lun: " + std::to_string(number) + ", name: " + name + ", zvol: tank/" + name +
           (more.empty() ? "" : ", " + more) + " }";
  }
  std::string note_of(const std::string& volume) const {
    return lun(volume).value("notes", nlohmann::json::array()).dump();
  }

  std::vector<std::string> environment_;
  static constexpr const char* kProvision = "provision: { size: 32MiB, volblocksize: 16KiB, sparse: true }";
};

}  // namespace zvolt::test
