// Several LUNs on one journal: stores that are away, quotas, copies forward, states outside the ring, holds, leaving.
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using namespace std::chrono_literals;
using State = StateKeeper::State;

class Luns : public testing::Test {
 protected:
  void SetUp() override {
    world_.options.keeper = keeper_;
    world_.options.max_dirty_age = 0ms;
    world_.add_store();
    world_.add_store();
  }
  void away(size_t lun, bool on) {
    if (on) {
      world_.stores[lun]->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : ENOMEDIUM; };
    } else {
      world_.stores[lun]->fault = {};
    }
  }
  void later(uint64_t ms) { world_.now_ns += ms * 1'000'000; }

  World world_{uint64_t{128} << 10, kSmallSector};
  std::shared_ptr<MemoryKeeper> keeper_ = std::make_shared<MemoryKeeper>();
};

TEST_F(Luns, OneStoreAwayStopsNobodyElse) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  for (int i = 0; i < 400; ++i) {  // many laps of the ring
    later(10);
    ASSERT_EQ(world_.write(1, static_cast<uint64_t>(i % 64) * 4096, 4096, static_cast<uint8_t>(i)), 0) << i;
    world_.run(2);
  }
  EXPECT_GT(world_.journal->statistics().forwarded, 0U);
  EXPECT_TRUE(world_.luns[0]->status().store_away);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
  world_.kill();  // and still in the ring
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
  away(0, false);
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
}

TEST_F(Luns, AwayStoreWithItsQuotaSpentAnswersBusy) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  int error = 0;
  for (int i = 0; i < 64 && error == 0; ++i) {
    later(10);
    error = world_.write(0, static_cast<uint64_t>(i) * 4096, 4096, 1);
    world_.run(4);
  }
  EXPECT_EQ(error, EAGAIN);
  EXPECT_EQ(world_.write(1, 0, 4096, 2), 0);
  away(0, false);
  later(5000);
  ASSERT_TRUE(world_.drain());
  EXPECT_EQ(world_.write(0, 0, 4096, 3), 0);
}

TEST_F(Luns, RecordsOfALunThatIsNotAttachedYetWait) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  ASSERT_EQ(world_.write(0, 8192, 4096, 0x77), 0);
  world_.kill();
  away(0, false);
  auto opened = Journal::open(world_.log, world_.options);
  ASSERT_TRUE(opened.ok());
  world_.journal = std::move(*opened);
  ASSERT_EQ(world_.journal->replayed().luns.size(), 1U);
  ASSERT_EQ(world_.attach(1), "");
  for (int i = 0; i < 300; ++i) {
    later(10);
    ASSERT_EQ(world_.write(1, static_cast<uint64_t>(i % 64) * 4096, 4096, static_cast<uint8_t>(i)), 0) << i;
    world_.run(2);
  }
  EXPECT_TRUE(world_.store_holds(0, 8192, 4096, 0));
  ASSERT_EQ(world_.attach(0), "");
  EXPECT_TRUE(world_.reads(0, 8192, 4096, 0x77));
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(world_.store_holds(0, 8192, 4096, 0x77));
}

TEST_F(Luns, DiscardedRecordsAreGoneForGood) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x55), 0);
  world_.kill();
  away(0, false);
  auto opened = Journal::open(world_.log, world_.options);
  ASSERT_TRUE(opened.ok());
  world_.journal = std::move(*opened);
  ASSERT_TRUE(world_.journal->discard(lun_uuid(0)).ok());
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0));
}

TEST_F(Luns, StateIsKeptBeforeTheFirstWriteIsAcknowledged) {
  ASSERT_EQ(world_.open(), "");
  ASSERT_EQ(keeper_->entries.size(), 2U);
  EXPECT_EQ(keeper_->entries[0],
            (StateKeeper::Entry{lun_uuid(0), kJournalUuid, world_.journal->epoch(), State::dirty}));
}

TEST_F(Luns, LunWhoseStateCannotBeKeptIsNotAttached) {
  keeper_->broken = true;
  EXPECT_NE(world_.open(), "");
}

TEST_F(Luns, DataInAnotherJournalIsARefusal) {
  keeper_->entries.push_back({lun_uuid(1), Uuid{0xcc}, 1, State::dirty});
  EXPECT_NE(world_.open().find("another journal"), std::string::npos);
}

TEST_F(Luns, JournalThatIsOlderThanTheStateSaysIsARefusal) {
  ASSERT_EQ(world_.open(), "");
  const auto old = world_.log->bytes();
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  world_.kill();
  world_.log->bytes() = world_.log->durable() = old;  // a copy of the log from before
  EXPECT_NE(world_.open().find("older"), std::string::npos);
}

