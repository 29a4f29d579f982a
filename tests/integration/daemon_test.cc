// The daemon as an administrator meets it: bad configurations, missing and busy stores, ports in use, orderly and
// sudden ends, statistics.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

class DaemonTest : public ::testing::Test {
 protected:
  void start() {
    const auto started = daemon_.start();
    ASSERT_TRUE(started) << started.error().message;
  }
  // Starts, must fail with `status`; the log for the caller to judge.
  std::string refused(int status = 1) {
    const auto started = daemon_.start();
    EXPECT_FALSE(started) << "it serves";
    const std::string text = started ? "" : started.error().message;
    EXPECT_NE(text.find("ended with status " + std::to_string(status)), std::string::npos) << text;
    return text;
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "zvoltd's log:\n" << daemon_.log() << '\n';
  }
  LibiscsiSession opened(int lun = 0, uint32_t isid = 1) {
    auto session = LibiscsiSession::open(daemon_.url(lun), isid);
    EXPECT_TRUE(session) << session.error().message;
    if (!session) return {};
    session->command(test_unit_ready());
    return std::move(*session);
  }
  std::string path(const std::string& name) const { return daemon_.directory().file(name); }
  // What zvoltctl prints as JSON.
  nlohmann::json asked(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {program("zvoltctl"), "--socket", daemon_.admin_socket(), "-o", "json"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const CommandResult result = run_command(command);
    EXPECT_EQ(result.status, 0) << result.output;
    return nlohmann::json::parse(result.output, nullptr, false);
  }

  Daemon daemon_;
};

TEST_F(DaemonTest, BrokenYamlIsRefusedWithItsPlace) {
  daemon_.config().more_yaml = "volumes: [ unclosed\n";
  EXPECT_NE(refused().find("zvolt.yaml:"), std::string::npos);
}

TEST_F(DaemonTest, EveryMistakeIsNamedInOneRun) {
  daemon_.config().more_yaml = "treads: 4\n";
  daemon_.config().luns = {"{ lun: 0, name: a, memory: 64MiB, block_size: 1000 }", "{ lun: 0, name: b, memory: 1MiB }"};
  const std::string text = refused();
  EXPECT_NE(text.find("threads"), std::string::npos) << "the nearest valid key";
  EXPECT_NE(text.find("1000"), std::string::npos);
}

TEST_F(DaemonTest, CheckAgreesWithTheDaemon) {
  start();
  EXPECT_EQ(run_command({program("zvoltctl"), "check", daemon_.config_path()}).status, 0);
  EXPECT_EQ(run_command({program("zvoltd"), "--check", "-c", daemon_.config_path()}).status, 0);
  EXPECT_EQ(daemon_.terminate(), 0);
  const std::string broken = path("broken.yaml");
  write_file(broken, read_file(daemon_.config_path()) + "tarets: []\n");
  const CommandResult checked = run_command({program("zvoltctl"), "check", broken});
  EXPECT_NE(checked.status, 0);
  EXPECT_NE(checked.output.find("broken.yaml:"), std::string::npos) << checked.output;
  EXPECT_NE(run_command({program("zvoltd"), "--check", "-c", broken}).status, 0);
}

TEST_F(DaemonTest, MissingConfigurationIsNamed) {
  const CommandResult result = run_command({program("zvoltd"), "-c", path("nowhere.yaml")});
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find("nowhere.yaml"), std::string::npos) << result.output;
}

TEST_F(DaemonTest, MissingFileIsNamedAndNotCreated) {
  daemon_.config().luns = {"{ lun: 0, name: f, file: " + path("missing.img") + " }"};
  EXPECT_NE(refused().find("missing.img"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("missing.img")));
}

