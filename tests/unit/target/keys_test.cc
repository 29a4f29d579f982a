// The table of text keys (target/login/keys.h): rules of RFC 7143 section 13, one row each.
#include "target/login/keys.h"

#include <gtest/gtest.h>

#include <set>

namespace zvolt::iscsi {
namespace {

const LoginLimits kLimits{.max_recv_data_segment_length = 262144,
                          .max_burst_length = 1048576,
                          .first_burst_length = 65536,
                          .max_outstanding_r2t = 4,
                          .default_time2wait = 2,
                          .default_time2retain = 0};

std::string answer_to(std::string_view key, std::string_view value, SessionParameters& parameters) {
  const auto index = find_key(key);
  if (!index) return "no such key";
  const KeyOutcome outcome = negotiate_key(key_table()[*index], value, kLimits, parameters);
  if (outcome.status != LoginStatus::success) return "status " + std::to_string(static_cast<int>(outcome.status));
  return outcome.answer.value_or("(declared)");
}
std::string answer_to(std::string_view key, std::string_view value) {
  SessionParameters parameters;
  store_key_defaults(parameters);
  return answer_to(key, value, parameters);
}

TEST(Keys, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const KeyRule& rule : key_table()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

TEST(Keys, EveryRuleHasWhatItsTypeNeeds) {
  for (const KeyRule& rule : key_table()) {
    switch (rule.type) {
      case KeyType::boolean_and:
      case KeyType::boolean_or:
      case KeyType::number_min:
      case KeyType::number_max:
      case KeyType::number_declared:
        EXPECT_TRUE(rule.ours != nullptr && rule.store != nullptr) << rule.name;
        break;
      case KeyType::list:
        EXPECT_TRUE(!rule.choices.empty() && rule.store != nullptr) << rule.name;
        break;
      case KeyType::text:
        EXPECT_EQ(rule.store_text == nullptr, (rule.use & kTargetOnly) != 0) << rule.name;
        break;
      default:
        break;
    }
    EXPECT_TRUE((rule.use & kRepeatable) == 0 || rule.store_text != nullptr) << rule.name;
  }
}

TEST(Keys, DefaultsAreTheRfcs) {
  SessionParameters p;
  p.default_time2retain = 99;
  store_key_defaults(p);
  EXPECT_EQ(p.max_connections, 1);
  EXPECT_TRUE(p.initial_r2t);
  EXPECT_TRUE(p.immediate_data);
  EXPECT_EQ(p.initiator_max_recv_data_segment_length, 8192u);
  EXPECT_EQ(p.max_burst_length, 262144u);
  EXPECT_EQ(p.first_burst_length, 65536u);
  EXPECT_EQ(p.default_time2wait, 2);
  EXPECT_EQ(p.default_time2retain, 20);
  EXPECT_EQ(p.max_outstanding_r2t, 1u);
  EXPECT_TRUE(p.data_pdu_in_order);
  EXPECT_TRUE(p.data_sequence_in_order);
  EXPECT_EQ(p.error_recovery_level, 0);
  EXPECT_FALSE(p.header_digest);
  EXPECT_FALSE(p.data_digest);
}

struct Row {
  const char* key;
  const char* offer;
  const char* answer;
};

class KeyAnswers : public testing::TestWithParam<Row> {};
TEST_P(KeyAnswers, FollowTheRfc) {
  EXPECT_EQ(answer_to(GetParam().key, GetParam().offer), GetParam().answer);
}

const Row kRows[] = {
    {"HeaderDigest", "None", "None"},
    {"HeaderDigest", "CRC32C,None", "None"},
    {"HeaderDigest", "Y-com.example.sum,None", "None"},
    {"HeaderDigest", "CRC32C", "Reject"},
    {"HeaderDigest", "", "Reject"},
    {"HeaderDigest", "none", "Reject"},
    {"DataDigest", "None,CRC32C", "None"},
    {"MaxConnections", "1", "1"},
    {"MaxConnections", "65535", "1"},
    {"MaxConnections", "0", "Reject"},
    {"MaxConnections", "65536", "Reject"},
    {"InitialR2T", "Yes", "Yes"},
    {"InitialR2T", "No", "No"},
    {"InitialR2T", "yes", "Reject"},
    {"InitialR2T", "", "Reject"},
    {"ImmediateData", "Yes", "Yes"},
    {"ImmediateData", "No", "No"},
    {"MaxRecvDataSegmentLength", "512", "(declared)"},
    {"MaxRecvDataSegmentLength", "16777215", "(declared)"},
    {"MaxRecvDataSegmentLength", "511", "Reject"},
    {"MaxRecvDataSegmentLength", "16777216", "Reject"},
    {"MaxRecvDataSegmentLength", "0", "Reject"},
    {"MaxBurstLength", "16776192", "1048576"},
    {"MaxBurstLength", "262144", "262144"},
    {"MaxBurstLength", "0x40000", "262144"},
    {"MaxBurstLength", "0X8000", "32768"},
    {"MaxBurstLength", "511", "Reject"},
    {"MaxBurstLength", "16777216", "Reject"},
    {"MaxBurstLength", "512~1024", "Reject"},
    {"MaxBurstLength", "-1", "Reject"},
    {"MaxBurstLength", "1e6", "Reject"},
    {"MaxBurstLength", "0x", "Reject"},
    {"MaxBurstLength", "00262144", "Reject"},
    {"MaxBurstLength", "99999999999999999999999999", "Reject"},
    {"FirstBurstLength", "262144", "65536"},
    {"FirstBurstLength", "512", "512"},
    {"DefaultTime2Wait", "0", "2"},
    {"DefaultTime2Wait", "3600", "3600"},
    {"DefaultTime2Wait", "3601", "Reject"},
    {"DefaultTime2Retain", "20", "0"},
    {"DefaultTime2Retain", "0", "0"},
    {"MaxOutstandingR2T", "1", "1"},
    {"MaxOutstandingR2T", "16", "4"},
    {"MaxOutstandingR2T", "0", "Reject"},
    {"DataPDUInOrder", "No", "Yes"},
    {"DataPDUInOrder", "Yes", "Yes"},
    {"DataSequenceInOrder", "No", "Yes"},
    {"ErrorRecoveryLevel", "2", "0"},
    {"ErrorRecoveryLevel", "0", "0"},
    {"ErrorRecoveryLevel", "3", "Reject"},
    {"TaskReporting", "RFC3720,ResponseFence", "RFC3720"},
    {"TaskReporting", "FastAbort", "Reject"},
    {"IFMarker", "No", "No"},
    {"OFMarker", "Yes", "No"},
    {"IFMarkInt", "2048~8192", "Reject"},
    {"OFMarkInt", "2048", "Reject"},
    {"X#NodeArchitecture", "ExampleOS/v1234", "(declared)"},
    {"iSCSIProtocolLevel", "0", "0"},
    {"iSCSIProtocolLevel", "2", "1"},
    {"iSCSIProtocolLevel", "32", "Reject"},
    {"AuthMethod", "CHAP,None", "None"},
    {"AuthMethod", "None", "None"},
    {"AuthMethod", "CHAP", "status 513"},  // 0x0201
    {"CHAP_A", "5", "status 513"},
    {"SessionType", "Normal", "(declared)"},
    {"SessionType", "normal", "status 521"},  // 0x0209
    {"InitiatorName", "iqn.2001-04.com.example", "(declared)"},
    {"InitiatorName", "example", "status 512"},  // 0x0200
    {"TargetAlias", "disk", "status 512"},
    {"Unheard", "1", "no such key"},
    {"maxburstlength", "512", "no such key"},
};
INSTANTIATE_TEST_SUITE_P(Keys, KeyAnswers, testing::ValuesIn(kRows));

TEST(Keys, RejectedValueLeavesTheCurrentOne) {
  SessionParameters p;
  store_key_defaults(p);
  EXPECT_EQ(answer_to("MaxBurstLength", "100", p), "Reject");
  EXPECT_EQ(p.max_burst_length, 262144u);
}

TEST(Keys, FirstBurstIsLimitedByMaxBurst) {
  SessionParameters p;
  store_key_defaults(p);
  EXPECT_EQ(answer_to("MaxBurstLength", "16384", p), "16384");
  EXPECT_EQ(answer_to("FirstBurstLength", "65536", p), "16384");
  EXPECT_EQ(p.first_burst_length, 16384u);
}

TEST(Keys, OfDataTransferAreIrrelevantInDiscovery) {
  for (const char* key :
       {"MaxConnections", "InitialR2T", "ImmediateData", "MaxBurstLength", "FirstBurstLength", "MaxOutstandingR2T",
        "DataPDUInOrder", "DataSequenceInOrder", "TaskReporting", "iSCSIProtocolLevel"}) {
    SessionParameters p;
    store_key_defaults(p);
    p.discovery = true;
    EXPECT_EQ(answer_to(key, "1", p), "Irrelevant") << key;
  }
}

TEST(Keys, OfTheConnectionHoldInDiscoveryToo) {
  SessionParameters p;
  store_key_defaults(p);
  p.discovery = true;
  EXPECT_EQ(answer_to("HeaderDigest", "CRC32C,None", p), "None");
  EXPECT_EQ(answer_to("MaxRecvDataSegmentLength", "32768", p), "(declared)");
  EXPECT_EQ(p.initiator_max_recv_data_segment_length, 32768u);
  EXPECT_EQ(answer_to("ErrorRecoveryLevel", "0", p), "0");
  EXPECT_EQ(answer_to("DefaultTime2Wait", "0", p), "2");
}

TEST(Keys, LimitsOutOfRangeAreCutToTheLegal) {
  SessionParameters p;
  store_key_defaults(p);
  const LoginLimits wild{.max_burst_length = 1u << 30, .max_outstanding_r2t = 0};
  const auto answer = [&](std::string_view key, std::string_view value) {
    return negotiate_key(key_table()[*find_key(key)], value, wild, p).answer.value_or("");
  };
  EXPECT_EQ(answer("MaxBurstLength", "16777215"), "16777215");
  EXPECT_EQ(answer("MaxOutstandingR2T", "8"), "1");
}

}  // namespace
}  // namespace zvolt::iscsi
