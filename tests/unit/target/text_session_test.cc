// TextSession: SendTargets (appendix C), long answers over Target Transfer Tags (11.10.4), keys in full feature phase
// (6.4).
#include "target/login/text_session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/target/login_peer.h"

namespace zvolt::iscsi::test {
namespace {

using Answer = TextSession::Answer;

std::vector<DiscoveredTarget> some_targets(int n) {
  std::vector<DiscoveredTarget> targets;
  for (int i = 0; i < n; ++i) {
    targets.push_back({i == 0 ? kTarget : "iqn.2026-11.org.example:disk" + std::to_string(i),
                       {"192.0.2.1:3260,1", "[2001:db8::1]:3260,1"}});
  }
  return targets;
}

class TextSessionTest : public testing::Test {
 protected:
  void open(bool discovery, int targets = 3) {
    parameters.discovery = discovery;
    parameters.initiator_name = kInitiator;
    parameters.target_name = discovery ? "" : kTarget;
    session.emplace(parameters, [targets] { return some_targets(targets); });
  }
  Answer send(uint8_t flags, uint32_t tag, std::initializer_list<std::string_view> pairs) {
    return send_bytes(flags, tag, text_of(pairs));
  }
  Answer send_bytes(uint8_t flags, uint32_t tag, std::span<const uint8_t> text) {
    BasicHeaderSegment header{};
    auto& request = as<TextRequest>(header);
    request.opcode_byte = static_cast<uint8_t>(Opcode::text_request);
    request.flags = flags;
    request.initiator_task_tag = task_tag;
    request.target_transfer_tag = tag;
    request.data_segment_length = static_cast<uint32_t>(text.size());
    return session->receive(request, text);
  }
  Answer ask(std::initializer_list<std::string_view> pairs) { return send(kFinal, kReservedTag, pairs); }

  // "TargetName=a;TargetAddress=b;" for readable comparisons.
  static std::string flat(const Answer& answer) {
    std::string result(answer.text.begin(), answer.text.end());
    std::ranges::replace(result, '\0', ';');
    return result;
  }
  static void expect_final(const Answer& answer) {
    EXPECT_EQ(answer.kind, Answer::Kind::response);
    EXPECT_TRUE(answer.final);
    EXPECT_FALSE(answer.more);
    EXPECT_EQ(answer.target_transfer_tag, kReservedTag);
  }
  static void expect_reject(const Answer& answer, RejectReason reason) {
    EXPECT_EQ(answer.kind, Answer::Kind::reject);
    EXPECT_EQ(answer.reason, reason);
  }

