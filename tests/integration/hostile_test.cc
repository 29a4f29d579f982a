// Input that no initiator should send: other protocols, PDUs out of phase, headers that lie about lengths, connections
// that break off. After each the same daemon still serves.
#include <gtest/gtest.h>

#include <set>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

using iscsi::Opcode;

class Hostile : public RunningDaemon {
 protected:
  RawClient connected() {
    RawClient client;
    EXPECT_TRUE(client.connect(daemon_.port()));
    return client;
  }
  // A connection between the stages of its login.
  RawClient half_logged_in() {
    RawClient client = connected();
    LoginOptions options;
    const Keys names = {{"InitiatorName", options.initiator},
                        {"TargetName", kTargetName},
                        {"SessionType", "Normal"},
                        {"AuthMethod", "None"}};
    EXPECT_TRUE(client.login_step(options, 0, 1, true, names).ok());
    return client;
  }
};

Bytes header_bytes(uint8_t opcode_byte, uint8_t flags = iscsi::kFinal) {
  Bytes bytes(48);
  bytes[0] = opcode_byte;
  bytes[1] = flags;
  put32(&bytes[16], 0x4711);
  return bytes;
}

// PDUs with a sound header that have no place before full feature phase.
std::vector<Bytes> early_pdus() {
  Bytes read = header_bytes(0x01, 0x80 | 0x40);
  put32(&read[20], 512);
  const Cdb cdb = read10(0, 1);
  std::copy(cdb.begin(), cdb.end(), read.begin() + 32);
  return {header_bytes(0x40), read,     header_bytes(0x04), header_bytes(0x46), header_bytes(0x05),
          header_bytes(0x3f), Bytes(48)};
}

// What port scanners and lost clients send.
std::vector<Bytes> foreign_bytes() {
  const std::string http = "GET / HTTP/1.0\r\nHost: storage.example.org\r\nUser-Agent: scanner/1.0\r\n\r\n";
  Bytes tls = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
  tls.resize(517, 0x5c);
  return {Bytes(http.begin(), http.end()), tls, Bytes(4096, 0xff), pattern(4096, 3)};
}

TEST_F(Hostile, FirstPduThatIsNoLoginDropsTheConnection) {
  for (const Bytes& bytes : early_pdus()) {
    RawClient client = connected();
    client.send_bytes(bytes);
    EXPECT_TRUE(client.closed_by_peer()) << "opcode " << int{bytes[0]};
  }
  expect_alive();
}

TEST_F(Hostile, ForeignProtocolDropsTheConnection) {
  for (const Bytes& bytes : foreign_bytes()) {
    RawClient client = connected();
    client.send_bytes(bytes);
    EXPECT_TRUE(client.closed_by_peer()) << "first byte " << int{bytes[0]};
  }
  expect_alive();
}

TEST_F(Hostile, OtherPduDuringLoginIsInvalidDuringLogin) {
  for (const Bytes& bytes : early_pdus()) {
    RawClient client = half_logged_in();
    client.send_bytes(bytes);
    Pdu answer;
    ASSERT_EQ(client.receive(answer), Arrived::pdu) << "opcode " << int{bytes[0]};
    ASSERT_EQ(answer.opcode(), Opcode::login_response) << "opcode " << int{bytes[0]};
    EXPECT_EQ(answer.as<iscsi::LoginResponse>().status_class, 0x02);
    EXPECT_EQ(answer.as<iscsi::LoginResponse>().status_detail, 0x0b);
    EXPECT_TRUE(client.closed_by_peer());
  }
  expect_alive();
}

TEST_F(Hostile, ForeignProtocolDuringLoginEndsIt) {
  for (const Bytes& bytes : foreign_bytes()) {
    RawClient client = half_logged_in();
    client.send_bytes(bytes);
    Pdu answer;
    const Arrived arrived = client.receive(answer);
    EXPECT_TRUE(arrived == Arrived::closed ||
                (arrived == Arrived::pdu && answer.opcode() == Opcode::login_response && client.closed_by_peer()));
  }
  expect_alive();
}