TEST_F(Luns, DetachedLunGoesStraightToItsStore) {
  ASSERT_EQ(world_.open(), "");
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  ASSERT_TRUE(world_.journal->detach(*world_.luns[0], 5s).ok());
  EXPECT_EQ(keeper_->history.back().state, State::detached);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
  ASSERT_EQ(world_.write(0, 0, 4096, 0x22), 0);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x22));
  EXPECT_EQ(world_.luns[0]->status().mode, JournaledStore::Mode::direct);
}

TEST_F(Luns, OldRecordIsNotReplayedOverANewerDirectWrite) {
  world_.options.keeper = nullptr;  // the ring alone must know
  ASSERT_EQ(world_.open(), "");
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  ASSERT_TRUE(world_.journal->detach(*world_.luns[0], 5s).ok());
  ASSERT_EQ(world_.write(0, 0, 4096, 0x22), 0);
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x22));
}

TEST_F(Luns, ReplayThatIsNotAdmittedServesNothingAndKeepsTheRecords) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.kill();
  away(0, false);
  auto opened = Journal::open(world_.log, world_.options);
  ASSERT_TRUE(opened.ok());
  world_.journal = std::move(*opened);
  AttachOptions options;
  options.uuid = lun_uuid(0);
  options.name = "lun0";
  options.store = world_.stores[0];
  options.admit_replay = [] { return Result<void>(Error{EUCLEAN, "it was rolled back"}); };
  auto attached = world_.journal->attach(std::move(options));
  ASSERT_TRUE(attached.ok());
  world_.luns[0] = *attached;
  EXPECT_EQ(world_.plain(0, IoKind::read, 0, 512), ENOMEDIUM);  // not asked yet
  world_.run();
  EXPECT_EQ(world_.luns[0]->status().mode, JournaledStore::Mode::refused);
  EXPECT_EQ(world_.plain(0, IoKind::read, 0, 512), EIO);
  EXPECT_EQ(world_.write(0, 0, 512, 1), EIO);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0));
}

TEST_F(Luns, HoldOfTwoLunsSeesOneInstant) {
  world_.options.max_dirty_age = 10s;
  ASSERT_EQ(world_.open(), "");
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11, false), 0);
  ASSERT_EQ(world_.write(1, 0, 4096, 0x11, false), 0);
  Op held(IoKind::write, 0, 4096, 0x22);
  JournaledStore* both[] = {world_.luns[0].get(), world_.luns[1].get()};
  world_.shard_turn();
  world_.shard_turn();
  bool ran = false;
  const auto done = world_.journal->quiesce(both, 5s, [&]() -> Result<void> {
    ran = true;
    world_.submit(0, held);
    world_.run();
    EXPECT_FALSE(held.completed);
    EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
    EXPECT_TRUE(world_.store_holds(1, 0, 4096, 0x11));
    EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
    return {};
  });
  EXPECT_TRUE(done.ok() && ran);
  ASSERT_TRUE(world_.finish(held));
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x22));
}

TEST_F(Luns, HoldThatCannotDrainLetsWritesGoOn) {
  ASSERT_EQ(world_.open(), "");
  away(0, true);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  JournaledStore* one[] = {world_.luns[0].get()};
  const auto done = world_.journal->quiesce(one, 20ms, []() -> Result<void> {
    ADD_FAILURE() << "must not run";
    return {};
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ETIMEDOUT);
  EXPECT_EQ(world_.write(0, 4096, 4096, 0x12), 0);
}

TEST_F(Luns, TailWaitsForTheProofOfDurability) {
  bool durable = false;
  auto opened = Journal::open(world_.log, world_.options);
  ASSERT_TRUE(opened.ok());
  world_.journal = std::move(*opened);
  AttachOptions options;
  options.uuid = lun_uuid(0);
  options.store = world_.stores[0];
  options.made_durable = [&] {
    return durable ? Result<void>() : Result<void>(Error{EAGAIN, "no transaction group yet"});
  };
  auto attached = world_.journal->attach(std::move(options));
  ASSERT_TRUE(attached.ok());
  world_.luns[0] = *attached;
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  for (int i = 0; i < 20; ++i) {
    later(3000);
    world_.run();
  }
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
  EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 4096U);
  EXPECT_GT(world_.journal->statistics().ring_used, 0U);
  durable = true;
  for (int i = 0; i < 5; ++i) {
    later(3000);
    world_.run();
  }
  EXPECT_EQ(world_.journal->statistics().ring_used, 0U);
}

}  // namespace
}  // namespace zvolt::backing::journal
