// ItNexus: LUN addressing, missing units, unit attentions of several nexuses, life of a task.
#include "scsi/bytes.h"
#include "scsi/lun_address.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using MissingUnit = ScsiTest;

constexpr uint64_t Lun(uint16_t number) {
  return encode_lun(number);
}

TEST_F(MissingUnit, InquirySaysThatNothingIsThere) {
  host->lun = Lun(77);
  for (const uint16_t allocation : std::vector<uint16_t>{0, 4, 5, 36, 255, 65535}) {
    const Reply reply = StandardInquiry(allocation);
    ExpectGood(reply);
    EXPECT_EQ(reply.data.size(), std::min<size_t>(allocation, 96));
    const Bytes head = {0x7f, 0, 6, 0x12, 91};
    const auto size = static_cast<std::ptrdiff_t>(std::min<size_t>(allocation, head.size()));
    EXPECT_TRUE(std::equal(head.begin(), head.begin() + size, reply.data.begin()));
  }
  for (const uint8_t page : Bytes{0x00, 0x80, 0x83, 0xb0}) ExpectSense(Vpd(page), 5, 0x25, 0);
  ExpectInvalidField(Send(Cdb6(0x12, 0, 0x83, 0, 255)), 2);
}

TEST_F(MissingUnit, RequestSenseIsGoodAndCarriesTheReason) {
  host->lun = Lun(77);
  for (const uint8_t allocation : Bytes{0, 8, 18, 252}) {
    const Reply reply = Send(Cdb6(0x03, 0, 0, 0, allocation));
    ExpectGood(reply);
    ASSERT_EQ(reply.data.size(), std::min<size_t>(allocation, 18));
    if (allocation >= 18) {
      EXPECT_EQ(reply.data[2], 5);
      EXPECT_EQ(reply.data[12], 0x25);
    }
  }
}

TEST_F(MissingUnit, EverythingElseIsLogicalUnitNotSupported) {
  for (const uint64_t lun : {Lun(77), Lun(300), uint64_t{0xc001} << 48, uint64_t{0x8000} << 48, uint64_t{5}}) {
    host->lun = lun;
    ExpectSense(TestUnitReady(), 5, 0x25, 0);
    ExpectSense(Read10(0, 1), 5, 0x25, 0);
    ExpectSense(ReportLuns(), 5, 0x25, 0);
  }
}

TEST_F(MissingUnit, ReportLunsWorksOnLunZeroThoughNothingIsMappedThere) {
  nexus = std::make_unique<ItNexus>(Names(), MakeMap({{4, unit}}));
  host = std::make_unique<Initiator>(*nexus, engine);
  EXPECT_EQ(StandardInquiry().data[0], 0x7f);
  const Bytes list = ReportLuns(0, 16).data;
  ASSERT_EQ(list.size(), 16u);
  EXPECT_EQ(get64(list.data() + 8), Lun(4));
  ExpectInvalidField(ReportLuns(9), 2);
}

TEST_F(MissingUnit, UnitLooksUpNumbersWithGaps) {
  const auto other = MakeUnit(std::make_shared<TestStore>(), DefaultOptions());
  nexus = std::make_unique<ItNexus>(Names(), MakeMap({{1, unit}, {2, other}, {900, unit}}));
  EXPECT_EQ(nexus->unit(Lun(0)), nullptr);
  EXPECT_EQ(nexus->unit(Lun(1)), unit.get());
  EXPECT_EQ(nexus->unit(Lun(2)), other.get());
  EXPECT_EQ(nexus->unit(Lun(3)), nullptr);
  EXPECT_EQ(nexus->unit(Lun(900)), unit.get());
  EXPECT_EQ(nexus->unit(uint64_t{0x4001} << 48), unit.get());
}

class Attention : public ScsiTest {
 protected:
  void SetUp() override {
    ScsiTest::SetUp();
    other_nexus = std::make_unique<ItNexus>(Names("iqn.2026-11.org.example:host-b"), MakeMap({{0, unit}}));
    other = std::make_unique<Initiator>(*other_nexus, engine);
  }
  std::unique_ptr<ItNexus> other_nexus;
  std::unique_ptr<Initiator> other;
  const Bytes tur = Cdb6(0x00);
};

TEST_F(Attention, ANewNexusSeesPowerOnOnce) {
  ExpectSense(other->Send(tur), 6, 0x29, 0);
  ExpectGood(other->Send(tur));
  ExpectGood(TestUnitReady());  // no business of the first
}