TEST_F(Hostile, ResetRightAfterAnEarlyPduLeavesNothingBehind) {
  for (int round = 0; round < 50; ++round) {
    RawClient client = round % 2 == 0 ? half_logged_in() : connected();
    client.send_bytes(early_pdus()[static_cast<size_t>(round) % early_pdus().size()]);
    client.reset();
  }
  expect_alive();
}

TEST_F(Hostile, LoginThatBreaksOffAnywhere) {
  auto request = make<iscsi::LoginRequest>(Opcode::login_request, 0x87);
  request.opcode_byte |= iscsi::kImmediate;
  request.data_segment_length = 100;
  Bytes bytes(148, 'x');
  std::memcpy(bytes.data(), &request, sizeof request);
  for (const size_t sent : {1u, 20u, 47u, 48u, 49u, 100u, 147u}) {
    RawClient client = connected();
    ASSERT_TRUE(client.send_bytes(std::span(bytes).first(sent)));
    client.finish_sending();
    EXPECT_TRUE(client.closed_by_peer()) << sent << " bytes";
    RawClient broken = connected();
    ASSERT_TRUE(broken.send_bytes(std::span(bytes).first(sent)));
    broken.reset();
  }
  expect_alive();
}

TEST_F(Hostile, OversizedLoginSegmentIsRefusedWithoutReadingIt) {
  auto request = make<iscsi::LoginRequest>(Opcode::login_request, 0x87);
  request.opcode_byte |= iscsi::kImmediate;
  request.data_segment_length = 0xffffff;
  RawClient client = connected();
  client.send(request, {}, {}, true);
  Pdu answer;
  const Arrived arrived = client.receive(answer);
  EXPECT_TRUE(arrived == Arrived::closed ||
              (answer.opcode() == Opcode::login_response && answer.as<iscsi::LoginResponse>().status_class == 2));
  expect_alive();
}

TEST_F(Hostile, SilentConnectionsDoNotBlockALogin) {
  std::vector<RawClient> silent(50);
  for (RawClient& client : silent) ASSERT_TRUE(client.connect(daemon_.port()));
  expect_alive();
}

TEST_F(Hostile, AdditionalHeaderSegmentsAreConsumedExactly) {
  RawClient client = logged_in();
  struct Case {
    uint16_t ahs_length;
    uint8_t type;
    size_t words;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{17, 1, 5}, Case{5, 2, 2}, Case{1, 0, 1}, Case{1, 0x3f, 1}, Case{500, 1, 2},
                        Case{0, 1, 1}, Case{0, 0, 255}, Case{1017, 1, 255}}) {
    auto request = make<iscsi::ScsiCommand>(Opcode::scsi_command);
    const uint32_t tag = client.next_task_tag();
    request.initiator_task_tag = tag;
    request.cmd_sn = client.cmd_sn();
    request.exp_stat_sn = client.exp_stat_sn();
    Bytes ahs(c.words * 4);
    put16(&ahs[0], c.ahs_length);
    ahs[2] = c.type;
    ASSERT_TRUE(client.send(request, {}, ahs));
    const Outcome outcome = client.finish(tag);
    ASSERT_EQ(outcome.arrived, Arrived::pdu) << "AHS type " << int{c.type} << " of " << c.words << " words";
    if (outcome.rejected) {
      EXPECT_TRUE(outcome.reject.reason == 0x04 || outcome.reject.reason == 0x09) << int{outcome.reject.reason};
    }
    client.set_cmd_sn(outcome.exp_cmd_sn);  // a rejected command may or may not have taken its CmdSN
    const Bytes echo = pattern(33, c.words);
    EXPECT_TRUE(client.ping(echo).data == echo) << "the stream is in step after AHS type " << int{c.type};
  }
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(Hostile, UnknownOpcodeIsRejectedWithItsHeader) {
  RawClient client = logged_in();
  for (const uint8_t opcode : {uint8_t{0x0b}, uint8_t{0x1c}, uint8_t{0x3f}, uint8_t{0x21}, uint8_t{0x10}}) {
    for (const size_t ahs_words : {0u, 255u}) {
      iscsi::BasicHeaderSegment bhs{};
      bhs.opcode_byte = static_cast<uint8_t>(opcode | iscsi::kImmediate);
      bhs.flags = iscsi::kFinal;
      bhs.initiator_task_tag = client.next_task_tag();
      ASSERT_TRUE(client.send(bhs, pattern(100, 1), Bytes(ahs_words * 4, 0xab)));
      Pdu answer;
      ASSERT_EQ(client.receive(answer), Arrived::pdu) << "opcode " << int{opcode};
      ASSERT_EQ(answer.opcode(), Opcode::reject) << "opcode " << int{opcode};
      const auto& reject = answer.as<iscsi::Reject>();
      std::set<int> reasons = {0x03, 0x04, 0x05};
      if (ahs_words > 0) reasons.insert(0x09);  // the header segments are an invalid field of their own
      EXPECT_TRUE(reasons.count(reject.reason)) << int{reject.reason};
      EXPECT_EQ(reject.tag.value(), iscsi::kReservedTag);
      ASSERT_EQ(answer.data.size(), 48u) << "the header of the rejected PDU";
      EXPECT_EQ(answer.data[0], bhs.opcode_byte);
      EXPECT_EQ(get32(&answer.data[16]), bhs.initiator_task_tag.value());
      EXPECT_TRUE(client.ping(pattern(4, opcode)).good()) << "the session lives on";
    }
  }
  EXPECT_TRUE(client.stat_sn_in_order());
}

