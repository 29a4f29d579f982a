// Full feature phase apart from data transfer: sequence numbers and the command window, NOP, Text, Logout, ends of
// connections. RFC 7143 sections 4.2.2, 11.10, 11.14 and 11.18.
#include <gtest/gtest.h>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

using iscsi::Opcode;

constexpr uint8_t kRead = iscsi::kFinal | iscsi::ScsiCommand::kRead;

class SessionTest : public RunningDaemon {
 protected:
  RawClient logged_in_with(uint16_t cid, bool discovery = false) {
    RawClient client;
    EXPECT_TRUE(client.connect(daemon_.port()));
    LoginOptions options;
    if (!discovery) options.target = kTargetName;
    options.cid = cid;
    EXPECT_TRUE(client.login(options).ok());
    return client;
  }
};

TEST_F(SessionTest, OnlyCommandsAdvanceExpCmdSn) {
  RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
  const uint32_t n = client.cmd_sn();
  const Bytes data = pattern(65536, 1);
  const uint32_t tag = client.send_command(
      write10(0, 128), {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = 65536, .immediate_data = {}});
  const Outcome written =
      client.finish(tag, data, [](uint32_t length) { return std::vector<uint32_t>(8, length / 8); });
  ASSERT_TRUE(written.good()) << written.text();
  EXPECT_EQ(written.exp_cmd_sn, n + 1) << "Data-Outs carry no CmdSN";
  EXPECT_EQ(client.ping(pattern(16, 2)).exp_cmd_sn, n + 1) << "an immediate PDU leaves it alone";

  auto abort = make<iscsi::TaskManagementRequest>(Opcode::task_management_request, 0x81);
  abort.opcode_byte |= iscsi::kImmediate;
  abort.initiator_task_tag = client.next_task_tag();
  abort.referenced_task_tag = 0x12345678;
  abort.cmd_sn = client.cmd_sn();
  abort.ref_cmd_sn = n;
  ASSERT_TRUE(client.send(abort));
  Pdu answer;
  ASSERT_EQ(client.receive(answer), Arrived::pdu);
  EXPECT_TRUE(answer.opcode() == Opcode::task_management_response || answer.opcode() == Opcode::reject);
  EXPECT_EQ(client.exp_cmd_sn(), n + 1);

  const Outcome read = client.command_in(read10(0, 128), 65536);
  EXPECT_TRUE(read.data == data);
  EXPECT_EQ(read.exp_cmd_sn, n + 2);
  EXPECT_TRUE(client.stat_sn_in_order());
}

TEST_F(SessionTest, CommandsOutsideTheWindowAreDroppedInSilence) {
  RawClient client = logged_in();
  ASSERT_TRUE(client.command_in(read10(0, 1), 512).good());
  const uint32_t expected = client.cmd_sn();
  for (const uint32_t wrong : {client.max_cmd_sn() + 1, client.max_cmd_sn() + 1000, expected - 1, expected - 1000}) {
    client.send_command(read10(0, 1), {.flags = kRead, .edtl = 512, .immediate_data = {}, .cmd_sn = wrong});
    Pdu answer;
    EXPECT_EQ(client.receive(answer, kSilenceLimit), Arrived::nothing) << "CmdSN " << wrong - expected << " off";
  }
  EXPECT_TRUE(client.command_in(read10(0, 1), 512).good());
  EXPECT_TRUE(client.stat_sn_in_order());
}

// One connection delivers in order, so a gap never closes: the command may wait, or the session may end; it is not
// executed.
TEST_F(SessionTest, CommandAfterAGapIsNotExecuted) {
  RawClient client = logged_in();
  client.send_command(write10(0, 1), {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                                      .edtl = 512,
                                      .immediate_data = pattern(512, 3),
                                      .cmd_sn = client.cmd_sn() + 1});
  Pdu answer;
  if (client.receive(answer, kSilenceLimit) == Arrived::pdu) {
    EXPECT_EQ(answer.opcode(), Opcode::reject);
  }
  EXPECT_TRUE(logged_in({}, 0x8000000000cc).command_in(read10(0, 1), 512).data == Bytes(512));
  expect_alive();
}

TEST_F(SessionTest, WindowIsOpenAndNeverShrinks) {
  RawClient client = logged_in();
  uint32_t highest = client.max_cmd_sn();
  EXPECT_GE(highest - client.cmd_sn() + 1, 16u) << "too small a window for an initiator's queue";
  for (int i = 0; i < 200; ++i) {
    const Outcome outcome = client.command_in(read10(static_cast<uint32_t>(i), 1), 512);
    ASSERT_TRUE(outcome.good()) << outcome.text();
    EXPECT_TRUE(iscsi::sn_less_equal(highest, outcome.max_cmd_sn)) << "MaxCmdSN went back";
    highest = outcome.max_cmd_sn;
  }
  EXPECT_TRUE(client.stat_sn_in_order());
}

TEST_F(SessionTest, PingEchoesItsData) {
  RawClient client = logged_in();
  for (const size_t bytes : {0u, 1u, 3u, 4u, 512u, 4096u}) {
    const Bytes data = pattern(bytes, bytes);
    const Outcome outcome = client.ping(data);
    ASSERT_EQ(outcome.arrived, Arrived::pdu) << bytes;
    EXPECT_TRUE(outcome.data == data) << bytes;
  }
  EXPECT_TRUE(client.stat_sn_in_order());
}

TEST_F(SessionTest, PingIsCutAtTheInitiatorsOwnLimit) {
  RawClient client =
      logged_in({{"MaxRecvDataSegmentLength", "512"}, {"MaxBurstLength", "512"}, {"FirstBurstLength", "512"}});
  const Bytes data = pattern(4096, 1);
  const Outcome outcome = client.ping(data);
  ASSERT_EQ(outcome.arrived, Arrived::pdu);
  EXPECT_LE(outcome.data.size(), 512u);
  EXPECT_TRUE(std::equal(outcome.data.begin(), outcome.data.end(), data.begin()));
}