  SessionParameters parameters;
  std::optional<TextSession> session;
  uint32_t task_tag = 0x21;
};

constexpr char kOwnRecord[] =
    "TargetName=iqn.2026-11.org.example:disk;TargetAddress=192.0.2.1:3260,1;TargetAddress=[2001:db8::1]:3260,1;";

TEST_F(TextSessionTest, DiscoveryAllListsEveryTargetWithItsAddresses) {
  open(true, 2);
  const Answer answer = ask({"SendTargets=All"});
  expect_final(answer);
  EXPECT_EQ(flat(answer), std::string(kOwnRecord) +
                              "TargetName=iqn.2026-11.org.example:disk1;TargetAddress=192.0.2.1:3260,1;"
                              "TargetAddress=[2001:db8::1]:3260,1;");
}

TEST_F(TextSessionTest, DiscoveryByNameListsThatTarget) {
  open(true);
  EXPECT_EQ(flat(ask({"SendTargets=iqn.2026-11.org.example:disk"})), kOwnRecord);
  EXPECT_EQ(flat(ask({"SendTargets=iqn.2026-11.org.example:DISK"})), kOwnRecord);
}

TEST_F(TextSessionTest, DiscoveryByNothingOrNonsenseIsAnEmptyList) {
  open(true);
  for (const char* request :
       {"SendTargets=", "SendTargets=nonsense", "SendTargets=iqn.2026-11.org.example:gone", "SendTargets=all"}) {
    const Answer answer = ask({request});
    expect_final(answer);
    EXPECT_EQ(flat(answer), "") << request;
  }
}

TEST_F(TextSessionTest, DiscoveryWithoutTargetsIsAnEmptyList) {
  open(true, 0);
  const Answer answer = ask({"SendTargets=All"});
  expect_final(answer);
  EXPECT_TRUE(answer.text.empty());
}

TEST_F(TextSessionTest, NormalSessionListsOnlyItsOwnTarget) {
  open(false);
  EXPECT_EQ(flat(ask({"SendTargets="})), kOwnRecord);
  EXPECT_EQ(flat(ask({"SendTargets=iqn.2026-11.org.example:disk"})), kOwnRecord);
  const Answer other = ask({"SendTargets=iqn.2026-11.org.example:disk1"});
  expect_final(other);
  EXPECT_EQ(flat(other), "");
}

TEST_F(TextSessionTest, NormalSessionRefusesAllAndLivesOn) {
  open(false);
  const Answer answer = ask({"SendTargets=All"});
  expect_final(answer);
  EXPECT_EQ(flat(answer), "SendTargets=Reject;");
  EXPECT_EQ(flat(ask({"SendTargets="})), kOwnRecord);
}

// 300 targets of two portals: every response within the initiator's limit, the whole complete, no pair lost at a cut.
class LongAnswer : public TextSessionTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(LongAnswer, ComesInPartsOfTheInitiatorsLength) {
  parameters.initiator_max_recv_data_segment_length = GetParam();
  open(true, 300);
  std::vector<uint8_t> whole;
  Answer answer = ask({"SendTargets=All"});
  for (int parts = 0; parts < 1000; ++parts) {
    ASSERT_EQ(answer.kind, Answer::Kind::response);
    ASSERT_LE(answer.text.size(), GetParam());
    whole.insert(whole.end(), answer.text.begin(), answer.text.end());
    if (answer.final) break;
    ASSERT_TRUE(answer.more);
    ASSERT_NE(answer.target_transfer_tag, kReservedTag);
    answer = send(kFinal, answer.target_transfer_tag, {});
  }
  expect_final(answer);
  std::vector<uint8_t> expected;
  for (const DiscoveredTarget& target : some_targets(300)) {
    append_text(expected, "TargetName", target.name);
    for (const std::string& address : target.addresses) append_text(expected, "TargetAddress", address);
  }
  EXPECT_EQ(whole, expected);
}
INSTANTIATE_TEST_SUITE_P(Lengths, LongAnswer, testing::Values(512, 513, 8192, 262144));

TEST_F(TextSessionTest, PartsWithoutFinalBitWaitForIt) {
  parameters.initiator_max_recv_data_segment_length = 512;
  open(true, 8);
  Answer answer = send(0, kReservedTag, {"SendTargets=All"});
  int parts = 1;
  while (answer.more && parts < 100) {
    EXPECT_FALSE(answer.final);
    answer = send(0, answer.target_transfer_tag, {});
    ++parts;
  }
  EXPECT_GT(parts, 1);
  EXPECT_FALSE(answer.final) << "F must not be set in answer to a request without F";
  EXPECT_NE(answer.target_transfer_tag, kReservedTag);
  answer = send(kFinal, answer.target_transfer_tag, {});
  expect_final(answer);
  EXPECT_TRUE(answer.text.empty());
}

TEST_F(TextSessionTest, NewRequestForgetsTheRestOfTheOld) {
  parameters.initiator_max_recv_data_segment_length = 512;
  open(true, 100);
  const Answer first = ask({"SendTargets=All"});
  ASSERT_TRUE(first.more);
  EXPECT_EQ(flat(ask({"SendTargets=iqn.2026-11.org.example:disk"})), kOwnRecord);
  expect_reject(send(kFinal, first.target_transfer_tag, {}), RejectReason::invalid_pdu_field);
}

TEST_F(TextSessionTest, UnknownTransferTagIsRejected) {
  open(true);
  expect_reject(send(kFinal, 0x1234, {}), RejectReason::invalid_pdu_field);
  expect_final(ask({"SendTargets=All"}));
}

TEST_F(TextSessionTest, ContinuationUnderAnotherTaskTagIsRejected) {
  parameters.initiator_max_recv_data_segment_length = 512;
  open(true, 100);
  const Answer first = ask({"SendTargets=All"});
  task_tag = 0x22;
  expect_reject(send(kFinal, first.target_transfer_tag, {}), RejectReason::invalid_pdu_field);
}

TEST_F(TextSessionTest, TextWhileOurAnswerIsUnfinishedIsRejected) {
  parameters.initiator_max_recv_data_segment_length = 512;
  open(true, 100);
  const Answer first = ask({"SendTargets=All"});
  expect_reject(send(kFinal, first.target_transfer_tag, {"SendTargets=All"}), RejectReason::protocol_error);
}

TEST_F(TextSessionTest, RequestInPartsIsJoined) {
  open(true);
  const auto text = text_of({"SendTargets=iqn.2026-11.org.example:disk"});
  Answer answer = send_bytes(TextRequest::kContinue, kReservedTag, std::span(text).first(5));
  EXPECT_TRUE(answer.text.empty());
  EXPECT_FALSE(answer.final);
  EXPECT_FALSE(answer.more);
  ASSERT_NE(answer.target_transfer_tag, kReservedTag);
  answer = send_bytes(TextRequest::kContinue, answer.target_transfer_tag, std::span(text).subspan(5, 10));
  answer = send_bytes(kFinal, answer.target_transfer_tag, std::span(text).subspan(15));
  expect_final(answer);
  EXPECT_EQ(flat(answer), kOwnRecord);
}

TEST_F(TextSessionTest, ContinueWithFinalIsRejected) {
  open(true);
  expect_reject(send(kFinal | TextRequest::kContinue, kReservedTag, {"SendTargets=All"}), RejectReason::protocol_error);
}

TEST_F(TextSessionTest, RequestTextIsBounded) {
  open(true);
  const std::vector<uint8_t> part(8192, 'x');
  Answer answer = send_bytes(TextRequest::kContinue, kReservedTag, part);
  int parts = 1;
  for (; answer.kind == Answer::Kind::response && parts < 100; ++parts) {
    answer = send_bytes(TextRequest::kContinue, answer.target_transfer_tag, part);
  }
  expect_reject(answer, RejectReason::long_operation_reject);
  EXPECT_EQ(parts, 9);
}

TEST_F(TextSessionTest, TextThatIsNoListIsRejected) {
  open(true);
  const std::vector<uint8_t> bad = {'A', '=', '1'};
  expect_reject(send_bytes(kFinal, kReservedTag, bad), RejectReason::protocol_error);
  expect_reject(ask({"NoEquals"}), RejectReason::protocol_error);
}

TEST_F(TextSessionTest, SendTargetsWithOtherKeysIsRejected) {
  open(true);
  expect_reject(ask({"SendTargets=All", "MaxRecvDataSegmentLength=8192"}), RejectReason::protocol_error);
  expect_reject(ask({"SendTargets=All", "SendTargets=All"}), RejectReason::protocol_error);
}

TEST_F(TextSessionTest, UnknownKeysAreNotUnderstood) {
  open(false);
  const Answer answer = ask({"Foo=1", "X-com.example.k=2"});
  expect_final(answer);
  EXPECT_EQ(flat(answer), "Foo=NotUnderstood;X-com.example.k=NotUnderstood;");
}

TEST_F(TextSessionTest, LoginKeysAreAnsweredReject) {
  open(false);
  const Answer answer = ask({"MaxBurstLength=512", "HeaderDigest=CRC32C", "InitiatorName=iqn.2001-04.com.example"});
  expect_final(answer);
  EXPECT_EQ(flat(answer), "MaxBurstLength=Reject;HeaderDigest=Reject;InitiatorName=Reject;");
  EXPECT_EQ(parameters.max_burst_length, 262144u);
  EXPECT_EQ(parameters.initiator_name, kInitiator);
}

TEST_F(TextSessionTest, ReceiveLengthTakesEffectWhenTheSequenceEnds) {
  open(false);
  parameters.initiator_max_recv_data_segment_length = 8192;
  parameters.target_max_recv_data_segment_length = 131072;
  Answer answer = send(0, kReservedTag, {"MaxRecvDataSegmentLength=65536"});
  EXPECT_EQ(flat(answer), "MaxRecvDataSegmentLength=131072;");
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 8192u);
  answer = send(kFinal, answer.target_transfer_tag, {});
  expect_final(answer);
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 65536u);
}

