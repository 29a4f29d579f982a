// The login phase and session types as a peer sees them on the wire: stages, refusals, reinstatement, discovery. RFC
// 7143 sections 6, 7.1 and 11.12.
#include <gtest/gtest.h>

#include <set>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr int kManyTargets = 300;

class Login : public RunningDaemon {
 protected:
  RawClient connected() {
    RawClient client;
    EXPECT_TRUE(client.connect(daemon_.port()));
    return client;
  }
  static LoginOptions options() {
    LoginOptions options;
    options.target = kTargetName;
    return options;
  }
  Keys names() const {
    return {{"InitiatorName", options().initiator},
            {"TargetName", kTargetName},
            {"SessionType", "Normal"},
            {"AuthMethod", "None"}};
  }
};

TEST_F(Login, SecurityThenOperationalStage) {
  RawClient client = connected();
  const LoginResult result = client.login(options());
  EXPECT_TRUE(result.ok());
  EXPECT_NE(result.tsih, 0);
  EXPECT_EQ(result.keys.at("HeaderDigest"), "None");
  EXPECT_EQ(result.keys.at("ErrorRecoveryLevel"), "0");
  EXPECT_GE(client.target_max_recv(), 65536u);
}

TEST_F(Login, StraightToTheOperationalStage) {
  RawClient client = connected();
  LoginOptions straight = options();
  straight.csg = 1;
  EXPECT_TRUE(client.login(straight).ok());
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(Login, StraightFromSecurityToFullFeature) {
  RawClient client = connected();
  EXPECT_TRUE(client.login_step(options(), 0, 3, true, names()).ok());
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(Login, UnknownTargetIsNotFound) {
  RawClient client = connected();
  LoginOptions other = options();
  other.target = "iqn.2026-11.org.example:nowhere";
  EXPECT_EQ(client.login(other).status, 0x0203);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(Login, MissingInitiatorNameIsMissingParameter) {
  RawClient client = connected();
  EXPECT_EQ(client.login_step(options(), 1, 3, true, {{"TargetName", kTargetName}}).status, 0x0207);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(Login, UnknownSessionHandleDoesNotExist) {
  RawClient client = connected();
  LoginOptions other = options();
  other.tsih = 0x7777;
  const Keys names = {{"InitiatorName", other.initiator}, {"TargetName", kTargetName}, {"AuthMethod", "None"}};
  EXPECT_EQ(client.login_step(other, 0, 3, true, names).status, 0x020a);
}

TEST_F(Login, StageMayNotGoBack) {
  RawClient client = connected();
  ASSERT_TRUE(client.login_step(options(), 0, 1, true, names()).ok());
  const LoginResult back = client.login_step(options(), 0, 1, true, {});
  EXPECT_FALSE(back.ok());
  EXPECT_TRUE(back.arrived == Arrived::closed || back.status >> 8 == 0x02) << std::hex << back.status;
  expect_alive();
}

TEST_F(Login, StagesThatDoNotExistAreRefused) {
  for (const auto& [csg, nsg] : {std::pair{2, 3}, std::pair{3, 3}, std::pair{0, 2}, std::pair{1, 0}, std::pair{1, 1}}) {
    RawClient client = connected();
    const LoginResult result =
        client.login_step(options(), static_cast<uint8_t>(csg), static_cast<uint8_t>(nsg), true, names());
    EXPECT_TRUE(result.arrived == Arrived::closed || result.status >> 8 == 0x02) << csg << " -> " << nsg;
  }
  expect_alive();
}

TEST_F(Login, UnknownKeysAreNotUnderstood) {
  RawClient client = connected();
  LoginOptions more = options();
  more.keys = {{"X-org.example.test", "1"}, {"Foo", "Bar"}, {std::string(63, 'k'), "1"}};
  const LoginResult result = client.login(more);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.keys.at("X-org.example.test"), "NotUnderstood");
  EXPECT_EQ(result.keys.at("Foo"), "NotUnderstood");
  EXPECT_EQ(result.keys.at(std::string(63, 'k')), "NotUnderstood");
}

TEST_F(Login, AnnouncedLimitsAreNegotiatedDown) {
  RawClient client = connected();
  LoginOptions small = options();
  small.keys = {
      {"MaxBurstLength", "8192"}, {"FirstBurstLength", "512"}, {"InitialR2T", "Yes"}, {"ImmediateData", "No"}};
  const LoginResult result = client.login(small);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.keys.at("MaxBurstLength"), "8192");
  EXPECT_EQ(result.keys.at("InitialR2T"), "Yes");
  EXPECT_EQ(result.keys.at("ImmediateData"), "No");
}

TEST_F(Login, SecondLoginWithTheSameIsidReinstatesTheSession) {
  RawClient first = logged_in();
  const Bytes data = pattern(4096, 1);
  ASSERT_TRUE(first.command_out(write10(0, 8), data).good());
  RawClient second = logged_in();
  EXPECT_TRUE(first.closed_by_peer()) << "the old session ends";
  EXPECT_TRUE(second.command_in(read10(0, 8), 4096).data == data);
}

TEST_F(Login, DifferentIsidsAreDifferentSessions) {
  RawClient first = logged_in({}, 0x800000000001), second = logged_in({}, 0x800000000002);
  EXPECT_TRUE(first.command_in(inquiry(36), 36).good());
  EXPECT_TRUE(second.command_in(inquiry(36), 36).good());
}

TEST_F(Login, DiscoverySessionHasNoLuns) {
  RawClient client = connected();
  LoginOptions discovery = options();
  discovery.target.clear();
  ASSERT_TRUE(client.login(discovery).ok());
  const Outcome outcome = client.command_in(inquiry(36), 36);
  EXPECT_TRUE(outcome.rejected || outcome.arrived == Arrived::closed) << outcome.text();
  expect_alive();
}

class ManyTargets : public Login {
 protected:
  ManyTargets() {
    daemon_.config().luns = {"{ lun: 0, name: disk, memory: 64MiB }"};
    for (int i = 0; i < kManyTargets; ++i)
      daemon_.config().more_targets.push_back("{ name: " + name(i) + ", luns: [ { lun: 0, name: m" + std::to_string(i) +
                                              ", memory: 1MiB } ] }");
  }
  static std::string name(int i) { return "iqn.2026-11.org.example:many-" + std::to_string(i); }

  RawClient discovery(const std::string& max_recv) {
    RawClient client = connected();
    LoginOptions options;
    options.keys = {{"MaxRecvDataSegmentLength", max_recv}};
    EXPECT_TRUE(client.login(options).ok());
    return client;
  }
  static std::set<std::string> names_in(const std::string& text) {
    std::set<std::string> names;
    for (size_t at = 0; (at = text.find("TargetName=", at)) != std::string::npos; ++at)
      names.insert(text.substr(at + 11, text.find('\0', at) - at - 11));
    return names;
  }
};

TEST_F(ManyTargets, SendTargetsContinuesOverManyPdus) {
  for (const uint32_t limit : {512u, 513u, 8192u, 262144u}) {
    RawClient client = discovery(std::to_string(limit));
    const auto answer = client.text(std::string("SendTargets=All\0", 16));
    ASSERT_EQ(answer.arrived, Arrived::pdu) << "limit " << limit;
    EXPECT_TRUE(answer.tags_right) << "limit " << limit;
    for (const size_t bytes : answer.segments) EXPECT_LE(bytes, limit);
    EXPECT_EQ(names_in(answer.text).size(), kManyTargets + 1u) << "limit " << limit;
    EXPECT_TRUE(names_in(answer.text).count(name(kManyTargets - 1)));
    EXPECT_TRUE(client.stat_sn_in_order());
    EXPECT_TRUE(client.logout());
  }
}

TEST_F(ManyTargets, NormalSessionSeesItsOwnTargetOnly) {
  RawClient client = logged_in();
  const auto own = client.text(std::string("SendTargets=\0", 13));
  EXPECT_EQ(names_in(own.text), std::set<std::string>{kTargetName});
  const auto named = client.text("SendTargets=" + std::string(kTargetName) + '\0');
  EXPECT_EQ(names_in(named.text), std::set<std::string>{kTargetName});
  const auto other = client.text("SendTargets=" + name(1) + '\0');
  EXPECT_TRUE(names_in(other.text).empty()) << other.text;
  const auto all = client.text(std::string("SendTargets=All\0", 16));
  EXPECT_TRUE(all.rejected || names_in(all.text).empty()) << all.text;
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good()) << "none of them costs the connection";
}

}  // namespace
}  // namespace zvolt::test
