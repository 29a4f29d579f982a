// LoginNegotiator: stages, T and C bits, refusals (RFC 7143 6.3, 11.12, 11.13).
#include "target/login/login.h"

#include <gtest/gtest.h>

#include "tests/unit/target/login_peer.h"

namespace zvolt::iscsi::test {
namespace {

constexpr uint8_t kSecurity = 0, kOperational = 1;
constexpr int kFull = 3;

const std::string kNameKey = std::string("InitiatorName=") + kInitiator;
const std::string kTargetKey = std::string("TargetName=") + kTarget;

std::vector<uint8_t> named(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {kNameKey, kTargetKey});
  return text_of(more);
}

TEST(Login, OnePduFromOperationalToFullFeature) {
  LoginPeer peer;
  const LoginStep step = peer.send(kOperational, kFull, named());
  EXPECT_TRUE(step.ready);
  EXPECT_EQ(step.header.flags, 0x87);
  EXPECT_EQ(peer.negotiator.parameters().initiator_name, kInitiator);
  EXPECT_EQ(peer.negotiator.parameters().target_name, kTarget);
  EXPECT_FALSE(peer.negotiator.parameters().discovery);
}

TEST(Login, HeaderValuesAreKept) {
  LoginPeer peer;
  peer.cid = 7;
  peer.tsih = 0x1234;
  peer.cmd_sn = 0xfffffff0;
  peer.exp_stat_sn = 99;
  const LoginStep step = peer.send(kOperational, kFull, named());
  EXPECT_TRUE(step.ready);
  EXPECT_EQ(peer.negotiator.requested_tsih(), 0x1234);
  EXPECT_EQ(as<LoginResponse>(step.header).tsih.value(), 0x1234);
  EXPECT_EQ(peer.negotiator.initial_cmd_sn(), 0xfffffff0u);
  EXPECT_EQ(peer.negotiator.initial_exp_stat_sn(), 99u);
  EXPECT_EQ(peer.negotiator.parameters().cid, 7);
  EXPECT_EQ(peer.negotiator.parameters().isid, (std::array<uint8_t, 6>{0x00, 0x02, 0x3d, 0x00, 0x00, 0x01}));
}

TEST(Login, DirectoryIsAskedWithFoldedNamesAndThePortalGroup) {
  LoginPeer peer({}, 9);
  peer.send(kOperational, kFull,
            text_of({"InitiatorName=iqn.1991-05.com.Microsoft:HOST", "TargetName=iqn.2026-11.org.example:DISK"}));
  EXPECT_EQ(peer.directory.asked_initiator, "iqn.1991-05.com.microsoft:host");
  EXPECT_EQ(peer.directory.asked_target, kTarget);
  EXPECT_EQ(peer.directory.asked_group, 9);
}

TEST(Login, PortalGroupTagComesOnceInTheFirstAnswer) {
  LoginPeer peer({}, 17);
  peer.send(kSecurity, kOperational, named({"AuthMethod=None"}));
  EXPECT_EQ(peer.answer("TargetPortalGroupTag"), "17");
  peer.send(kOperational, kFull);
  EXPECT_EQ(peer.answer("TargetPortalGroupTag"), std::nullopt);
}

TEST(Login, PortalGroupTagWaitsForTheEndOfAContinuedRequest) {
  LoginPeer peer;
  const auto text = named({"HeaderDigest=None"});
  peer.send(kOperational, kStay, std::span(text).first(20), true);
  EXPECT_TRUE(peer.answers.empty());
  const LoginStep step = peer.send(kOperational, kFull, std::span(text).subspan(20));
  EXPECT_TRUE(step.ready);
  EXPECT_EQ(peer.count("TargetPortalGroupTag"), 1u);
  EXPECT_EQ(peer.answer("HeaderDigest"), "None");
}

TEST(Login, AliasIsDeclaredWhenSet) {
  LoginPeer with, without;
  with.directory.alias = "Bob's disk";
  with.send(kOperational, kFull, named());
  without.send(kOperational, kFull, named());
  EXPECT_EQ(with.answer("TargetAlias"), "Bob's disk");
  EXPECT_EQ(without.answer("TargetAlias"), std::nullopt);
}

TEST(Login, OurReceiveLengthIsDeclaredOnceInTheOperationalStage) {
  LoginPeer peer({.max_recv_data_segment_length = 131072});
  peer.send(kSecurity, kOperational, named());
  EXPECT_EQ(peer.answer("MaxRecvDataSegmentLength"), std::nullopt);
  EXPECT_EQ(peer.negotiator.parameters().target_max_recv_data_segment_length, 8192u);
  peer.send(kOperational, kStay, {"MaxRecvDataSegmentLength=65536"});
  EXPECT_EQ(peer.count("MaxRecvDataSegmentLength"), 1u);
  EXPECT_EQ(peer.answer("MaxRecvDataSegmentLength"), "131072");
  peer.send(kOperational, kFull);
  EXPECT_EQ(peer.count("MaxRecvDataSegmentLength"), 0u);
  EXPECT_EQ(peer.negotiator.parameters().target_max_recv_data_segment_length, 131072u);
  EXPECT_EQ(peer.negotiator.parameters().initiator_max_recv_data_segment_length, 65536u);
}

TEST(Login, StraightFromSecurityToFullFeatureKeepsDefaults) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kSecurity, kFull, named({"AuthMethod=None"})).ready);
  const SessionParameters& p = peer.negotiator.parameters();
  EXPECT_EQ(p.target_max_recv_data_segment_length, 8192u);
  EXPECT_EQ(p.max_burst_length, 262144u);
  EXPECT_TRUE(p.initial_r2t);
  EXPECT_EQ(p.default_time2retain, 20);
}

