// Zvols through the real daemon, with the fake zfs command over loop devices (root only, tests/support/fake_zfs): made
// by `provision:`, identified by their property, late, renamed, with sync=disabled. Real ZFS is in tests/vm.
#include <filesystem>
#include <fstream>

#include "tests/integration/zvol_daemon.h"

namespace zvolt::test {
namespace {

using nlohmann::json;

TEST_F(Zvols, ProvisionMakesOneWithItsIdentity) {
  daemon_.config().luns = {zvol_lun(0, "a", kProvision)};
  start();
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(value("tank/a", "volsize"), std::to_string(32 << 20));
  EXPECT_EQ(value("tank/a", "org.zvolt:uuid"), lun("a").at("uuid"));
  LibiscsiSession session = opened(0);
  EXPECT_TRUE(session.write(0, pattern(4096, 3)).good());
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, PropertyIsTheIdentityEvenWithAnotherStateDirectory) {
  zfs({"create", "-s", "-V", "32M", "tank/a"});
  daemon_.config().luns = {zvol_lun(0, "a")};
  start();
  const json uuid = lun("a").at("uuid");
  EXPECT_EQ(value("tank/a", "org.zvolt:uuid"), uuid) << "written at first use";
  ASSERT_EQ(daemon_.terminate(), 0);
  std::filesystem::remove_all(path("state"));
  start();
  EXPECT_EQ(lun("a").at("uuid"), uuid);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, TwoWithOneUuidAreRefusedWithTheCure) {
  zfs({"create", "-s", "-V", "32M", "-o", "org.zvolt:uuid=5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44", "tank/a"});
  zfs({"create", "-s", "-V", "32M", "-o", "org.zvolt:uuid=5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44", "tank/b"});
  daemon_.config().luns = {zvol_lun(0, "a")};
  start();
  daemon_.config().luns.push_back(zvol_lun(1, "b"));
  const json report = apply(1);
  const std::string error = report.at("error");
  EXPECT_NE(error.find("a (tank/a) and b (tank/b) have the same UUID"), std::string::npos) << error;
  const size_t at = error.find("zfs set org.zvolt:uuid=");
  ASSERT_NE(at, std::string::npos) << error;
  zfs({"set", error.substr(at + 8, 15 + 36), "tank/b"});
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_NE(lun("a").at("uuid"), lun("b").at("uuid"));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, LateOneThatIsKnownWaitsUnderItsIdentity) {
  zfs({"create", "-s", "-V", "32M", "tank/a"});
  daemon_.config().luns = {zvol_lun(0, "a")};
  start();
  LibiscsiSession before = opened(0);
  const Bytes designators = before.command(inquiry(255, true, 0x83), 255).data;
  ASSERT_EQ(daemon_.terminate(), 0);
  const std::string link = path("zfs") + "/zvol/tank/a";
  std::filesystem::rename(link, path("aside"));  // udev is late
  start();
  EXPECT_EQ(state_of("a"), "waiting");
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.command(test_unit_ready()).sense, "02/04/01");
  EXPECT_TRUE(session.command(inquiry(255, true, 0x83), 255).data == designators);
  std::filesystem::rename(path("aside"), link);
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_TRUE(eventually([&] { return session.command(test_unit_ready()).good(); }));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, OneThatWasNeverSeenIsAnnouncedWhenItComes) {
  daemon_.config().luns = {file_lun(0, "f"), zvol_lun(1, "a")};
  start();
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.command_lun(1, test_unit_ready()).sense, "05/25/00") << "no identity, no LUN";
  EXPECT_EQ(state_of("a"), "not announced");
  zfs({"create", "-s", "-V", "32M", "-o", "org.zvolt:uuid=5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44", "tank/a"});
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(lun("a").at("uuid"), "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44") << "its own, not an invented one";
  EXPECT_TRUE(eventually([&] { return session.command(test_unit_ready()).sense == "06/3f/0e"; }));
  EXPECT_TRUE(eventually([&] { return session.command_lun(1, test_unit_ready()).good(); }));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, SyncDisabledIsNotServedUntilItIsSetRight) {
  zfs({"create", "-s", "-V", "32M", "tank/a"});
  zfs({"create", "-s", "-V", "32M", "tank/b"});
  daemon_.config().luns = {zvol_lun(0, "a"), zvol_lun(1, "b", "sync: disabled")};
  start();
  LibiscsiSession session = opened(0);
  zfs({"set", "sync=disabled", "tank/a"});
  zfs({"set", "sync=disabled", "tank/b"});
  EXPECT_TRUE(becomes("a", "waiting"));
  EXPECT_EQ(session.command(read10(0, 8), 4096).sense, "02/04/01");
  EXPECT_NE(lun("a").at("reason").get<std::string>().find("sync=disabled"), std::string::npos);
  EXPECT_EQ(state_of("b"), "serving") << "it promises nothing";
  zfs({"set", "sync=standard", "tank/a"});
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, GrowsByApply) {
  daemon_.config().luns = {zvol_lun(0, "a", kProvision)};
  start();
  ASSERT_TRUE(becomes("a", "serving"));
  LibiscsiSession session = opened(0);
  daemon_.config().luns = {zvol_lun(0, "a", "provision: { size: 64MiB, volblocksize: 16KiB, sparse: true }")};
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(value("tank/a", "volsize"), std::to_string(64 << 20));
  EXPECT_EQ(session.command(test_unit_ready()).sense, "06/2a/09");
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, FailedApplySaysThatTheZvolStays) {
  start();
  std::ofstream(path("bad.img")).close();
  daemon_.config().luns.push_back(zvol_lun(1, "a", kProvision));
  daemon_.config().luns.push_back("{ lun: 2, name: bad, file: " + path("bad.img") + " }");
  const json report = apply(1);
  EXPECT_NE(report.at("error").get<std::string>().find("zvol tank/a was made and stays"), std::string::npos)
      << report.at("error");
  EXPECT_EQ(value("tank/a", "volsize"), std::to_string(32 << 20));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, HungZfsHoldsUpNobody) {
  zfs({"create", "-s", "-V", "32M", "tank/a"});
  daemon_.config().luns = {file_lun(0, "f"), zvol_lun(1, "a")};
  write_file(path("zfs") + "/fault", R"({"seconds": 600})");
  start();
  LibiscsiSession session = opened(0);
  EXPECT_TRUE(session.command(read10(0, 8), 4096).good());
  EXPECT_NE(state_of("a"), "serving");
  std::filesystem::remove(path("zfs") + "/fault");
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Zvols, RemovedByTheOperatorAfterItLeftTheConfiguration) {
  daemon_.config().luns = {"{ lun: 0, name: m, memory: 1MiB }", zvol_lun(1, "a", kProvision)};
  start();
  ASSERT_TRUE(becomes("a", "serving"));
  daemon_.config().luns.pop_back();
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(value("tank/a", "volsize"), std::to_string(32 << 20)) << "kept";
  zfs({"destroy", "tank/a"});
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
