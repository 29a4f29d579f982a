// Plan, apply and SIGHUP on the real daemon: edits reach hosts, those that are not concerned notice nothing, and what
// fails changes nothing.
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/controlled_daemon.h"

namespace zvolt::test {
namespace {

using nlohmann::json;

std::string sense_of_tur(LibiscsiSession& session, int lun) {
  return session.command_lun(lun, test_unit_ready()).sense;
}

class Apply : public ControlledDaemon {
 protected:
  void hang_up_and_wait(const std::string& word) {
    daemon_.process().signal(SIGHUP);
    EXPECT_TRUE(eventually([&] { return daemon_.log().find(word) != std::string::npos; })) << word;
  }
};

TEST_F(Apply, LunComesAndHostsAreTold) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  daemon_.config().luns.push_back(file_lun(1, "b"));
  const json report = apply();
  EXPECT_EQ(report.at("outcome"), "done") << report.dump(2);
  EXPECT_EQ(sense_of_tur(session, 0), "06/3f/0e");
  EXPECT_EQ(sense_of_tur(session, 0), "");
  EXPECT_TRUE(session.command_lun(1, test_unit_ready()).sense.starts_with("06/")) << "a new LUN begins with attention";
  EXPECT_TRUE(session.command_lun(1, read10(0, 8), 4096).good());
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, SessionsOfOtherTargetsAreNotConcerned) {
  daemon_.config().luns = {file_lun(0, "a")};
  set_other_target(file_lun(0, "b"));
  start();
  LibiscsiSession session = opened(0);
  set_other_target(file_lun(0, "b") + ", " + file_lun(1, "c"));
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(sense_of_tur(session, 0), "");
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, PlanOfAOneLineEditIsOneStep) {
  daemon_.config().luns = {file_lun(0, "a"), file_lun(1, "b")};
  start();
  const LibiscsiSession session = opened(0);
  daemon_.config().luns[1] = file_lun(1, "b", "32MiB");
  daemon_.write_config();
  const json plan = asked({"plan"});
  EXPECT_EQ(plan.at("outcome"), "planned");
  ASSERT_EQ(plan.at("plan").at("steps").size(), 1u) << plan.dump(2);
  EXPECT_EQ(plan["plan"]["steps"][0]["kind"], "grow");
  EXPECT_EQ(plan["plan"]["steps"][0]["sessions"].size(), 1u);
  EXPECT_EQ(std::filesystem::file_size(path("b.img")), 16u << 20) << "a plan changes nothing";
  EXPECT_EQ(control({"plan"}).status, 0);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, GrowthIsSeenByHosts) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  daemon_.config().luns = {file_lun(0, "a", "32MiB")};
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(sense_of_tur(session, 0), "06/2a/09");
  const ScsiResult capacity = session.command(read_capacity16(), 32);
  ASSERT_TRUE(capacity.good());
  EXPECT_EQ(get64(capacity.data.data()), (32u << 20) / 512 - 1);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, FileThatGrowsByItselfIsSeenToo) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  std::filesystem::resize_file(path("a.img"), 32 << 20);
  EXPECT_TRUE(eventually([&] { return sense_of_tur(session, 0) == "06/2a/09"; }));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, HangUpIsAnApply) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  daemon_.config().luns.push_back(file_lun(1, "b"));
  daemon_.write_config();
  hang_up_and_wait("done, 0 failed");
  EXPECT_EQ(asked({"luns"}).size(), 2u);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, BrokenFileChangesNothingByApplyOrHangUp) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  write_file(daemon_.config_path(), read_file(daemon_.config_path()) + "tarets: []\n");
  const json report = asked({"apply"}, 1);
  EXPECT_EQ(report.at("outcome"), "refused");
  ASSERT_EQ(report.at("errors").size(), 1u);
  EXPECT_NE(control({"apply"}).output.find("zvolt.yaml:"), std::string::npos) << "people are told the place";
  hang_up_and_wait("nothing was changed");
  EXPECT_EQ(sense_of_tur(session, 0), "");
  EXPECT_EQ(asked({"luns"}).size(), 1u);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, MissingFileOfTheConfigurationChangesNothing) {
  start();
  EXPECT_EQ(asked({"apply", path("none.yaml")}, 1).at("outcome"), "refused");
  EXPECT_EQ(asked({"luns"}).size(), 1u);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, RemovedLunIsGoneAndIsTheSameDiskWhenItComesBack) {
  daemon_.config().luns = {file_lun(0, "a"), file_lun(1, "b")};
  start();
  LibiscsiSession session = opened(0);
  session.command_lun(1, test_unit_ready());
  const Bytes serial = session.command_lun(1, inquiry(255, true, 0x80), 255).data;
  ASSERT_TRUE(opened(1, 2).write(0, pattern(4096, 5)).good());
  daemon_.config().luns.pop_back();
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(session.command_lun(1, test_unit_ready()).sense, "05/25/00");
  EXPECT_TRUE(std::filesystem::exists(path("b.img")));
  daemon_.config().luns.push_back(file_lun(1, "b"));
  EXPECT_EQ(apply().at("outcome"), "done");
  LibiscsiSession again = opened(1, 3);
  EXPECT_TRUE(again.command(inquiry(255, true, 0x80), 255).data == serial);
  EXPECT_TRUE(again.read(0, 4096).data == pattern(4096, 5));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, NumberThatGetsAnotherVolumeIsAnotherDisk) {
  daemon_.config().luns = {file_lun(0, "a"), file_lun(1, "b")};
  start();
  LibiscsiSession session = opened(1);
  const Bytes serial = session.command(inquiry(255, true, 0x80), 255).data;
  ASSERT_TRUE(session.write(0, pattern(4096, 1)).good());
  daemon_.config().luns = {file_lun(0, "a"), file_lun(1, "c")};
  EXPECT_EQ(apply().at("outcome"), "done");
  EXPECT_EQ(session.write(0, pattern(4096, 2)).sense.substr(0, 5), "06/3f") << "no command before the host is told";
  EXPECT_FALSE(session.command(inquiry(255, true, 0x80), 255).data == serial);
  EXPECT_TRUE(eventually([&] { return session.read(0, 4096).good(); }));
  EXPECT_TRUE(session.read(0, 4096).data == Bytes(4096, 0)) << "the new one is empty";
  std::ifstream old(path("b.img"), std::ios::binary);
  Bytes kept(4096);
  old.read(reinterpret_cast<char*>(kept.data()), 4096);
  EXPECT_TRUE(kept == pattern(4096, 1)) << "and the old one was not written to";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, PortalsComeAndGo) {
  start();
  const uint16_t port = probe_free_port();
  const std::string text = read_file(daemon_.config_path());
  const std::string both = "listen: [\"" + daemon_.portal() + "\", \"127.0.0.1:" + std::to_string(port) + "\"]";
  write_file(daemon_.config_path(), both + text.substr(text.find('\n')));
  EXPECT_EQ(asked({"apply"}).at("outcome"), "done");
  const std::string url = "iscsi://127.0.0.1:" + std::to_string(port) + "/" + kTargetName + "/0";
  EXPECT_TRUE(LibiscsiSession::open(url, 7));
  write_file(daemon_.config_path(), text);
  EXPECT_EQ(asked({"apply"}).at("outcome"), "done");
  EXPECT_FALSE(LibiscsiSession::open(url, 8));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, TwentySessionsUnderLoadLoseNothing) {
  daemon_.config().luns = {file_lun(0, "a", "64MiB")};
  set_other_target(file_lun(0, "b"));
  start();
  Load unaffected(daemon_.url(0), 16, 12), affected(daemon_.url(0, kOther), 4, 12, {"--patient", "--span", "8388608"});
  int changes = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    set_other_target(file_lun(0, "b") + ", " + file_lun(1, "c") + ", { lun: 2, name: m, memory: 1MiB }");
    EXPECT_EQ(apply().at("outcome"), "done");
    set_other_target(file_lun(0, "b") + ", { lun: 1, name: n, memory: 2MiB }");
    EXPECT_EQ(apply().at("outcome"), "done");
    changes += 2;
  }
  const CommandResult first = unaffected.result(), second = affected.result();
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_NE(first.output.find("repeated=0"), std::string::npos) << "not even a unit attention: " << first.output;
  EXPECT_EQ(second.status, 0) << second.output;
  std::cout << changes << " applies; not concerned: " << first.output << "concerned: " << second.output;
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, KilledInTheMiddleItStartsAgain) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  std::vector<std::string> luns = daemon_.config().luns;
  for (int i = 1; i <= 60; ++i) luns.push_back(file_lun(i, "v" + std::to_string(i)));
  daemon_.config().luns = luns;
  daemon_.write_config();
  std::thread applying([this] { control({"apply"}); });
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path("v3.img")); }));
  daemon_.kill();
  applying.join();
  start();
  EXPECT_EQ(asked({"luns"}).size(), 61u);
  for (int i = 1; i <= 60; ++i)
    EXPECT_EQ(std::filesystem::file_size(path("v" + std::to_string(i) + ".img")), 16u << 20) << i;
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(Apply, FailedStartLeavesNoNewFiles) {
  daemon_.config().luns = {file_lun(0, "a"), "{ lun: 1, name: f, file: " + path("missing.img") + " }"};
  EXPECT_NE(refused().find("missing.img"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("a.img")));
}

