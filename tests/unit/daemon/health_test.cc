// What a unit's state follows from, and how the volume's health drives a real unit through it.
#include "target/daemon/health.h"

#include <gtest/gtest.h>

#include "backing/stores.h"

namespace zvolt::daemon {
namespace {

using backing::Presence;
using scsi::UnitState;
using std::chrono::seconds;

TEST(UnitStateOf, FollowsFromPresenceBlockAndTime) {
  struct Case {
    Condition condition;
    UnitState state;
  };
  const Case cases[] = {
      {{Presence::present, false, seconds(0), seconds(300)}, UnitState::ready},
      {{Presence::present, false, seconds(9999), seconds(300)}, UnitState::ready},
      {{Presence::present, true, seconds(0), seconds(300)}, UnitState::becoming_ready},
      {{Presence::present, true, seconds(300), seconds(300)}, UnitState::failed_for_good},
      {{Presence::late, false, seconds(299), seconds(300)}, UnitState::becoming_ready},
      {{Presence::gone, false, seconds(300), seconds(300)}, UnitState::failed_for_good},
      {{Presence::refused, false, seconds(1), seconds(300)}, UnitState::becoming_ready},
      {{Presence::gone, false, seconds(1 << 30), seconds(0)}, UnitState::becoming_ready},  // 0: for ever
      {{Presence::offline, false, seconds(9999), seconds(300)}, UnitState::offline},
      {{Presence::offline, true, seconds(9999), seconds(300)}, UnitState::offline},
  };
  for (size_t i = 0; i < std::size(cases); ++i) EXPECT_EQ(unit_state(cases[i].condition), cases[i].state) << i;
}

class HealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = backing::make_memory(1 << 20);
    ASSERT_TRUE(store);
    scsi::UnitOptions options;
    options.name = "a";
    auto unit = scsi::LogicalUnit::create(options, *store);
    ASSERT_TRUE(unit) << unit.error().message;
    unit_ = *unit;
  }
  static backing::FollowedStore::Report at(Presence presence, const std::string& reason = {}, uint64_t generation = 1) {
    backing::FollowedStore::Report report;
    report.presence = presence;
    report.reason = reason;
    report.generation = generation;
    return report;
  }

  std::shared_ptr<scsi::LogicalUnit> unit_;
  VolumeHealth health_{"a", seconds(300), Presence::late};
};

TEST_F(HealthTest, LateVolumeComesUp) {
  health_.set_unit(unit_);
  EXPECT_EQ(unit_->state(), UnitState::becoming_ready);
  EXPECT_EQ(health_.view().reason, "its device is late");
  ASSERT_TRUE(health_.view().waiting);
  health_.report(at(Presence::present));
  EXPECT_EQ(unit_->state(), UnitState::ready);
  EXPECT_EQ(health_.view().reason, "");
  EXPECT_FALSE(health_.view().waiting);
  EXPECT_TRUE(health_.view().served());
}

TEST_F(HealthTest, GoneForTooLongIsGivenUpAndStillComesBack) {
  health_.report(at(Presence::present));
  health_.set_unit(unit_);
  health_.report(at(Presence::gone, "zpool export"));
  EXPECT_EQ(unit_->state(), UnitState::becoming_ready);
  EXPECT_EQ(health_.view().reason, "zpool export");
  const auto now = VolumeHealth::Clock::now();
  health_.tick(now + seconds(299));
  EXPECT_EQ(unit_->state(), UnitState::becoming_ready);
  health_.tick(now + seconds(301));
  EXPECT_EQ(unit_->state(), UnitState::failed_for_good);
  health_.report(at(Presence::present, "", 2));
  EXPECT_EQ(unit_->state(), UnitState::ready);
}

TEST_F(HealthTest, BlockTakesItOutOfServiceUntilItIsLifted) {
  health_.report(at(Presence::present));
  health_.set_unit(unit_);
  health_.block("sync=disabled");
  EXPECT_EQ(unit_->state(), UnitState::becoming_ready);
  EXPECT_EQ(health_.view().reason, "sync=disabled");
  EXPECT_EQ(health_.view().presence, Presence::present);
  health_.block("");
  EXPECT_EQ(unit_->state(), UnitState::ready);
}

TEST_F(HealthTest, OfflineIsNotGivenUp) {
  health_.report(at(Presence::present));
  health_.set_unit(unit_);
  health_.set_offline(true);
  health_.tick(VolumeHealth::Clock::now() + seconds(99999));
  EXPECT_EQ(unit_->state(), UnitState::offline);
  EXPECT_EQ(health_.view().reason, "taken offline by the operator");
  health_.set_offline(false);
  EXPECT_EQ(unit_->state(), UnitState::ready);
}

TEST_F(HealthTest, TellsTheStoreThatHostsWereToldOfLostFlushes) {
  health_.report(at(Presence::present));
  health_.set_unit(unit_);
  auto lost = at(Presence::gone);
  lost.flush_failed_meanwhile = true;
  EXPECT_FALSE(health_.report(lost)) << "hosts are told when it is back";
  lost.presence = Presence::present;
  lost.generation = 2;
  EXPECT_TRUE(health_.report(lost));
}

TEST_F(HealthTest, UnitThatComesLaterGetsTheStateOfTheMoment) {
  health_.report(at(Presence::present));
  EXPECT_FALSE(health_.view().served()) << "no unit yet";
  health_.block("why");
  health_.set_unit(unit_);
  EXPECT_EQ(unit_->state(), UnitState::becoming_ready);
}

TEST_F(HealthTest, NotesAreKeptByTopic) {
  health_.set_note("rename", "was renamed");
  health_.set_note("zfs", "does not answer");
  EXPECT_EQ(health_.view().notes.size(), 2u);
  health_.set_note("zfs", "");
  EXPECT_EQ(health_.view().notes, std::vector<std::string>{"was renamed"});
}

}  // namespace
}  // namespace zvolt::daemon
