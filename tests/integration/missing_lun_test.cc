// Commands to a LUN that does not exist, and INQUIRY and REQUEST SENSE with allocation lengths at the edges. SPC-5
// sections 6.6 and 6.39, SAM-5 4.7.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint16_t kMissing = 77;

class MissingLun : public RunningDaemon {
 protected:
  void SetUp() override {
    RunningDaemon::SetUp();
    client_ = logged_in();
  }
  RawClient client_;
};

TEST_F(MissingLun, StandardInquirySaysNoDeviceAtEveryLength) {
  for (const int each : {0, 4, 5, 36, 255, 65535}) {
    const auto length = static_cast<uint16_t>(each);
    for (const uint16_t lun : {uint16_t{0}, kMissing}) {
      const Outcome outcome = client_.command_in(inquiry(length), length, lun);
      ASSERT_TRUE(outcome.good()) << "LUN " << lun << " length " << length << ": " << outcome.text();
      EXPECT_LE(outcome.data.size(), length);
      EXPECT_GE(outcome.data.size(), std::min<size_t>(length, 36));
      if (length == 0) continue;
      EXPECT_EQ(outcome.data[0], lun == kMissing ? 0x7f : 0x00);
      if (length < 5) continue;
      EXPECT_EQ(outcome.data[4], client_.command_in(inquiry(255), 255, lun).data[4])
          << "ADDITIONAL LENGTH is not reduced by truncation";
    }
  }
}

TEST_F(MissingLun, InquiryWithoutRoomForDataIsGood) {
  for (const uint16_t lun : {uint16_t{0}, kMissing}) {
    const Outcome outcome = client_.command_in(inquiry(36), 0, lun);
    EXPECT_TRUE(outcome.good()) << outcome.text();
    EXPECT_EQ(outcome.residual_flags, iscsi::ScsiResponse::kOverflow);
    EXPECT_EQ(outcome.residual, 36u);
  }
}

TEST_F(MissingLun, VitalProductDataIsNotSupported) {
  for (const uint8_t page : {uint8_t{0x00}, uint8_t{0x80}, uint8_t{0x83}, uint8_t{0xb0}}) {
    const Outcome outcome = client_.command_in(inquiry(255, true, page), 255, kMissing);
    EXPECT_TRUE(outcome.sense() == "05/25/00" || outcome.sense() == "05/24/00") << outcome.text();
  }
}

TEST_F(MissingLun, PageCodeWithoutEvpdIsInvalidField) {
  EXPECT_EQ(client_.command_in(inquiry(255, false, 0x83), 255).sense(), "05/24/00");
}

TEST_F(MissingLun, RequestSenseTellsWhyAndIsTruncated) {
  const Bytes whole = client_.command_in(request_sense(252), 252, kMissing).data;
  EXPECT_EQ(sense_text(whole), "05/25/00");
  for (const uint8_t length : {uint8_t{0}, uint8_t{8}, uint8_t{18}, uint8_t{252}}) {
    const Outcome outcome = client_.command_in(request_sense(length), length, kMissing);
    ASSERT_TRUE(outcome.good()) << outcome.text();
    ASSERT_EQ(outcome.data.size(), std::min<size_t>(length, whole.size()));
    EXPECT_TRUE(std::equal(outcome.data.begin(), outcome.data.end(), whole.begin()));
  }
}

TEST_F(MissingLun, OtherCommandsAreLogicalUnitNotSupported) {
  EXPECT_EQ(client_.command_none(test_unit_ready(), kMissing).sense(), "05/25/00");
  EXPECT_EQ(client_.command_in(read10(0, 1), 512, kMissing).sense(), "05/25/00");
  EXPECT_EQ(client_.command_out(write10(0, 1), pattern(512, 1), 512, kMissing).sense(), "05/25/00");
  EXPECT_EQ(client_.command_in(read_capacity16(), 32, kMissing).sense(), "05/25/00");
}

TEST_F(MissingLun, WriteThatNeedsSolicitedDataIsDrained) {
  RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}}, 0x8000000000bb);
  const Outcome outcome = client.command_out(write10(0, 128), pattern(65536, 1), 0, kMissing);
  EXPECT_EQ(outcome.sense(), "05/25/00") << outcome.text();
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

TEST_F(MissingLun, UnknownAddressingMethodIsNoLun) {
  auto request = make<iscsi::ScsiCommand>(iscsi::Opcode::scsi_command);
  const uint32_t tag = client_.next_task_tag();
  request.initiator_task_tag = tag;
  request.lun[0] = 0xc1;  // method 11b
  request.cmd_sn = client_.cmd_sn();
  client_.set_cmd_sn(client_.cmd_sn() + 1);
  ASSERT_TRUE(client_.send(request));
  EXPECT_EQ(client_.finish(tag).sense(), "05/25/00");
}

TEST_F(MissingLun, FlatSpaceAddressOfAnExistingLunReachesIt) {
  auto request = make<iscsi::ScsiCommand>(iscsi::Opcode::scsi_command);
  const uint32_t tag = client_.next_task_tag();
  request.initiator_task_tag = tag;
  request.lun[0] = 0x40;  // flat space, LUN 0
  request.cmd_sn = client_.cmd_sn();
  client_.set_cmd_sn(client_.cmd_sn() + 1);
  ASSERT_TRUE(client_.send(request));
  EXPECT_TRUE(client_.finish(tag).good());
}

}  // namespace
}  // namespace zvolt::test