TEST(Login, StayingInAStageIsAnsweredWithoutTransit) {
  LoginPeer peer;
  EXPECT_EQ(peer.send(kSecurity, kStay, named()).header.flags, 0x00);
  EXPECT_EQ(peer.send(kSecurity, kOperational).header.flags, 0x81);
  EXPECT_EQ(peer.send(kOperational, kStay).header.flags, 0x04);
  EXPECT_EQ(peer.send(kOperational, kFull).header.flags, 0x87);
}

TEST(Login, OfTenPdusWorks) {
  LoginPeer peer;
  peer.send(kSecurity, kStay, named());
  peer.send(kSecurity, kStay, {"AuthMethod=None"});
  peer.send(kSecurity, kOperational);
  for (const char* key : {"HeaderDigest=None", "InitialR2T=No", "ImmediateData=Yes", "MaxBurstLength=262144",
                          "FirstBurstLength=65536", "ErrorRecoveryLevel=0"}) {
    const LoginStep step = peer.send(kOperational, kStay, {key});
    ASSERT_EQ(step.status, LoginStatus::success) << key;
  }
  EXPECT_TRUE(peer.send(kOperational, kFull).ready);
  EXPECT_FALSE(peer.negotiator.parameters().initial_r2t);
}

TEST(Login, EndlessNegotiationIsCutOff) {
  LoginPeer peer;
  peer.send(kOperational, kStay, named());
  LoginStep step;
  unsigned requests = 0;
  do step = peer.send(kOperational, kStay);
  while (!step.close && ++requests < 100000);
  EXPECT_EQ(step.status, LoginStatus::initiator_error);
  EXPECT_GT(requests, 6u);  // RFC 7143 6.2: allow at least six exchanges
}

TEST(Login, AfterTheEndEverythingIsDropped) {
  LoginPeer peer;
  ASSERT_TRUE(peer.send(kOperational, kFull, named()).ready);
  EXPECT_TRUE(peer.send(kOperational, kFull).drop);
  LoginPeer refused;
  ASSERT_TRUE(refused.send(kOperational, kFull).close);
  EXPECT_TRUE(refused.send(kOperational, kFull, named()).drop);
}

