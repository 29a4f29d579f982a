// ItNexus::replace_map: what stays keeps everything, what came or went is told to those whose map it is, and a number
// that belongs to another unit now never lets an old command reach it.
#include "scsi/lun_address.h"
#include "scsi/lun_nexus.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

class ReplaceMap : public ScsiTest {
 protected:
  void SetUp() override {
    ScsiTest::SetUp();
    other_store = std::make_shared<TestStore>();
    other = MakeUnit(other_store, DefaultOptions());
  }
  std::string Pending(uint16_t lun) {
    host->lun = encode_lun(lun);
    std::string out;
    for (;;) {
      const Reply reply = TestUnitReady();
      if (reply.status != Status::check_condition) return out;
      char text[16];
      std::snprintf(text, sizeof text, "%s%x/%02x/%02x", out.empty() ? "" : " ", reply.key(), reply.asc(),
                    reply.ascq());
      out += text;
      if (reply.key() != 6) return out;
    }
  }
  bool Replace(std::initializer_list<LunMap::Entry> entries, std::vector<Task*> live = {}) {
    return nexus->replace_map(MakeMap(entries), live);
  }
  std::shared_ptr<TestStore> other_store;
  std::shared_ptr<LogicalUnit> other;
};

TEST_F(ReplaceMap, TheSameAgainIsNoNews) {
  EXPECT_FALSE(Replace({{0, unit}}));
  EXPECT_EQ(Pending(0), "");
}

TEST_F(ReplaceMap, AnAddedNumberIsAnnouncedOnTheOthers) {
  EXPECT_TRUE(Replace({{0, unit}, {7, other}}));
  EXPECT_EQ(Pending(0), "6/3f/0e");
  EXPECT_EQ(Pending(7), "6/29/00");
  EXPECT_EQ(ReportLuns().data.size(), 24u);
}

TEST_F(ReplaceMap, ARemovedNumberIsAnnouncedAndGone) {
  Replace({{0, unit}, {7, other}});
  Pending(0);
  Pending(7);
  EXPECT_TRUE(Replace({{0, unit}}));
  EXPECT_EQ(Pending(0), "6/3f/0e");
  EXPECT_EQ(Pending(7), "5/25/00");
  EXPECT_EQ(other.use_count(), 1);
}

TEST_F(ReplaceMap, NumbersBetweenAndAroundAreFound) {
  Replace({{2, unit}, {5, other}});
  Pending(2);
  Pending(5);
  EXPECT_TRUE(Replace({{0, other}, {2, unit}, {3, other}, {9, other}}));
  EXPECT_EQ(Pending(0), "6/29/00");
  EXPECT_EQ(Pending(2), "6/3f/0e");
  EXPECT_EQ(Pending(3), "6/29/00");
  EXPECT_EQ(Pending(5), "5/25/00");
  EXPECT_EQ(Pending(9), "6/29/00");
}

TEST_F(ReplaceMap, WhatStaysKeepsItsPendingAttentions) {
  unit->raise_unit_attention(attention::kCapacityChanged);
  Replace({{0, unit}, {7, other}});
  EXPECT_EQ(Pending(0), "6/2a/09 6/3f/0e");
}

TEST_F(ReplaceMap, AnotherUnitUnderANumberIsNewsOnThatNumberOnly) {
  Replace({{0, unit}, {1, other}});
  Pending(0);
  Pending(1);
  const auto third = MakeUnit(std::make_shared<TestStore>(), DefaultOptions());
  EXPECT_TRUE(Replace({{0, unit}, {1, third}}));
  EXPECT_EQ(Pending(0), "");
  EXPECT_EQ(Pending(1), "6/3f/03 6/3f/0e");
}

TEST_F(ReplaceMap, TheMappingsReadOnlyBitChangesInPlace) {
  EXPECT_TRUE(Replace({{0, unit, true}}));
  EXPECT_EQ(Pending(0), "6/2a/01");
  ExpectSense(Write10(0, Repeated(1, 1)), 7, 0x27, 0);
  EXPECT_FALSE(Replace({{0, unit, true}}));
}

