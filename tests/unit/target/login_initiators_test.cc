// Logins as real initiators send them: key order and values of open-iscsi, ESXi, Windows and libiscsi (QEMU).
#include <gtest/gtest.h>

#include "tests/unit/target/login_peer.h"

namespace zvolt::iscsi::test {
namespace {

constexpr uint8_t kSecurity = 0, kOperational = 1;
constexpr int kFull = 3;
const std::string kTargetKey = std::string("TargetName=") + kTarget;

// The order of login.c; ESXi's initiator is derived from it.
std::vector<std::string> open_iscsi_keys(std::string time2wait, std::string max_burst, std::string receive_length) {
  return {"HeaderDigest=None",
          "DataDigest=None",
          "DefaultTime2Wait=" + time2wait,
          "DefaultTime2Retain=0",
          "IFMarker=No",
          "OFMarker=No",
          "ErrorRecoveryLevel=0",
          "InitialR2T=No",
          "ImmediateData=Yes",
          "MaxBurstLength=" + max_burst,
          "FirstBurstLength=262144",
          "MaxOutstandingR2T=1",
          "MaxConnections=1",
          "DataPDUInOrder=Yes",
          "DataSequenceInOrder=Yes",
          "MaxRecvDataSegmentLength=" + receive_length};
}

TEST(Initiators, OpenIscsiNormalSession) {
  LoginPeer peer;
  std::vector<std::string> keys = {"InitiatorName=iqn.1993-08.org.debian:01:5d5a1e1c6a", "InitiatorAlias=node1",
                                   kTargetKey, "SessionType=Normal"};
  const auto more = open_iscsi_keys("2", "16776192", "262144");
  keys.insert(keys.end(), more.begin(), more.end());
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of(keys)).ready);
  const std::pair<const char*, const char*> expected[] = {{"HeaderDigest", "None"},
                                                          {"DataDigest", "None"},
                                                          {"DefaultTime2Wait", "2"},
                                                          {"DefaultTime2Retain", "0"},
                                                          {"IFMarker", "No"},
                                                          {"OFMarker", "No"},
                                                          {"ErrorRecoveryLevel", "0"},
                                                          {"InitialR2T", "No"},
                                                          {"ImmediateData", "Yes"},
                                                          {"MaxBurstLength", "1048576"},
                                                          {"FirstBurstLength", "65536"},
                                                          {"MaxOutstandingR2T", "1"},
                                                          {"MaxConnections", "1"},
                                                          {"DataPDUInOrder", "Yes"},
                                                          {"DataSequenceInOrder", "Yes"},
                                                          {"MaxRecvDataSegmentLength", "262144"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(peer.answer(key), value) << key;
  const SessionParameters& p = peer.negotiator.parameters();
  EXPECT_EQ(p.initiator_alias, "node1");
  EXPECT_EQ(p.initiator_max_recv_data_segment_length, 262144u);
  EXPECT_EQ(p.max_burst_length, 1048576u);
  EXPECT_EQ(p.first_burst_length, 65536u);
  EXPECT_FALSE(p.initial_r2t);
  EXPECT_TRUE(p.immediate_data);
}

TEST(Initiators, OpenIscsiWithAuthStageConfigured) {
  LoginPeer peer;
  peer.send(kSecurity, kOperational,
            text_of({"InitiatorName=iqn.1993-08.org.debian:01:5d5a1e1c6a", kTargetKey, "SessionType=Normal",
                     "AuthMethod=CHAP,None"}));
  EXPECT_EQ(peer.answer("AuthMethod"), "None");
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of(open_iscsi_keys("2", "16776192", "262144"))).ready);
}

TEST(Initiators, EsxiDiscoveryInOnePdu) {
  LoginPeer peer;
  peer.isid[5] = 0;
  peer.task_tag = 0;
  std::vector<std::string> keys = {"InitiatorName=iqn.1998-01.com.vmware:esx1-4bd8b5a0", "InitiatorAlias=esx1",
                                   "SessionType=Discovery"};
  const auto more = open_iscsi_keys("0", "262144", "32768");
  keys.insert(keys.end(), more.begin(), more.end());
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of(keys)).ready);
  EXPECT_TRUE(peer.negotiator.parameters().discovery);
  EXPECT_EQ(peer.negotiator.parameters().initiator_max_recv_data_segment_length, 32768u);
  EXPECT_EQ(peer.answer("DefaultTime2Wait"), "2") << "result function Maximum";
  EXPECT_EQ(peer.answer("ImmediateData"), "Irrelevant");
}