TEST_F(Apply, FiveHundredLunsByOneTemplate) {
  daemon_.config().luns = {"{ lun: 0, count: 500, first: 1, name: \"vm-%03d\", file: \"" + path("vm-%03d.img") +
                           "\", provision: { size: 1GiB } }"};
  const auto begin = std::chrono::steady_clock::now();
  start();
  const auto first = std::chrono::steady_clock::now();
  EXPECT_EQ(asked({"status"}).at("luns_served"), 500);
  ASSERT_EQ(daemon_.terminate(), 0);
  const auto again = std::chrono::steady_clock::now();
  start();  // all files exist now
  const auto started = std::chrono::steady_clock::now();
  long resident = 0;
  std::ifstream statm("/proc/" + std::to_string(daemon_.pid()) + "/statm");
  long pages = 0;
  statm >> pages >> resident;
  const auto plan_begin = std::chrono::steady_clock::now();
  std::string text = read_file(daemon_.config_path());
  text.replace(text.find("1GiB"), 4, "2GiB");
  write_file(daemon_.config_path(), text);
  const json plan = asked({"plan"});
  const auto planned = std::chrono::steady_clock::now();
  EXPECT_EQ(plan.at("plan").at("steps").size(), 500u);
  const auto ms = [](auto from, auto to) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
  };
  std::cout << "500 LUNs: first start with provisioning " << ms(begin, first) << " ms, next start "
            << ms(again, started) << " ms, resident " << resident * ::sysconf(_SC_PAGESIZE) / (1 << 20)
            << " MiB, plan of a one-line edit " << ms(plan_begin, planned) << " ms\n";
  EXPECT_EQ(daemon_.terminate(), 0);
}

