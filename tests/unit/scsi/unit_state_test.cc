// Units that are not ready, stores that change under a unit, and what can be set while it is served: which answers and
// which unit attentions follow.
#include <cerrno>

#include "scsi/bytes.h"
#include "scsi/command_table.h"
#include "scsi/lun_address.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

class State : public ScsiTest {
 protected:
  std::string Pending() {  // all unit attentions of the nexus, in order: "2a/09 3f/03"
    std::string out;
    for (;;) {
      const Reply reply = TestUnitReady();
      if (reply.status != Status::check_condition || reply.key() != 6) return out;
      char text[8];
      std::snprintf(text, sizeof text, "%s%02x/%02x", out.empty() ? "" : " ", reply.asc(), reply.ascq());
      out += text;
    }
  }
};

struct NotReady {
  UnitState state;
  uint8_t key, asc, ascq;
};
constexpr NotReady kNotReady[] = {{UnitState::becoming_ready, 2, 0x04, 0x01},
                                  {UnitState::offline, 2, 0x04, 0x01},
                                  {UnitState::failed_for_good, 4, 0x3e, 0x01}};

TEST_F(State, WhatNeedsTheMediumIsRefusedWithTheStatesSense) {
  for (const NotReady& row : kNotReady) {
    unit->set_state(row.state);
    ExpectSense(TestUnitReady(), row.key, row.asc, row.ascq);
    ExpectSense(Read10(0, 1), row.key, row.asc, row.ascq);
    ExpectSense(Write16(0, Repeated(1, 1)), row.key, row.asc, row.ascq);
    ExpectSense(SynchronizeCache10(), row.key, row.asc, row.ascq);
    ExpectSense(ReadCapacity16(), row.key, row.asc, row.ascq);
    ExpectSense(SendUnmap({{0, 8}}), row.key, row.asc, row.ascq);
  }
  EXPECT_TRUE(store->events.empty());
}

TEST_F(State, WhatAHostAsksAtAttachWorksAllTheSame) {
  for (const NotReady& row : kNotReady) {
    unit->set_state(row.state);
    EXPECT_EQ(StandardInquiry().data[0], 0);
    ExpectGood(Vpd(0x83));
    ExpectGood(Vpd(0xb0));
    ExpectGood(ReportLuns());
    ExpectGood(ModeSense6(0x3f));
    ExpectGood(ModeSense10(0x08));
    ExpectGood(ReportOpcodes(0));
    const Reply sense = Send(Cdb6(0x03, 0, 0, 0, 18));
    ExpectGood(sense);
    EXPECT_EQ(sense.data[2], row.key);
    EXPECT_EQ(sense.data[12], row.asc);
  }
}

TEST_F(State, EveryCommandOfTheTableEitherWorksWithoutMediumOrIsRefused) {
  unit->set_state(UnitState::becoming_ready);
  for (const CommandEntry& entry : all_commands()) {
    Bytes cdb(16);
    cdb[0] = entry.opcode;
    if (entry.service_action != kNoServiceAction) cdb[1] = static_cast<uint8_t>(entry.service_action);
    const Reply reply = Send(cdb);
    const bool refused = reply.status == Status::check_condition && reply.key() == 2;
    EXPECT_NE(refused, entry.has(kWithoutMedium)) << int{entry.opcode};
  }
}

TEST_F(State, AnUnknownCommandIsUnknownEvenThen) {
  unit->set_state(UnitState::becoming_ready);
  ExpectSense(Send(Cdb6(0xff)), 5, 0x20, 0);
}

TEST_F(State, UnitAttentionsComeBeforeNotReady) {
  unit->set_state(UnitState::becoming_ready);
  unit->raise_unit_attention(attention::kCapacityChanged);
  ExpectSense(TestUnitReady(), 6, 0x2a, 0x09);
  ExpectSense(TestUnitReady(), 2, 0x04, 0x01);
}

