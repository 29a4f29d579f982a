// The daemon's end with hosts that do not play along: it neither waits for who does not read, nor speaks of losses that
// there are none of.
#include "tests/integration/controlled_daemon.h"
#include "tests/support/raw_client.h"

namespace zvolt::test {
namespace {

constexpr uint8_t kRead = iscsi::kFinal | iscsi::ScsiCommand::kRead;
constexpr uint8_t kWrite = iscsi::kFinal | iscsi::ScsiCommand::kWrite;

class Stop : public ControlledDaemon {
 protected:
  RawClient logged_in() const {
    RawClient client;
    EXPECT_TRUE(client.connect(daemon_.port()));
    LoginOptions options;
    options.target = kTargetName;
    EXPECT_TRUE(client.login(options).ok());
    client.command_none(test_unit_ready());
    return client;
  }
  struct End {
    ExitStatus status;
    std::chrono::steady_clock::duration time;
  };
  End end() {
    const auto begin = std::chrono::steady_clock::now();
    const ExitStatus status = daemon_.terminate();
    return {status, std::chrono::steady_clock::now() - begin};
  }
};

TEST_F(Stop, HostThatDoesNotReadIsNotWaitedForAndNothingIsCalledLost) {
  start();
  RawClient deaf = logged_in();
  for (uint32_t i = 0; i < 32; ++i) {
    if (!iscsi::sn_less_equal(deaf.cmd_sn(), deaf.max_cmd_sn())) break;
    deaf.send_command(read10(i * 2048, 4096), {.flags = kRead, .edtl = 2 << 20, .immediate_data = {}});
  }
  const End ended = end();
  EXPECT_EQ(ended.status, 0);
  EXPECT_LT(ended.time, std::chrono::seconds(9)) << "its 10 s for commands in the store are not for this";
  EXPECT_EQ(daemon_.log().find("may be lost"), std::string::npos) << daemon_.log();
}

TEST_F(Stop, HostThatDoesNotSendItsDataIsNotWaitedFor) {
  start();
  RawClient idle = logged_in();
  idle.send_command(write10(0, 2048), {.flags = kWrite, .edtl = 1 << 20, .immediate_data = {}});
  Pdu r2t;
  ASSERT_EQ(idle.receive(r2t), Arrived::pdu);
  const End ended = end();
  EXPECT_EQ(ended.status, 0);
  EXPECT_LT(ended.time, std::chrono::seconds(9));
}

// Longer than the 10 s that commands in the store are given.
TEST_F(Stop, WriteThatTheStoreDoesNotEndInTimeIsNamed) {
  daemon_.config().luns = {
      "{ lun: 0, name: disk, memory: 64MiB, faults: [ { op: write, action: delay, delay_us: 14000000 } ] }"};
  daemon_.config().arguments = {"--test-stores"};
  start();
  RawClient client = logged_in();
  client.send_command(write10(0, 8), {.flags = kWrite, .edtl = 4096, .immediate_data = Bytes(4096, 1)});
  ASSERT_TRUE(client.ping({}).good());
  EXPECT_EQ(end().status, 1);
  EXPECT_NE(daemon_.log().find("1 writes or flushes were not answered"), std::string::npos) << daemon_.log();
}

}  // namespace
}  // namespace zvolt::test
