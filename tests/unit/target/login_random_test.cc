// Random mutations of valid logins and text exchanges: never a crash (run under the sanitizers), always a legal answer.
// LoginPeer checks every answer's header and text.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "target/login/text_session.h"
#include "tests/unit/target/login_peer.h"

namespace zvolt::iscsi::test {
namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<uint8_t>;

size_t below(Random& random, size_t n) {
  return n == 0 ? 0 : random() % n;
}

const std::vector<std::string> kPairs = {std::string("InitiatorName=") + kInitiator,
                                         std::string("TargetName=") + kTarget,
                                         "SessionType=Normal",
                                         "SessionType=Discovery",
                                         "InitiatorAlias=host",
                                         "AuthMethod=CHAP,None",
                                         "HeaderDigest=CRC32C,None",
                                         "DataDigest=None",
                                         "InitialR2T=No",
                                         "ImmediateData=Yes",
                                         "MaxBurstLength=262144",
                                         "FirstBurstLength=65536",
                                         "MaxRecvDataSegmentLength=65536",
                                         "DefaultTime2Wait=2",
                                         "DefaultTime2Retain=20",
                                         "MaxOutstandingR2T=8",
                                         "DataPDUInOrder=Yes",
                                         "DataSequenceInOrder=Yes",
                                         "ErrorRecoveryLevel=0",
                                         "MaxConnections=4",
                                         "IFMarker=No",
                                         "OFMarkInt=2048~8192",
                                         "iSCSIProtocolLevel=1",
                                         "TaskReporting=RFC3720",
                                         "X#NodeArchitecture=a",
                                         "X-com.example.key=1",
                                         "SendTargets=All",
                                         "TargetPortalGroupTag=NotUnderstood",
                                         "Foo=Reject",
                                         "MaxBurstLength=99999999999999999999"};

// Mostly the names and a random choice of keys.
Bytes random_text(Random& random) {
  std::vector<std::string> pairs;
  for (size_t i = 0; i < 3; ++i) {
    if (below(random, 8) != 0) pairs.push_back(kPairs[i]);
  }
  for (size_t n = below(random, 12); n > 0; --n) pairs.push_back(kPairs[below(random, kPairs.size())]);
  return text_of(pairs);
}

void mutate(Bytes& bytes, Random& random) {
  for (size_t n = below(random, 4); n > 0 && !bytes.empty(); --n) {
    const size_t at = below(random, bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(random, 6)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << below(random, 8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes.erase(place, bytes.end());
        break;
      case 3:
        bytes.insert(place, below(random, 200), static_cast<uint8_t>(random()));
        break;
      case 4:
        bytes.erase(place);
        break;
      default: {
        const Bytes copy(place, bytes.end());
        bytes.insert(place, copy.begin(), copy.end());
      }
    }
  }
  if (bytes.size() > 9000) bytes.resize(9000);
}

void random_login(Random& random, unsigned& ready, unsigned& refused) {
  LoginPeer peer;
  peer.directory.alias = below(random, 2) == 0 ? "alias" : "";
  uint8_t stage = static_cast<uint8_t>(below(random, 2));
  for (int pdu = 0; pdu < 12; ++pdu) {
    Bytes text = pdu > 0 && below(random, 2) == 0 ? Bytes() : random_text(random);
    if (below(random, 3) == 0) mutate(text, random);
    const int nsg = below(random, 2) == 0 ? kStay : stage == 0 && below(random, 2) == 0 ? 1 : 3;
    BasicHeaderSegment header = peer.request(stage, nsg, text.size(), nsg == kStay && below(random, 3) == 0);
    if (below(random, 10) == 0)
      reinterpret_cast<uint8_t*>(&header)[below(random, sizeof header)] = static_cast<uint8_t>(random());
    const LoginStep step = peer.send_header(header, text);
    ready += step.ready;
    refused += step.close && !step.drop;
    if (step.close || step.ready) return;
    if ((step.header.flags & LoginRequest::kTransit) != 0) stage = step.header.flags & 3;
  }
}

TEST(RandomLogins, AlwaysGetALegalAnswer) {
  Random random(20261130);
  unsigned ready = 0, refused = 0;
  for (int i = 0; i < 10000 && !testing::Test::HasFailure(); ++i) random_login(random, ready, refused);
  EXPECT_GT(ready, 300u) << "the mutations are too wild to reach the end";
  EXPECT_GT(refused, 300u) << "the mutations are too tame";
}

void expect_legal(const TextSession::Answer& answer, const TextRequest& request, uint32_t length) {
  if (answer.kind == TextSession::Answer::Kind::reject) {
    EXPECT_TRUE(answer.text.empty());
    return;
  }
  EXPECT_LE(answer.text.size(), length);
  EXPECT_FALSE(answer.final && answer.more);
  EXPECT_EQ(answer.final, answer.target_transfer_tag == kReservedTag);
  EXPECT_TRUE(!answer.final || (request.flags & kFinal) != 0) << "F without being asked";
}

void random_text_exchange(Random& random, unsigned& finals, unsigned& rejects) {
  SessionParameters parameters;
  parameters.discovery = below(random, 2) == 0;
  parameters.target_name = parameters.discovery ? "" : kTarget;
  parameters.initiator_max_recv_data_segment_length = static_cast<uint32_t>(512 + below(random, 2000));
  const std::vector<DiscoveredTarget> targets(below(random, 40),
                                              {kTarget, {"192.0.2.1:3260,1", "[2001:db8::1]:3260,1"}});
  TextSession session(parameters, [&] { return targets; });
  uint32_t tag = kReservedTag;
  for (int pdu = 0; pdu < 20; ++pdu) {
    BasicHeaderSegment header{};
    auto& request = as<TextRequest>(header);
    request.flags = static_cast<uint8_t>(below(random, 8) == 0 ? random() : kFinal);
    request.initiator_task_tag = below(random, 20) == 0 ? 7u : 1u;
    request.target_transfer_tag = below(random, 8) == 0 ? static_cast<uint32_t>(below(random, 5)) : tag;
    Bytes text = below(random, 2) == 0   ? Bytes()
                 : below(random, 2) == 0 ? text_of({"SendTargets=All"})
                                         : random_text(random);
    if (below(random, 4) == 0) mutate(text, random);
    if (tag != kReservedTag && below(random, 4) != 0) text.clear();
    const uint32_t length = parameters.initiator_max_recv_data_segment_length;
    const TextSession::Answer answer = session.receive(request, text);
    expect_legal(answer, request, length);
    rejects += answer.kind == TextSession::Answer::Kind::reject;
    finals += answer.kind == TextSession::Answer::Kind::response && answer.final;
    tag = answer.kind == TextSession::Answer::Kind::reject ? kReservedTag : answer.target_transfer_tag;
  }
}

TEST(RandomTextExchanges, AlwaysGetALegalAnswer) {
  Random random(7143);
  unsigned finals = 0, rejects = 0;
  for (int i = 0; i < 1500 && !testing::Test::HasFailure(); ++i) random_text_exchange(random, finals, rejects);
  EXPECT_GT(finals, 2000u);
  EXPECT_GT(rejects, 2000u);
}

}  // namespace
}  // namespace zvolt::iscsi::test