TEST(Login, SessionLayerCanRefuseAReadyLogin) {
  LoginPeer peer;
  peer.task_tag = 0xabcd;
  ASSERT_TRUE(peer.send(kOperational, kFull, named()).ready);
  const LoginStep step = peer.negotiator.refuse(LoginStatus::session_does_not_exist);
  EXPECT_TRUE(step.close);
  EXPECT_EQ(status_of(step), "0x020a");
  EXPECT_EQ(as<LoginResponse>(step.header).status_class, 0x02);
  EXPECT_EQ(as<LoginResponse>(step.header).status_detail, 0x0a);
  EXPECT_EQ(as<LoginResponse>(step.header).initiator_task_tag.value(), 0xabcdu);
  EXPECT_EQ(step.header.flags, 0);
}

// --- refusals ---

TEST(LoginRefusals, MissingNames) {
  LoginPeer no_initiator, no_target, nothing;
  EXPECT_EQ(status_of(no_initiator.send(kOperational, kFull, text_of({kTargetKey}))), "0x0207");
  EXPECT_EQ(status_of(no_target.send(kOperational, kFull, text_of({kNameKey}))), "0x0207");
  EXPECT_EQ(status_of(nothing.send(kSecurity, kOperational)), "0x0207");
}

TEST(LoginRefusals, UnknownAndForbiddenTarget) {
  LoginPeer unknown, forbidden;
  EXPECT_EQ(
      status_of(unknown.send(kSecurity, kOperational, text_of({kNameKey, "TargetName=iqn.2026-11.org.example:other"}))),
      "0x0203");
  EXPECT_EQ(status_of(forbidden.send(kSecurity, kOperational,
                                     text_of({kNameKey, "TargetName=iqn.2026-11.org.example:private"}))),
            "0x0202");
}

TEST(LoginRefusals, NamesOfNoLegalForm) {
  LoginPeer initiator, target;
  EXPECT_EQ(status_of(initiator.send(kOperational, kFull, text_of({"InitiatorName=host", kTargetKey}))), "0x0200");
  EXPECT_EQ(status_of(target.send(kOperational, kFull, text_of({kNameKey, "TargetName=disk"}))), "0x0200");
}

TEST(LoginRefusals, VersionThatWeDoNotSpeak) {
  LoginPeer peer;
  peer.version_min = peer.version_max = 1;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, named())), "0x0205");
  LoginPeer newer;  // speaks 0 to 2
  newer.version_max = 2;
  EXPECT_TRUE(newer.send(kOperational, kFull, named()).ready);
}

TEST(LoginRefusals, UnknownSessionType) {
  LoginPeer peer;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, named({"SessionType=Boot"}))), "0x0209");
}

TEST(LoginRefusals, AuthMethodsWithoutNone) {
  for (const char* offer : {"AuthMethod=CHAP", "AuthMethod=KRB5,SRP,CHAP", "AuthMethod=", "AuthMethod=none"}) {
    LoginPeer peer;
    EXPECT_EQ(status_of(peer.send(kSecurity, kOperational, named({offer}))), "0x0201") << offer;
  }
}

TEST(LoginRefusals, IllegalStages) {
  const struct {
    uint8_t csg;
    int nsg;
  } illegal[] = {{2, kStay}, {3, kStay}, {2, 3}, {3, 3}, {0, 0}, {0, 2}, {1, 0}, {1, 1}, {1, 2}};
  for (const auto& [csg, nsg] : illegal) {
    LoginPeer peer;
    EXPECT_EQ(status_of(peer.send(csg, nsg, named())), "0x0200") << int{csg} << "->" << nsg;
  }
}

TEST(LoginRefusals, StageThatIsNotTheCurrentOne) {
  LoginPeer back, ahead;
  back.send(kSecurity, kOperational, named());
  EXPECT_EQ(status_of(back.send(kSecurity, kOperational)), "0x0200");
  ahead.send(kSecurity, kStay, named());
  EXPECT_EQ(status_of(ahead.send(kOperational, kFull)), "0x0200");
}

TEST(LoginRefusals, ContinueWithTransit) {
  LoginPeer peer;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, named(), true)), "0x0200");
}