// The same edit applied while 20 sessions do verified I/O: 16 at a target that it does not concern, 4 at one it does.
TEST_F(Apply, FiveHundredLunsGrowUnderTwentySessions) {
  daemon_.config().luns = {file_lun(0, "a", "64MiB")};
  const auto many = [this](int mib) {
    set_other_target(file_lun(0, "b") + ", { lun: 1, count: 498, first: 1, name: \"vm-%03d\", file: \"" +
                     path("vm-%03d.img") + "\", provision: { size: " + std::to_string(mib) + "MiB } }");
  };
  many(16);
  start();
  EXPECT_EQ(asked({"status"}).at("luns_served"), 500);
  Load unaffected(daemon_.url(0), 16, 8), affected(daemon_.url(0, kOther), 4, 8, {"--patient", "--span", "8388608"});
  int applies = 0;
  std::chrono::steady_clock::duration longest{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    many(17 + applies);
    const auto begin = std::chrono::steady_clock::now();
    const json report = apply();
    longest = std::max(longest, std::chrono::steady_clock::now() - begin);
    EXPECT_EQ(report.at("outcome"), "done");
    ++applies;
  }
  const CommandResult first = unaffected.result(), second = affected.result();
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_NE(first.output.find("repeated=0"), std::string::npos) << "not even a unit attention: " << first.output;
  EXPECT_EQ(second.status, 0) << second.output;
  EXPECT_EQ(std::filesystem::file_size(path("vm-498.img")), static_cast<uint64_t>(16 + applies) << 20);
  std::cout << applies << " applies of 498 growths, the longest "
            << std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()
            << " ms; not concerned: " << first.output << "concerned: " << second.output;
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