TEST_F(Attention, InquiryReportLunsAndRequestSenseDoNotConsumeIt) {
  ExpectGood(other->Send(Cdb6(0x12, 0, 0, 0, 36)));
  ExpectGood(other->Send(CdbLba12(0xa0, {0, 64})));
  ExpectGood(other->Send(Cdb6(0x03, 0, 0, 0, 18)));
  ExpectSense(other->Send(CdbLba10(0x28, {0, 1})), 6, 0x29, 0);
  ExpectGood(other->Send(CdbLba10(0x28, {0, 1})));
}

TEST_F(Attention, ItComesBeforeAnyOtherRefusal) {
  ExpectSense(other->Send(Cdb6(0xff)), 6, 0x29, 0);
  ExpectSense(other->Send(Cdb6(0xff)), 5, 0x20, 0);
}

TEST_F(Attention, CapacityChangeReachesEveryNexusOnceInOrder) {
  store->resize(TestStore::kDefaultSize * 2 + 100);
  unit->capacity_changed(store->size_bytes());
  EXPECT_EQ(unit->blocks(), TestStore::kDefaultSize * 2 / 512);
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x09);
  ExpectGood(TestUnitReady());
  ExpectSense(other->Send(tur), 6, 0x29, 0);
  ExpectSense(other->Send(tur), 6, 0x2a, 0x09);
  ExpectGood(other->Send(tur));
  EXPECT_EQ(get64(ReadCapacity16().data.data()), unit->blocks() - 1);
  ExpectGood(Write16(unit->blocks() - 1, Repeated(1, 1)));
}

TEST_F(Attention, ACapacityThatDidNotChangeIsNoNews) {
  unit->capacity_changed(store->size_bytes() + 511);
  ExpectGood(TestUnitReady());
}

TEST_F(Attention, AfterShrinkingTheEndIsOutOfRange) {
  unit->capacity_changed(TestStore::kDefaultSize / 2);
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x09);
  ExpectSense(Read10(TestStore::kDefaultSize / 1024, 1), 5, 0x21, 0);
}

TEST_F(Attention, AUnitThatShrankToNothingHasNoReadableBlockAndASaneCapacity) {
  unit->capacity_changed(0);
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x09);
  EXPECT_EQ(get64(ReadCapacity16().data.data()), 0u);
  ExpectSense(Read10(0, 1), 5, 0x21, 0);
  ExpectSense(WriteSame16(0, 0, 0, Repeated(0, 1)), 5, 0x21, 0);
}

TEST_F(Attention, TheSameConditionIsKeptOnce) {
  for (int i = 0; i < 100; ++i) unit->raise_unit_attention({0x2a, 0x01});
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x01);
  ExpectGood(TestUnitReady());
}

TEST_F(Attention, TheListIsBounded) {
  for (uint8_t i = 0; i < 100; ++i) unit->raise_unit_attention({0x3f, i});
  for (uint8_t i = 0; i < 16; ++i) ExpectSense(TestUnitReady(), 6, 0x3f, i);
  ExpectGood(TestUnitReady());
}

TEST_F(Attention, ReportLunsClearsTheNewsOfAChangedInventory) {
  unit->raise_unit_attention(attention::kReportedLunsChanged);
  unit->raise_unit_attention({0x2a, 0x01});
  ExpectGood(ReportLuns());
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x01);
  ExpectGood(TestUnitReady());
}

TEST_F(Attention, NexusesComeAndGo) {
  other_nexus.reset();
  unit->raise_unit_attention({0x2a, 0x01});
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x01);
}

TEST(TaskReset, ForgetsEverythingOfTheCommandBefore) {
  Task task;
  task.error = 5;
  task.aborted = task.waiting = task.in_data_out = task.media_after_flush = task.fua = true;
  task.announced_data_out = 512;
  task.data.resize(100000);
  task.sense.length = 18;
  task.reset();
  EXPECT_EQ(task.error, 0);
  EXPECT_FALSE(task.aborted || task.waiting || task.in_data_out || task.media_after_flush || task.fua);
  EXPECT_EQ(task.announced_data_out, Task::kUnknownLength);
  EXPECT_LE(task.data.capacity(), 4096u);
  EXPECT_EQ(task.sense.length, 0);
}

}  // namespace
}  // namespace zvolt::scsi::test