TEST_F(ReplaceMap, OldWritesEndOnTheOldUnit) {
  store->timing = Timing::withheld;
  const auto old = host->Begin(CdbLba10(0x2a, {0, 1}));
  ASSERT_EQ(old->phase, Phase::media_out);
  EXPECT_TRUE(Replace({{0, other}}, {old.get()}));
  EXPECT_TRUE(old->nexus->retired());
  EXPECT_EQ(Pending(0), "6/3f/03 6/3f/0e");
  ExpectGood(Write10(0, Repeated(9, 1)));
  store->timing = Timing::at_once;
  ExpectGood(host->Finish(*old, Repeated(5, 1)));
  EXPECT_EQ(Stored(0, 1), Repeated(5, 1));
  EXPECT_EQ(other_store->bytes(0, 512), Repeated(9, 1));
  std::vector<const LunNexus*> ended;
  nexus->on_retired_end([&](LunNexus& it) { ended.push_back(&it); });
  const LunNexus* retired = old->nexus;
  nexus->task_over(*old);
  EXPECT_EQ(ended, std::vector<const LunNexus*>{retired});
}

TEST_F(ReplaceMap, AHeldCommandGoesOnOnTheOldUnit) {
  unit->hold_range(0, 512);
  const auto old = host->Begin(CdbLba10(0x28, {0, 1}));
  ASSERT_EQ(old->phase, Phase::pending);
  Replace({{0, other}}, {old.get()});
  unit->release_range(0, 512);
  ExpectGood(host->Finish(*old));
  EXPECT_EQ(store->count(backing::IoKind::read), 1u);
  EXPECT_EQ(other_store->count(backing::IoKind::read), 0u);
  nexus->task_over(*old);
}

TEST_F(ReplaceMap, ARetiredNexusLivesUntilItsLastTaskIsOver) {
  const auto first = host->Begin(CdbLba10(0x2a, {0, 1}));
  const auto second = host->Begin(CdbLba10(0x2a, {1, 1}));
  const long before = unit.use_count();
  Replace({}, {first.get(), second.get()});
  EXPECT_EQ(unit.use_count(), before - 1);  // the map's; the nexus has its own still
  ExpectGood(host->Finish(*first, Repeated(1, 1)));
  nexus->task_over(*first);
  EXPECT_EQ(unit.use_count(), before - 1);
  ExpectGood(host->Finish(*second, Repeated(1, 1)));
  nexus->task_over(*second);
  EXPECT_EQ(unit.use_count(), before - 2);
}

class Successor : public ReplaceMap {
 protected:
  void SetUp() override {
    ReplaceMap::SetUp();
    next = MakeUnit(store, DefaultOptions());  // over the same store
    next->wait_for_end_of(*unit);
  }
  std::shared_ptr<LogicalUnit> next;
};

TEST_F(Successor, WaitsForTheCommandsOfTheUnitThatHadTheStore) {
  const auto old = host->Begin(CdbLba10(0x2a, {0, 1}));
  Replace({{0, next}}, {old.get()});
  unit->give_up();
  Pending(0);
  const auto read = host->Begin(CdbLba10(0x28, {0, 1}));
  EXPECT_EQ(read->phase, Phase::pending);
  ExpectGood(TestUnitReady());
  ExpectGood(host->Finish(*old, Repeated(5, 1)));
  EXPECT_EQ(read->phase, Phase::pending);
  nexus->task_over(*old);
  EXPECT_EQ(host->Finish(*read).data, Repeated(5, 1));
}

TEST_F(Successor, WaitsUntilNobodyCanStillJoinTheOldOne) {
  Replace({{0, next}});
  Pending(0);
  const auto read = host->Begin(CdbLba10(0x28, {0, 1}));
  EXPECT_EQ(read->phase, Phase::pending);
  unit->give_up();
  ExpectGood(host->Finish(*read));
}

}  // namespace
}  // namespace zvolt::scsi::test