TEST_F(Hostile, DataSegmentBeyondTheDeclaredLimitIsRefused) {
  for (const uint32_t bytes : {0xffffffu, logged_in().target_max_recv() + 1}) {
    RawClient client = logged_in();
    auto request = make<iscsi::ScsiCommand>(Opcode::scsi_command, 0x80 | iscsi::ScsiCommand::kWrite);
    request.data_segment_length = bytes;
    request.initiator_task_tag = client.next_task_tag();
    request.expected_data_transfer_length = 1u << 24;
    request.cmd_sn = client.cmd_sn();
    const Cdb cdb = write10(0, 0x8000);
    std::copy(cdb.begin(), cdb.end(), request.cdb);
    ASSERT_TRUE(client.send(request, {}, {}, true));
    client.send_bytes(Bytes(65536, 0x11));
    client.finish_sending();
    Pdu answer;
    const Arrived arrived = client.receive(answer);
    EXPECT_TRUE(arrived == Arrived::closed || (arrived == Arrived::pdu && answer.opcode() == Opcode::reject)) << bytes;
  }
  expect_alive();
}

TEST_F(Hostile, ConnectionThatEndsInsideAWrite) {
  const Bytes before = pattern(65536, 1);
  ASSERT_TRUE(logged_in().command_out(write10(0, 128), before).good());
  for (const size_t sent : {0u, 1u, 511u, 512u, 30000u}) {
    RawClient client = logged_in();
    auto request = make<iscsi::ScsiCommand>(Opcode::scsi_command, 0x80 | iscsi::ScsiCommand::kWrite);
    request.data_segment_length = 65536;
    request.initiator_task_tag = client.next_task_tag();
    request.expected_data_transfer_length = 65536;
    request.cmd_sn = client.cmd_sn();
    const Cdb cdb = write10(0, 128);
    std::copy(cdb.begin(), cdb.end(), request.cdb);
    ASSERT_TRUE(client.send(request, {}, {}, true));
    client.send_bytes(std::span<const uint8_t>(Bytes(sent, 0xee)));
    client.reset();
  }
  EXPECT_TRUE(logged_in().command_in(read10(0, 128), 65536).data == before) << "nothing of an unfinished write lands";
  expect_alive();
}

}  // namespace
}  // namespace zvolt::test