TEST_F(State, ARemovedUnitIsAsIfNothingWereMapped) {
  unit->set_state(UnitState::removed);
  ExpectSense(TestUnitReady(), 5, 0x25, 0);
  ExpectSense(Read10(0, 1), 5, 0x25, 0);
  EXPECT_EQ(StandardInquiry().data[0], 0x7f);
  ExpectGood(ReportLuns());
}

TEST_F(State, AReturnSaysThatTheMediumMayHaveChanged) {
  unit->set_state(UnitState::becoming_ready);
  unit->set_state(UnitState::offline);
  unit->set_state(UnitState::ready);
  EXPECT_EQ(Pending(), "28/00");
  unit->set_state(UnitState::ready);
  EXPECT_EQ(Pending(), "");
}

TEST_F(State, AReturnAfterAFailedFlushIsAReset) {
  unit->set_state(UnitState::becoming_ready);
  unit->set_state(UnitState::ready, true);
  EXPECT_EQ(Pending(), "29/04");
}

TEST_F(State, ANexusThatComesMeanwhileFindsTheUnitNotReady) {
  unit->set_state(UnitState::becoming_ready);
  ItNexus later(Names("iqn.2026-11.org.example:host-b"), MakeMap({{0, unit}}));
  Initiator initiator(later, engine);
  ExpectSense(initiator.Send(Cdb6(0)), 6, 0x29, 0);
  ExpectSense(initiator.Send(Cdb6(0)), 2, 0x04, 0x01);
  unit->set_state(UnitState::ready);
  ExpectSense(initiator.Send(Cdb6(0)), 6, 0x28, 0);
  ExpectGood(initiator.Send(Cdb6(0)));
}

TEST_F(State, AStoreThatIsAwayIsNotReadyWhateverItWasAskedFor) {
  store->errors = {
      {backing::IoKind::read, ENOMEDIUM}, {backing::IoKind::write, ENOMEDIUM}, {backing::IoKind::flush, ENOMEDIUM}};
  ExpectSense(Read10(0, 1), 2, 0x04, 0x01);
  ExpectSense(Write10(0, Repeated(1, 1)), 2, 0x04, 0x01);
  ExpectSense(SynchronizeCache10(), 2, 0x04, 0x01);
}

// Given up while a command was in the store.
TEST_F(State, AwayMeansWhatTheStateSaysOfIt) {
  store->timing = Timing::later;
  store->errors = {{backing::IoKind::flush, ENOMEDIUM}};
  const auto task = host->Begin(CdbLba10(0x35, {0, 0}));
  unit->set_state(UnitState::failed_for_good);
  ExpectSense(host->Finish(*task), 4, 0x3e, 0x01);
}

TEST_F(State, ALateStoreMakesAUnitWithoutCapacityThatBecomesReady) {
  UnitOptions options = DefaultOptions();
  options.may_be_late = true;
  nexus.reset();
  store = std::make_shared<TestStore>(0);
  unit = MakeUnit(store, options);
  nexus = std::make_unique<ItNexus>(Names(), MakeMap({{0, unit}}));
  host = std::make_unique<Initiator>(*nexus, engine);
  EXPECT_EQ(unit->state(), UnitState::becoming_ready);
  EXPECT_EQ(Pending(), "29/00");
  ExpectSense(ReadCapacity16(), 2, 0x04, 0x01);
  store->resize(1 << 20);
  unit->store_changed();
  unit->set_state(UnitState::ready);
  EXPECT_EQ(Pending(), "2a/09 28/00");
  EXPECT_EQ(get64(ReadCapacity16().data.data()), (1u << 20) / 512 - 1);
  ExpectGood(Write16(0, Repeated(7, 8)));
}

class StoreChange : public State {
 protected:
  backing::Geometry& geometry() { return store->change_geometry(); }
};

TEST_F(StoreChange, NothingNewIsNoNews) {
  unit->store_changed();
  EXPECT_EQ(Pending(), "");
}

