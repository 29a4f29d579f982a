// Volumes that are taken offline, come late or are busy: hosts are told to wait, sessions stay, the others go on.
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/controlled_daemon.h"

namespace zvolt::test {
namespace {

using nlohmann::json;

class Offline : public ControlledDaemon {};

TEST_F(Offline, HostsWaitAndKeepTheirSessions) {
  daemon_.config().luns = {file_lun(0, "a"), file_lun(1, "b")};
  start();
  LibiscsiSession session = opened(0);
  session.command_lun(1, test_unit_ready());
  EXPECT_EQ(control({"offline", "a"}).status, 0);
  EXPECT_EQ(session.command(read10(0, 8), 4096).sense, "02/04/01");
  EXPECT_EQ(session.command(test_unit_ready()).sense, "02/04/01");
  EXPECT_TRUE(session.command(inquiry(96), 96).good());
  EXPECT_TRUE(session.command_lun(1, read10(0, 8), 4096).good()) << "the others go on";
  EXPECT_EQ(lun("a").at("reason"), "taken offline by the operator");
  EXPECT_NE(control({"status"}).output.find("volume a: not served: taken offline"), std::string::npos);
  EXPECT_EQ(control({"online", std::string(kTargetName) + "/0"}).status, 0);
  EXPECT_TRUE(eventually([&] { return session.command(read10(0, 8), 4096).good(); }));
  EXPECT_EQ(control({"offline", "nobody"}).status, 1);
  EXPECT_EQ(control({"offline"}).status, 2);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Offline, LoadGoesOnWhereItWas) {
  daemon_.config().luns = {file_lun(0, "a", "64MiB")};
  start();
  Load load(daemon_.url(0), 4, 6, {"--patient"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(control({"offline", "a"}).status, 0);
    EXPECT_EQ(control({"online", "a"}).status, 0);
  }
  const CommandResult result = load.result();
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Offline, ResizeByHand) {
  daemon_.config().luns = {file_lun(0, "a"), "{ lun: 1, name: m, memory: 1MiB }"};
  start();
  EXPECT_EQ(control({"resize", "a", "32MiB"}).status, 0);
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), 32u << 20);
  EXPECT_EQ(lun("a").at("bytes"), 32 << 20);
  EXPECT_EQ(control({"resize", "a"}).status, 0);
  EXPECT_EQ(control({"resize", "a", "1MiB"}).status, 1) << "never smaller";
  EXPECT_EQ(control({"resize", "m", "2MiB"}).status, 1);
  EXPECT_EQ(control({"resize", "a", "much"}).status, 2);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Offline, MissingDeviceIsALunThatWaitsAndIsGivenUpInTheEnd) {
  daemon_.config().luns = {file_lun(0, "a"), "{ lun: 1, name: d, device: " + path("late") + ", wait_for_device: 3s }"};
  start();
  LibiscsiSession session = opened(0);
  EXPECT_TRUE(session.command(read10(0, 8), 4096).good());
  EXPECT_TRUE(session.command_lun(1, inquiry(96), 96).good());
  const auto tur = [&] { return session.command_lun(1, test_unit_ready()).sense; };
  EXPECT_TRUE(eventually([&] { return tur() == "02/04/01"; }));
  EXPECT_EQ(lun("d").at("presence"), "late");
  EXPECT_TRUE(eventually([&] { return tur() == "04/3e/01"; }));
  EXPECT_EQ(state_of("d"), "given up");
  EXPECT_EQ(daemon_.terminate(), 0);
}

// Loop devices: root only.
class OfflineDevice : public ControlledDaemon {
 protected:
  void SetUp() override {
    if (!may_use_devices()) GTEST_SKIP() << "needs root and loop devices";
    std::ofstream(path("disk")).close();
    std::filesystem::resize_file(path("disk"), 64 << 20);
    loop_ = LoopDevice(path("disk"));
    if (!loop_.attached()) GTEST_SKIP() << "no loop device is free";
    daemon_.config().luns = {"{ lun: 0, name: d, device: " + path("dev") + " }"};
  }
  void plug() const { std::filesystem::create_symlink(loop_.path(), path("dev")); }
  LoopDevice loop_;
};

TEST_F(OfflineDevice, LateDeviceComesUpByItself) {
  start();
  EXPECT_EQ(state_of("d"), "waiting");
  LibiscsiSession session = opened(0);
  const Bytes designators = session.command(inquiry(255, true, 0x83), 255).data;
  EXPECT_EQ(session.command(test_unit_ready()).sense, "02/04/01");
  plug();
  EXPECT_TRUE(becomes("d", "serving"));
  EXPECT_TRUE(eventually([&] { return session.write(0, pattern(4096, 3)).good(); }));
  EXPECT_TRUE(session.read(0, 4096).data == pattern(4096, 3));
  EXPECT_TRUE(session.command(inquiry(255, true, 0x83), 255).data == designators) << "the identity never changes";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(OfflineDevice, BusyDeviceIsServedWhenItIsFree) {
  plug();
  const int holder = ::open(loop_.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  ASSERT_GE(holder, 0);
  start();
  EXPECT_EQ(lun("d").at("presence"), "refused");
  EXPECT_NE(lun("d").at("reason").get<std::string>().find("in use"), std::string::npos) << lun("d").dump(2);
  ::close(holder);
  EXPECT_TRUE(becomes("d", "serving"));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(OfflineDevice, OfflineLetsGoOfTheDevice) {
  plug();
  start();
  LibiscsiSession session = opened(0);
  ASSERT_TRUE(session.write(0, pattern(4096, 9)).good());
  EXPECT_EQ(control({"offline", "d"}).status, 0);
  const int own = ::open(loop_.path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  EXPECT_GE(own, 0) << "the operator may use it now";
  EXPECT_EQ(session.command(test_unit_ready()).sense, "02/04/01");
  EXPECT_EQ(control({"online", "d"}).status, 1) << "it is in use";
  ::close(own);
  EXPECT_TRUE(becomes("d", "serving"));
  EXPECT_TRUE(eventually([&] { return session.read(0, 4096).good(); }));
  EXPECT_TRUE(session.read(0, 4096).data == pattern(4096, 9));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(OfflineDevice, OfflineAndOnlineUnderLoad) {
  plug();
  start();
  Load load(daemon_.url(0), 4, 8, {"--patient"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(control({"offline", "d"}).status, 0);
    EXPECT_EQ(control({"online", "d"}).status, 0);
  }
  const CommandResult result = load.result();
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(OfflineDevice, GrowthOfTheDeviceIsSeen) {
  plug();
  start();
  LibiscsiSession session = opened(0);
  std::filesystem::resize_file(path("disk"), 128 << 20);
  ASSERT_EQ(run_command({"losetup", "--set-capacity", loop_.path()}).status, 0);
  EXPECT_TRUE(eventually([&] { return session.command(test_unit_ready()).sense == "06/2a/09"; }));
  EXPECT_EQ(lun("d").at("bytes"), 128 << 20);
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