TEST_F(DaemonTest, PortInUseIsNamedAndNothingIsHalfStarted) {
  start();
  Daemon second({.luns = {"{ lun: 0, name: f, file: " + path("second.img") + ", provision: { size: 1MiB } }"}});
  write_file(second.config_path(), "");
  const std::string yaml = path("second.yaml");
  write_file(yaml, "listen: [\"" + daemon_.portal() + "\"]\nstate_dir: " + path("state2") +
                       "\nadmin: { socket: " + path("admin2.sock") +
                       " }\ntargets: [ { name: \"iqn.2026-11.org.example:b\", luns: [ { lun: 0, name: x, " +
                       "memory: 1MiB } ] } ]\n");
  const CommandResult result = run_command({program("zvoltd"), "-c", yaml});
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find(daemon_.portal()), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("in use"), std::string::npos) << result.output;
  EXPECT_TRUE(opened().command(test_unit_ready()).good()) << "the first daemon is not disturbed";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DaemonTest, FileThatAnotherDaemonServesIsBusy) {
  daemon_.config().luns = {"{ lun: 0, name: f, file: " + path("shared.img") + ", provision: { size: 1MiB } }"};
  start();
  Daemon second({.luns = {"{ lun: 0, name: f, file: " + path("shared.img") + " }"}});
  const auto started = second.start();
  ASSERT_FALSE(started) << "two daemons write one file";
  EXPECT_NE(started.error().message.find("shared.img"), std::string::npos) << started.error().message;
  EXPECT_TRUE(opened().command(test_unit_ready()).good());
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DaemonTest, IdentityOutlivesARestart) {
  daemon_.config().luns = {"{ lun: 0, name: f, file: " + path("id.img") + ", provision: { size: 1MiB } }",
                           "{ lun: 1, name: m, memory: 1MiB }"};
  start();
  const Bytes serial = opened().command(inquiry(255, true, 0x80), 255).data;
  const Bytes designators = opened().command(inquiry(255, true, 0x83), 255).data;
  const Bytes memory_serial = opened(1).command(inquiry(255, true, 0x80), 255).data;
  EXPECT_FALSE(serial == memory_serial);
  ASSERT_EQ(daemon_.terminate(), 0);
  daemon_.config().luns = {"{ lun: 4, name: f, file: " + path("id.img") + " }"};
  start();
  EXPECT_TRUE(opened(4).command(inquiry(255, true, 0x80), 255).data == serial) << "not of the LUN number or the order";
  EXPECT_TRUE(opened(4).command(inquiry(255, true, 0x83), 255).data == designators);
  EXPECT_EQ(daemon_.terminate(), 0);
}

// Writes numbered blocks until the connection ends; how many were acknowledged.
class Writer {
 public:
  Writer(LibiscsiSession session, uint64_t offset) : session_(std::move(session)), offset_(offset) {
    thread_ = std::thread([this] {
      for (uint64_t i = 0; i < kMost && session_.write(offset_ + i * kBytes, pattern(kBytes, seed(i))).good(); ++i)
        acknowledged_.store(i + 1);
    });
  }
  ~Writer() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  uint64_t acknowledged() const { return acknowledged_.load(); }
  uint64_t seed(uint64_t i) const { return offset_ + i; }
  uint64_t offset() const { return offset_; }

  static constexpr uint64_t kMost = 8000;
  static constexpr uint32_t kBytes = 4096;

 private:
  LibiscsiSession session_;
  uint64_t offset_;
  std::atomic<uint64_t> acknowledged_{0};
  std::thread thread_;
};