TEST_F(StoreChange, OfSizeIsACapacityChangeOnly) {
  store->resize(TestStore::kDefaultSize * 2);
  unit->store_changed();
  EXPECT_EQ(Pending(), "2a/09");
  EXPECT_EQ(unit->blocks(), TestStore::kDefaultSize * 2 / 512);
}

TEST_F(StoreChange, OfTheDiscardGranuleIsInquiryData) {
  geometry().discard_granularity = 65536;
  unit->store_changed();
  EXPECT_EQ(Pending(), "3f/03");
  EXPECT_EQ(get32(Vpd(0xb0).data.data() + 28), 128u);
}

TEST_F(StoreChange, LosingDiscardIsBothAndUnmapIsGone) {
  geometry().discard_granularity = 0;
  unit->store_changed();
  EXPECT_EQ(Pending(), "2a/09 3f/03");
  ExpectSense(SendUnmap({{0, 8}}), 5, 0x20, 0);
  EXPECT_EQ(ReadCapacity16().data[14], 0);
}

TEST_F(StoreChange, ReadOnlyIsAModeParameterAndRefusesWrites) {
  geometry().read_only = true;
  unit->store_changed();
  EXPECT_EQ(Pending(), "2a/01");
  ExpectSense(Write10(0, Repeated(1, 1)), 7, 0x27, 0);
  EXPECT_EQ(ModeSense6(0x3f).data[2] & 0x80, 0x80);
  geometry().read_only = false;
  unit->store_changed();
  EXPECT_EQ(Pending(), "2a/01");
  ExpectGood(Write10(0, Repeated(1, 1)));
}

TEST_F(StoreChange, ReadOnlyIsNoNewsToAReadOnlyMapping) {
  Build({}, {}, TestStore::kDefaultSize, true);
  unit->set_read_only(true);
  EXPECT_EQ(Pending(), "");
}

TEST_F(StoreChange, LimitsThatWereReadStayValid) {
  const UnitLimits& before = unit->limits();
  for (uint32_t i = 0; i < 100; ++i) {
    geometry().discard_granularity = i % 2 == 0 ? 65536 : 4096;
    unit->store_changed();
  }
  EXPECT_EQ(before.unmap_granularity, 8u);
  EXPECT_EQ(&unit->limits(), &before);  // the same again, not a hundredth
}

class LiveSync : public State {};

TEST_F(LiveSync, AlwaysFlushesEveryWriteAndTellsTheHosts) {
  unit->set_sync(SyncMode::always);
  EXPECT_EQ(Pending(), "2a/01 3f/03");
  EXPECT_EQ(ModeSense6(0x08, 0x08).data[6] & 0x04, 0);
  ExpectGood(Write10(0, Repeated(1, 1)));
  EXPECT_EQ(store->count(backing::IoKind::flush), 1u);
}

// What was acknowledged under WCE=1 is not on the medium because the mode changed.
TEST_F(LiveSync, AfterTheChangeToAlwaysAFlushIsStillAFlush) {
  ExpectGood(Write10(0, Repeated(1, 1)));
  unit->set_sync(SyncMode::always);
  EXPECT_EQ(Pending(), "2a/01 3f/03");
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(store->count(backing::IoKind::flush), 1u);
}

TEST_F(LiveSync, BetweenStandardAndDisabledNothingIsSeen) {
  unit->set_sync(SyncMode::disabled);
  EXPECT_EQ(Pending(), "");
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(store->count(backing::IoKind::flush), 0u);
  unit->set_sync(SyncMode::standard);
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(store->count(backing::IoKind::flush), 1u);
}

TEST_F(LiveSync, ReadOnlyCanBeSetAndTakenBack) {
  unit->set_read_only(true);
  EXPECT_EQ(Pending(), "2a/01");
  ExpectSense(Write10(0, Repeated(1, 1)), 7, 0x27, 0);
  unit->set_read_only(false);
  EXPECT_EQ(Pending(), "2a/01");
  ExpectGood(Write10(0, Repeated(1, 1)));
}

}  // namespace
}  // namespace zvolt::scsi::test