TEST(LoginRefusals, ChangedIdentityWithinOneLogin) {
  const auto change = [](void (*edit)(LoginPeer&)) {
    LoginPeer peer;
    peer.send(kOperational, kStay, named());
    edit(peer);
    return status_of(peer.send(kOperational, kFull));
  };
  EXPECT_EQ(change([](LoginPeer& p) { p.isid[5] = 9; }), "0x0200");
  EXPECT_EQ(change([](LoginPeer& p) { p.tsih = 9; }), "0x0200");
  EXPECT_EQ(change([](LoginPeer& p) { p.cid = 9; }), "0x0200");
  EXPECT_EQ(change([](LoginPeer& p) { p.task_tag = 9; }), "0x0200");
  EXPECT_EQ(change([](LoginPeer& p) { p.cmd_sn = 9; }), "0x0000") << "CmdSN may rise (11.12.8)";
}

TEST(LoginRefusals, RepeatedKey) {
  LoginPeer same_pdu, next_pdu;
  EXPECT_EQ(status_of(same_pdu.send(kOperational, kFull, named({"MaxBurstLength=8192", "MaxBurstLength=8192"}))),
            "0x0200");
  next_pdu.send(kOperational, kStay, named({"HeaderDigest=None"}));
  EXPECT_EQ(status_of(next_pdu.send(kOperational, kFull, {"HeaderDigest=None"})), "0x0200");
}

TEST(LoginRefusals, RepeatedNameWithAnotherValue) {
  LoginPeer peer;
  peer.send(kSecurity, kOperational, named());
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, text_of({"InitiatorName=iqn.1993-08.org.debian:01:other"}))),
            "0x0200");
  LoginPeer type;
  type.send(kSecurity, kOperational, named({"SessionType=Normal"}));
  EXPECT_EQ(status_of(type.send(kOperational, kFull, text_of({"SessionType=Discovery"}))), "0x0200");
}

// libiscsi (QEMU, Proxmox) declares its names in both stages.
TEST(Login, RepeatedNameWithTheSameValueIsAccepted) {
  LoginPeer peer;
  const auto names = named({"InitiatorAlias=host", "SessionType=Normal"});
  peer.send(kSecurity, kOperational, names);
  EXPECT_TRUE(peer.send(kOperational, kFull, names).ready);
}

TEST(LoginRefusals, OperationalKeyInSecurityStage) {
  LoginPeer peer;
  EXPECT_EQ(status_of(peer.send(kSecurity, kOperational, named({"MaxBurstLength=8192"}))), "0x0200");
}

TEST(LoginRefusals, KeysThatAreNotForLogin) {
  LoginPeer auth, send_targets, alias;
  EXPECT_EQ(status_of(auth.send(kOperational, kFull, named({"AuthMethod=None"}))), "0x0200");
  EXPECT_EQ(status_of(send_targets.send(kOperational, kFull, named({"SendTargets=All"}))), "0x0200");
  EXPECT_EQ(status_of(alias.send(kOperational, kFull, named({"TargetAlias=mine"}))), "0x0200");
}

TEST(LoginRefusals, ReservedValuesAsProposals) {
  for (const char* value : {"Reject", "Irrelevant", "NotUnderstood"}) {
    LoginPeer known, unknown;
    EXPECT_EQ(status_of(known.send(kOperational, kFull, named({std::string("MaxBurstLength=") + value}))), "0x0200");
    EXPECT_EQ(status_of(unknown.send(kOperational, kFull, named({std::string("Foo=") + value}))), "0x0200");
  }
}

TEST(Login, ReservedValuesAsAnswersToOurDeclarationsAreIgnored) {
  LoginPeer peer;
  peer.send(kOperational, kStay, named());
  EXPECT_TRUE(
      peer.send(kOperational, kFull, {"TargetPortalGroupTag=NotUnderstood", "TargetAlias=NotUnderstood"}).ready);
}