TEST(Initiators, EsxiNormalSession) {
  LoginPeer peer;
  std::vector<std::string> keys = {"InitiatorName=iqn.1998-01.com.vmware:esx1-4bd8b5a0", "InitiatorAlias=esx1",
                                   kTargetKey, "SessionType=Normal"};
  const auto more = open_iscsi_keys("0", "262144", "131072");
  keys.insert(keys.end(), more.begin(), more.end());
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of(keys)).ready);
  EXPECT_EQ(peer.negotiator.parameters().max_burst_length, 262144u);
}

TEST(Initiators, WindowsTwoStagesWithCidOne) {
  LoginPeer peer;
  const uint8_t isid[6] = {0x40, 0x00, 0x01, 0x37, 0x00, 0x00};
  std::copy(std::begin(isid), std::end(isid), peer.isid);
  peer.cid = 1;
  peer.task_tag = 1;
  const LoginStep step = peer.send(
      kSecurity, kOperational,
      text_of({"InitiatorName=iqn.1991-05.com.microsoft:WIN-7Q", "SessionType=Normal", kTargetKey, "AuthMethod=None"}));
  EXPECT_EQ(step.header.flags, 0x81);
  EXPECT_EQ(peer.answer("AuthMethod"), "None");
  EXPECT_EQ(peer.answer("TargetPortalGroupTag"), "1");
  EXPECT_TRUE(
      peer.send(kOperational, kFull,
                text_of({"HeaderDigest=None,CRC32C", "DataDigest=None,CRC32C", "ErrorRecoveryLevel=0", "InitialR2T=No",
                         "ImmediateData=Yes", "MaxRecvDataSegmentLength=65536", "MaxBurstLength=262144",
                         "FirstBurstLength=65536", "MaxConnections=32", "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes",
                         "DefaultTime2Wait=2", "DefaultTime2Retain=20", "MaxOutstandingR2T=16"}))
          .ready);
  EXPECT_EQ(peer.answer("MaxConnections"), "1");
  EXPECT_EQ(peer.answer("MaxOutstandingR2T"), "4");
  EXPECT_EQ(peer.answer("DefaultTime2Retain"), "0");
  EXPECT_EQ(peer.negotiator.parameters().cid, 1);
}

TEST(Initiators, LibiscsiDeclaresItsNamesInBothStages) {
  LoginPeer peer;
  const std::vector<std::string> names = {"InitiatorName=iqn.2008-11.org.linux-kvm:vm1", "InitiatorAlias=", kTargetKey,
                                          "SessionType=Normal"};
  std::vector<std::string> first = names, second = names;
  first.push_back("AuthMethod=CHAP,None");
  for (const char* key :
       {"HeaderDigest=None,CRC32C", "DataDigest=None", "InitialR2T=No", "ImmediateData=Yes", "MaxBurstLength=262144",
        "FirstBurstLength=262144", "MaxRecvDataSegmentLength=262144", "DataPDUInOrder=Yes", "MaxConnections=1",
        "MaxOutstandingR2T=1", "ErrorRecoveryLevel=0", "DataSequenceInOrder=Yes", "DefaultTime2Wait=2",
        "DefaultTime2Retain=0", "IFMarker=No", "OFMarker=No"}) {
    second.push_back(key);
  }
  peer.send(kSecurity, kOperational, text_of(first));
  EXPECT_TRUE(peer.send(kOperational, kFull, text_of(second)).ready);
}

// iPXE asks for full feature phase in every PDU.
TEST(Initiators, IpxeSetsTransitEverywhere) {
  LoginPeer peer;
  EXPECT_EQ(peer.send(kSecurity, kOperational,
                      text_of({"InitiatorName=iqn.2010-04.org.ipxe:boot", kTargetKey, "SessionType=Normal",
                               "AuthMethod=CHAP,None"}))
                .header.flags,
            0x81);
  EXPECT_TRUE(
      peer.send(kOperational, kFull,
                text_of({"HeaderDigest=None", "DataDigest=None", "MaxConnections=1", "InitialR2T=Yes",
                         "ImmediateData=No", "MaxRecvDataSegmentLength=8192", "MaxBurstLength=262144",
                         "FirstBurstLength=65536", "DefaultTime2Wait=0", "DefaultTime2Retain=0", "MaxOutstandingR2T=1",
                         "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes", "ErrorRecoveryLevel=0"}))
          .ready);
  EXPECT_FALSE(peer.negotiator.parameters().immediate_data);
  EXPECT_TRUE(peer.negotiator.parameters().initial_r2t);
}

}  // namespace
}  // namespace zvolt::iscsi::test
