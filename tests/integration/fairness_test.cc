// What one host must not do to another: take the memory by not reading, keep it by going away, or hold two sessions of
// one I_T nexus by logging in twice at once. Each was found by an attack on the real daemon.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint8_t kRead = iscsi::kFinal | iscsi::ScsiCommand::kRead;
constexpr uint8_t kWrite = iscsi::kFinal | iscsi::ScsiCommand::kWrite;
constexpr uint64_t kGoodIsid = 0x8000000000f0;

class Fairness : public RunningDaemon {
 protected:
  explicit Fairness(DaemonConfig config = {}) : RunningDaemon(std::move(config)) {}

  size_t sessions_of(const std::string& initiator) {
    const CommandResult result =
        run_command({program("zvoltctl"), "--socket", daemon_.admin_socket(), "-o", "json", "sessions"});
    EXPECT_EQ(result.status, 0) << result.output;
    const auto answer = nlohmann::json::parse(result.output, nullptr, false);
    EXPECT_TRUE(answer.is_array()) << result.output;
    size_t count = 0;
    for (const auto& session : answer)
      if (session.value("initiator", "") == initiator) ++count;
    return count;
  }
};

TEST_F(Fairness, OverlappingLoginsOfOneNexusLeaveOneSession) {
  LoginOptions options;
  options.initiator = "iqn.2026-11.org.example:twice";
  options.target = kTargetName;
  for (int round = 0; round < 40; ++round) {
    std::array<RawClient, 3> clients;
    for (RawClient& client : clients) ASSERT_TRUE(client.connect(daemon_.port()));
    std::vector<std::thread> logins;
    for (RawClient& client : clients) logins.emplace_back([&] { client.login(options); });
    for (std::thread& login : logins) login.join();
    ASSERT_LE(sessions_of(options.initiator), 1u) << "round " << round;
  }
  expect_alive();
}

class SmallMemory : public Fairness {
 protected:
  SmallMemory()
      : Fairness({.luns = {"{ lun: 0, name: disk, memory: 64MiB }"},
                  .threads = 1,
                  .more_targets = {},
                  .more_yaml = "memory: 64MiB\n",
                  .arguments = {}}) {}
};

// The daemon ends a peer that takes no answers after half a minute: with the limit of an answer below that, an answer
// shows that nobody waited for it.
TEST_F(SmallMemory, HostsThatDoNotReadDoNotStopTheOthersAndAreEnded) {
  static_assert(kReplyLimit < std::chrono::seconds(30));
  RawClient good = logged_in({}, kGoodIsid);
  std::vector<RawClient> deaf;
  for (uint64_t i = 0; i < 8; ++i) {
    deaf.push_back(logged_in({}, 0x800000001000 + i));
    for (uint32_t j = 0; j < 32; ++j) {
      if (!iscsi::sn_less_equal(deaf.back().cmd_sn(), deaf.back().max_cmd_sn())) break;
      deaf.back().send_command(read10(j * 2048, 4096), {.flags = kRead, .edtl = 2 << 20, .immediate_data = {}});
    }
  }
  const Bytes data = pattern(1 << 20, 5);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(good.command_out(write10(8192, 2048), data).good()) << "a write that needs R2Ts, round " << i;
    ASSERT_TRUE(good.command_in(read10(8192, 2048), 1 << 20).data == data) << "round " << i;
  }
  expect_alive();
  const std::string initiator = LoginOptions().initiator;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(75);
  while (sessions_of(initiator) > 1 && std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(good.ping({}).good());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  EXPECT_EQ(sessions_of(initiator), 1u) << "only the one that reads is left";
}

class StalledLun : public Fairness {
 protected:
  StalledLun()
      : Fairness({.luns = {"{ lun: 0, name: disk, memory: 64MiB }",
                           "{ lun: 1, name: stalled, memory: 2GiB, faults: [ { op: any, action: stall } ] }"},
                  .threads = 1,
                  .more_targets = {},
                  .more_yaml = "memory: 64MiB\n",
                  .arguments = {"--test-stores"}}) {}
  void TearDown() override {
    // The stores keep the stalled writes for ever: an orderly end is not to be had.
    daemon_.kill();
    RunningDaemon::TearDown();
  }
};

// Each reconnect of a host whose LUN stalls leaves its writes behind; the rest of its promised memory must come back.
TEST_F(StalledLun, ReconnectsLeaveRoomForNewLogins) {
  for (uint32_t round = 0; round < 150; ++round) {
    RawClient client;
    ASSERT_TRUE(client.connect(daemon_.port()));
    LoginOptions options;
    options.target = kTargetName;
    const LoginResult result = client.login(options);
    ASSERT_TRUE(result.ok()) << "reconnect " << round << ": login status " << std::hex << result.status;
    client.command_none(test_unit_ready(), 1);
    client.send_command(write10(round * 8, 8),
                        {.flags = kWrite, .edtl = 4096, .immediate_data = Bytes(4096, 0x5a), .lun = 1});
    ASSERT_TRUE(client.ping({}).good());
    client.reset();
  }
  expect_alive();
}

}  // namespace
}  // namespace zvolt::test