TEST(LoginRefusals, LeadingOnlyKeysOnAConnectionThatJoins) {
  LoginPeer peer;
  peer.tsih = 5;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, named({"MaxBurstLength=8192"}))), "0x0200");
  LoginPeer fine;
  fine.tsih = 5;
  EXPECT_TRUE(fine.send(kOperational, kFull, named({"HeaderDigest=None", "MaxRecvDataSegmentLength=8192"})).ready);
}

TEST(LoginRefusals, AdditionalHeaderSegments) {
  LoginPeer peer;
  BasicHeaderSegment header = peer.request(kOperational, kFull, 0);
  header.total_ahs_length = 1;
  EXPECT_EQ(status_of(peer.send_header(header, named())), "0x0200");
}

TEST(LoginRefusals, MoreThanALoginSegmentInOnePdu) {
  LoginPeer peer;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, std::vector<uint8_t>(8193, 'x'))), "0x0200");
}

// --- operational results ---

TEST(LoginKeys, FirstBurstIsAnsweredWithinMaxBurstWhateverTheOrder) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull, named({"FirstBurstLength=65536", "MaxBurstLength=16384"})).ready);
  EXPECT_EQ(peer.answer("FirstBurstLength"), "16384");
  EXPECT_EQ(peer.answer("MaxBurstLength"), "16384");
}

TEST(LoginKeys, DefaultFirstBurstIsCutToANegotiatedMaxBurst) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull, named({"MaxBurstLength=16384"})).ready);
  EXPECT_EQ(peer.negotiator.parameters().first_burst_length, 16384u);
}

TEST(LoginKeys, AgreedFirstBurstAboveALaterMaxBurstIsRefused) {
  LoginPeer peer;
  peer.send(kOperational, kStay, named({"FirstBurstLength=65536"}));
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, {"MaxBurstLength=16384"})), "0x0200");
}

TEST(LoginKeys, AnswersKeepTheOrderOfTheOffers) {
  LoginPeer peer;
  peer.send(kOperational, kFull, named({"FirstBurstLength=512", "Foo=1", "ErrorRecoveryLevel=0"}));
  std::vector<std::string> order;
  for (const KeyValue& pair : peer.answers) order.push_back(pair.key);
  EXPECT_EQ(order, (std::vector<std::string>{"TargetPortalGroupTag", "MaxRecvDataSegmentLength", "FirstBurstLength",
                                             "Foo", "ErrorRecoveryLevel"}));
}

TEST(LoginKeys, OutOfRangeIsAnsweredRejectAndLoginGoesOn) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull, named({"MaxBurstLength=1", "MaxRecvDataSegmentLength=99999999"})).ready);
  EXPECT_EQ(peer.answer("MaxBurstLength"), "Reject");
  EXPECT_EQ(peer.negotiator.parameters().max_burst_length, 262144u);
  EXPECT_EQ(peer.negotiator.parameters().initiator_max_recv_data_segment_length, 8192u);
}

TEST(LoginKeys, AliasThatCannotBeShownIsDropped) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull, named({"InitiatorAlias=bad\xff\x1b[31m"})).ready);
  EXPECT_EQ(peer.negotiator.parameters().initiator_alias, "");
}

// --- discovery ---

TEST(LoginDiscovery, NeedsNoTargetName) {
  LoginPeer peer({}, 3);
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of({kNameKey, "SessionType=Discovery"})).ready);
  EXPECT_TRUE(peer.negotiator.parameters().discovery);
  EXPECT_EQ(peer.negotiator.parameters().target_name, "");
  EXPECT_EQ(peer.answer("TargetPortalGroupTag"), "3");
  EXPECT_TRUE(peer.directory.asked_target.empty());
}

TEST(LoginDiscovery, WithATargetNameIsNotBoundToIt) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull,
                        text_of({kNameKey, "TargetName=iqn.2026-11.org.example:other", "SessionType=Discovery"}))
                  .ready);
  EXPECT_EQ(peer.negotiator.parameters().target_name, "");
}

TEST(LoginDiscovery, TypeMayComeAfterTheKeysItMakesIrrelevant) {
  LoginPeer peer;
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of({"InitialR2T=No", kNameKey, "SessionType=Discovery"})).ready);
  EXPECT_EQ(peer.answer("InitialR2T"), "Irrelevant");
}