class DaemonUnderLoad : public DaemonTest {
 protected:
  void SetUp() override {
    daemon_.config().luns = {"{ lun: 0, name: f, file: " + path("load.img") + ", provision: { size: 256MiB } }"};
    start();
    for (uint64_t i = 0; i < 4; ++i)
      writers_.push_back(std::make_unique<Writer>(opened(0, static_cast<uint32_t>(i + 1)), i * (64ull << 20)));
    const auto enough = [this] {
      return std::all_of(writers_.begin(), writers_.end(), [](const auto& w) { return w->acknowledged() > 50; });
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!enough() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(enough());
  }
  void expect_all_acknowledged_writes() {
    start();
    LibiscsiSession session = opened(0, 9);
    for (const auto& writer : writers_)
      for (uint64_t i = 0; i < writer->acknowledged(); ++i)
        ASSERT_TRUE(session.read(writer->offset() + i * Writer::kBytes, Writer::kBytes).data ==
                    pattern(Writer::kBytes, writer->seed(i)))
            << "write " << i << " of " << writer->acknowledged();
    EXPECT_EQ(daemon_.terminate(), 0);
  }
  std::vector<std::unique_ptr<Writer>> writers_;
};

TEST_F(DaemonUnderLoad, TerminationLosesNothingAcknowledged) {
  EXPECT_EQ(daemon_.terminate(), 0);
  for (const auto& writer : writers_) writer->join();
  expect_all_acknowledged_writes();
}

TEST_F(DaemonUnderLoad, KillAndRestartLosesNothingAcknowledged) {
  daemon_.kill();  // the process only: what the kernel has, it keeps
  for (const auto& writer : writers_) writer->join();
  expect_all_acknowledged_writes();
}

TEST_F(DaemonTest, InterruptEndsItToo) {
  start();
  daemon_.process().signal(SIGINT);
  const auto status = daemon_.process().wait(kDaemonLimit);
  EXPECT_EQ(status.value_or(-1), 0);
}

TEST_F(DaemonTest, TerminationIsNotHeldUpByAnIdleOrSilentConnection) {
  start();
  LibiscsiSession idle = opened();
  RawClient silent;
  ASSERT_TRUE(silent.connect(daemon_.port()));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(DaemonTest, StatisticsCountTheOperationsDone) {
  daemon_.config().luns = {"{ lun: 0, name: counted, memory: 64MiB }"};
  start();
  LibiscsiSession first = opened(0, 1), second = opened(0, 2);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(first.write(i * 4096, pattern(4096, i)).good());
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(second.read(i * 4096, 4096).good());
  ASSERT_TRUE(first.command(synchronize_cache10()).good());
  const nlohmann::json all = asked({"stats"});
  ASSERT_TRUE(all.is_array());
  SCOPED_TRACE(all.dump(2));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("lun"), "counted");
  EXPECT_EQ(all[0].at("in_flight"), 0);
  const nlohmann::json& classes = all[0].at("classes");
  EXPECT_EQ(classes.at("write").at("count"), 30);
  EXPECT_EQ(classes.at("write").at("bytes"), 30 * 4096);
  EXPECT_EQ(classes.at("read").at("count"), 20);
  EXPECT_EQ(classes.at("read").at("bytes"), 20 * 4096);
  EXPECT_EQ(classes.at("flush").at("count"), 1);
  EXPECT_EQ(classes.at("read").at("errors"), 0);
  const nlohmann::json& total = classes.at("write").at("stages").at("total");
  EXPECT_EQ(total.at("count"), 30);
  EXPECT_GT(total.at("p50_us"), 0.0);
  EXPECT_LE(total.at("p50_us"), total.at("p99_us"));
  EXPECT_LE(total.at("p99_us"), total.at("max_us"));
  EXPECT_EQ(first.command(read16(~uint64_t{0}, 1), 512).sense, "05/21/00");
  EXPECT_EQ(asked({"stats", "counted"}).at(0).at("classes").at("read").at("errors"), 1);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DaemonTest, SessionsOfOneLunAreSpreadOverTheShards) {
  daemon_.config().threads = 2;
  start();
  std::vector<LibiscsiSession> sessions;
  for (uint32_t i = 1; i <= 4; ++i) sessions.push_back(opened(0, i));
  std::map<int, int> by_shard;
  for (const auto& session : asked({"sessions"})) ++by_shard[session.at("shard").get<int>()];
  EXPECT_EQ(by_shard, (std::map<int, int>{{0, 2}, {1, 2}}));
  for (LibiscsiSession& session : sessions) EXPECT_TRUE(session.write(0, pattern(4096, 1)).good());
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(DaemonTest, StatusTellsWhatIsServed) {
  start();
  const nlohmann::json status = asked({"status"});
  SCOPED_TRACE(status.dump(2));
  EXPECT_EQ(status.at("pid"), daemon_.pid());
  EXPECT_EQ(status.at("portals").at(0).at("port"), daemon_.port());
  EXPECT_EQ(asked({"luns"}).at(0).at("bytes"), 64 << 20);
  EXPECT_EQ(daemon_.terminate(), 0);
  const CommandResult gone = run_command({program("zvoltctl"), "--socket", daemon_.admin_socket(), "status"});
  EXPECT_EQ(gone.status, 1);
  EXPECT_NE(gone.output.find(daemon_.admin_socket()), std::string::npos) << gone.output;
}

TEST_F(DaemonTest, VerifyLoopOnFourSessionsOverTwoShards) {
  daemon_.config().threads = 2;
  daemon_.config().luns = {"{ lun: 0, name: v, file: " + path("verify.img") + ", provision: { size: 256MiB } }"};
  start();
  const CommandResult result = run_command({program("zvolt-verify-loop"), "--url", daemon_.url(), "--sessions", "4",
                                            "--seconds", "5", "--span", std::to_string(64 << 20)},
                                           std::chrono::seconds(100));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("errors=0"), std::string::npos) << result.output;
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