TEST_F(SessionTest, PingWithoutATagGetsNoAnswer) {
  RawClient client = logged_in();
  auto nop = make<iscsi::NopOut>(Opcode::nop_out);
  nop.opcode_byte |= iscsi::kImmediate;
  nop.initiator_task_tag = iscsi::kReservedTag;
  nop.target_transfer_tag = iscsi::kReservedTag;
  nop.cmd_sn = client.cmd_sn();
  ASSERT_TRUE(client.send(nop));
  Pdu answer;
  EXPECT_EQ(client.receive(answer, kSilenceLimit), Arrived::nothing);
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(SessionTest, LogoutClosesTheSessionWhateverTheCid) {
  for (const uint16_t cid : {uint16_t{0}, uint16_t{0x1234}, uint16_t{7}}) {
    RawClient client = logged_in_with(7);
    const auto answer = client.logout_request(0, cid);
    ASSERT_EQ(answer.arrived, Arrived::pdu);
    EXPECT_EQ(answer.response, 0) << "CID " << cid;
    EXPECT_TRUE(client.closed_by_peer());
  }
}

TEST_F(SessionTest, LogoutOfTheOwnConnection) {
  for (const bool immediate : {true, false}) {
    RawClient client = logged_in_with(7);
    EXPECT_EQ(client.logout_request(1, 7, immediate).response, 0);
    EXPECT_TRUE(client.closed_by_peer());
  }
}

TEST_F(SessionTest, LogoutOfAnUnknownConnectionIsNotFound) {
  RawClient client = logged_in_with(7);
  EXPECT_EQ(client.logout_request(1, 8).response, 1);
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good()) << "the session lives on";
}

TEST_F(SessionTest, LogoutForRecoveryIsNotSupported) {
  RawClient client = logged_in_with(7);
  EXPECT_EQ(client.logout_request(2, 7).response, 2);
}

TEST_F(SessionTest, LogoutForAReasonThatDoesNotExistIsRejected) {
  RawClient client = logged_in_with(7);
  for (const uint8_t reason : {uint8_t{3}, uint8_t{0x7f}}) {
    const auto answer = client.logout_request(reason, 7, true);
    EXPECT_EQ(answer.arrived, Arrived::pdu);
    EXPECT_TRUE(answer.rejected) << "reason " << int{reason} << " response " << int{answer.response};
  }
  EXPECT_TRUE(client.ping(pattern(4, 1)).good());
}

TEST_F(SessionTest, DiscoverySessionLogsOutAsAWholeOnly) {
  for (const uint8_t reason : {uint8_t{1}, uint8_t{2}}) {
    RawClient client = logged_in_with(7, true);
    const auto answer = client.logout_request(reason, 9);
    EXPECT_TRUE(answer.rejected || answer.response != 0) << "reason " << int{reason};
  }
  RawClient client = logged_in_with(7, true);
  EXPECT_EQ(client.logout_request(0, 0).response, 0);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(SessionTest, LogoutWithReadsOutstanding) {
  RawClient client = logged_in();
  for (uint32_t i = 0; i < 16; ++i)
    client.send_command(read10(i * 128, 128), {.flags = kRead, .edtl = 65536, .immediate_data = {}});
  EXPECT_TRUE(client.logout());
  expect_alive();
}

TEST_F(SessionTest, LogoutWithAWriteThatWaitsForItsData) {
  RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
  client.send_command(write10(0, 128),
                      {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = 65536, .immediate_data = {}});
  EXPECT_TRUE(client.logout());
  expect_alive();
}

TEST_F(SessionTest, HalfClosedConnectionEnds) {
  RawClient client = logged_in();
  client.finish_sending();
  EXPECT_TRUE(client.closed_by_peer());
  expect_alive();
}

TEST_F(SessionTest, ConnectionsThatBreakOffInAnyState) {
  for (int round = 0; round < 40; ++round) {
    RawClient client =
        logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}}, 0x800000000100 + static_cast<uint64_t>(round));
    for (uint32_t i = 0; i < 8; ++i) {
      if (round % 2 == 0)
        client.send_command(write10(1024 + i * 8, 8),
                            {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = 4096, .immediate_data = {}});
      else
        client.send_command(read10(i * 128, 128), {.flags = kRead, .edtl = 65536, .immediate_data = {}});
    }
    if (round % 3 == 0)
      client.close();
    else
      client.reset();
  }
  expect_alive();
}

TEST_F(SessionTest, TextRequestWithoutKeysAndWithAnUnknownOne) {
  RawClient client = logged_in();
  const auto unknown = client.text(std::string("X-org.example.test=1\0", 21));
  ASSERT_EQ(unknown.arrived, Arrived::pdu);
  EXPECT_EQ(unknown.text, std::string("X-org.example.test=NotUnderstood\0", 33));
  const auto empty = client.text("");
  ASSERT_EQ(empty.arrived, Arrived::pdu);
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(SessionTest, ReservedTaskTagOfACommandDoesNoHarm) {
  RawClient client = logged_in();
  auto request = make<iscsi::ScsiCommand>(Opcode::scsi_command);
  request.initiator_task_tag = iscsi::kReservedTag;
  request.cmd_sn = client.cmd_sn();
  ASSERT_TRUE(client.send(request));
  Pdu answer;
  EXPECT_NE(client.receive(answer), Arrived::nothing) << "an answer, a Reject or the end";
  expect_alive();
}

}  // namespace
}  // namespace zvolt::test