TEST_F(TextSessionTest, AbandonedNegotiationChangesNothing) {
  open(false);
  parameters.initiator_max_recv_data_segment_length = 8192;
  send(0, kReservedTag, {"MaxRecvDataSegmentLength=65536"});
  expect_final(ask({"InitiatorAlias=new"}));
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 8192u);
  EXPECT_EQ(parameters.initiator_alias, "new");
}

TEST_F(TextSessionTest, IllegalReceiveLengthIsAnsweredReject) {
  open(false);
  EXPECT_EQ(flat(ask({"MaxRecvDataSegmentLength=100"})), "MaxRecvDataSegmentLength=Reject;");
  EXPECT_EQ(parameters.initiator_max_recv_data_segment_length, 8192u);
}

TEST_F(TextSessionTest, RepeatedKeyInOneSequenceIsRejected) {
  open(false);
  expect_reject(ask({"InitiatorAlias=a", "InitiatorAlias=a"}), RejectReason::protocol_error);
  const Answer answer = send(0, kReservedTag, {"InitiatorAlias=a"});
  expect_reject(send(kFinal, answer.target_transfer_tag, {"InitiatorAlias=a"}), RejectReason::protocol_error);
  expect_final(ask({"InitiatorAlias=a"}));
  expect_final(ask({"InitiatorAlias=b"}));
}

TEST_F(TextSessionTest, EmptyRequestIsAnsweredEmpty) {
  open(false);
  const Answer answer = ask({});
  expect_final(answer);
  EXPECT_TRUE(answer.text.empty());
}

}  // namespace
}  // namespace zvolt::iscsi::test