TEST(LoginDiscovery, StillNeedsAnInitiatorName) {
  LoginPeer peer;
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, {"SessionType=Discovery"})), "0x0207");
}

// --- continuation ---

TEST(LoginContinuation, RequestInPartsOfAnySizeGivesTheSameResult) {
  const auto text = named({"MaxBurstLength=32768", "FirstBurstLength=4096", "InitialR2T=No"});
  for (const size_t part : {size_t{1}, size_t{7}, size_t{33}, text.size() - 1}) {
    LoginPeer peer;
    size_t at = 0;
    for (; at + part < text.size(); at += part) {
      ASSERT_EQ(peer.send(kOperational, kStay, std::span(text).subspan(at, part), true).header.flags, 0x04);
    }
    EXPECT_TRUE(peer.send(kOperational, kFull, std::span(text).subspan(at)).ready) << part;
    EXPECT_EQ(peer.negotiator.parameters().max_burst_length, 32768u);
    EXPECT_EQ(peer.negotiator.parameters().first_burst_length, 4096u);
    EXPECT_EQ(peer.answer("InitialR2T"), "No");
  }
}

TEST(LoginContinuation, SixtyFourKibibytesPassAndMoreIsRefused) {
  const auto text_of_length = [](size_t length) {
    std::vector<uint8_t> text = named();
    for (int i = 0; text.size() < length; ++i) {
      const std::string key = "X-com.example." + std::to_string(i);
      append_text(text, key, std::string(std::min<size_t>(6000, length - text.size() - key.size() - 2), 'v'));
    }
    return text;
  };
  LoginPeer fits, too_long;
  const auto full = text_of_length(LoginNegotiator::kMaxLoginText);
  ASSERT_EQ(full.size(), LoginNegotiator::kMaxLoginText);
  EXPECT_TRUE(fits.exchange(kOperational, kFull, full).ready);
  EXPECT_EQ(status_of(too_long.exchange(kOperational, kFull, text_of_length(LoginNegotiator::kMaxLoginText + 1000))),
            "0x0302");
}

std::vector<uint8_t> many_unknown_keys(int keys) {
  std::vector<uint8_t> text = named();
  for (int i = 0; i < keys; ++i)
    append_text(text, "X-com.example.a-rather-long-name-of-a-key." + std::to_string(i), "1");
  return text;
}

TEST(LoginContinuation, LongAnswerComesInPartsAndTransitsWithTheLast) {
  LoginPeer peer;
  EXPECT_TRUE(peer.exchange(kOperational, kFull, many_unknown_keys(400)).ready);
  EXPECT_GE(peer.parts, 3u);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(peer.answer("X-com.example.a-rather-long-name-of-a-key." + std::to_string(i)), "NotUnderstood");
  }
}

TEST(LoginContinuation, TransitNeedsTheBitInTheLastRequest) {
  LoginPeer peer;
  const auto text = many_unknown_keys(200);
  const auto head = std::span(text).first(8000);
  peer.send(kOperational, kStay, head, true);
  LoginStep step = peer.send(kOperational, kFull, std::span(text).subspan(8000));
  ASSERT_EQ(step.header.flags, 0x44);
  while ((step.header.flags & LoginRequest::kContinue) != 0) step = peer.send(kOperational, kStay);
  EXPECT_FALSE(step.ready);
  EXPECT_TRUE(peer.send(kOperational, kFull).ready);
}

TEST(LoginContinuation, TextWhileOurAnswerIsUnfinishedIsRefused) {
  LoginPeer peer;
  const auto text = many_unknown_keys(200);
  peer.send(kOperational, kStay, std::span(text).first(8000), true);
  ASSERT_EQ(peer.send(kOperational, kFull, std::span(text).subspan(8000)).header.flags, 0x44);
  EXPECT_EQ(status_of(peer.send(kOperational, kFull, {"InitialR2T=No"})), "0x0200");
}

}  // namespace
}  // namespace zvolt::iscsi::test
