// Faults that runs of tests/crash have found, each in the fewest steps: drains and copies forward, attaching after a
// failed attempt, room for copies, who leads commits, requests that fail half-way, stores that are reopened, leaving.
#include "backing/journal/owed.h"
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using namespace std::chrono_literals;

class Found : public testing::Test {
 protected:
  void start(size_t luns) {
    world_.options.max_dirty_age = 0ms;
    for (size_t i = 0; i < luns; ++i) world_.add_store();
    ASSERT_EQ(world_.open(), "");
  }
  void fail_writes(size_t lun, int error) {
    world_.stores[lun]->fault = [error](const IoRequest& r) { return r.kind == IoKind::read ? 0 : error; };
  }
  void later(uint64_t ms) { world_.now_ns += ms * 1'000'000; }
  // Committed by the shard: no turn of write-back.
  void commit_only(size_t lun, uint64_t offset, uint8_t value) {
    Op op(IoKind::write, offset, 4096, value);
    op.request.fua = true;
    world_.submit(lun, op);
    for (int i = 0; i < 50 && !op.completed; ++i) world_.shard_turn();
    ASSERT_TRUE(op.completed);
  }
  bool drain_one(size_t lun, std::chrono::milliseconds limit) {
    JournaledStore* one[] = {world_.luns[lun].get()};
    return world_.journal->drain(one, limit).ok();
  }
  // Many laps of the ring.
  void go_round(size_t lun) {
    for (uint64_t i = 0; i < 300; ++i) {
      later(10);
      ASSERT_EQ(world_.write(lun, i % 64 * 4096, 4096, static_cast<uint8_t>(i)), 0) << i;
      world_.run(2);
    }
  }

  World world_{uint64_t{128} << 10, kSmallSector};
};

TEST_F(Found, DrainIsNotDoneBecauseRecordsWereCopiedForward) {
  start(2);
  fail_writes(0, ENOMEDIUM);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.run();
  for (int i = 0; i < 16; ++i) commit_only(1, 0, static_cast<uint8_t>(i));
  EXPECT_FALSE(drain_one(0, 20ms));
  EXPECT_GT(world_.journal->statistics().forwarded, 0U);
  world_.stores[0]->fault = {};
  later(5000);
  ASSERT_TRUE(drain_one(0, 5s));
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
}

TEST_F(Found, DrainIsNotDoneBecauseTheRangeWasWrittenOver) {
  world_.options.clock_ns = [this] { return world_.now_ns += 10'000; };
  start(1);
  commit_only(0, 0, 0x11);
  bool first = true;
  world_.stores[0]->fault = [&](const IoRequest& r) {
    if (r.kind != IoKind::write || !std::exchange(first, false)) return 0;
    commit_only(0, 0, 0x22);
    return EIO;
  };
  ASSERT_TRUE(drain_one(0, 10s));
  EXPECT_FALSE(first);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x22));
}

TEST(OwedRanges, AreSettledByTheSameRecordOrANewerOne) {
  Owed owed;
  owed.add(0, 100, 5);
  owed.add(200, 300, 7);
  owed.settle(0, 300, 4);
  EXPECT_FALSE(owed.empty());
  owed.settle(40, 60, 5);
  owed.settle(0, 40, 6);
  owed.settle(200, 300, 6);
  owed.settle(60, 250, 9);
  EXPECT_FALSE(owed.empty());
  owed.settle(0, 249, 9);
  EXPECT_FALSE(owed.empty());
  owed.settle(250, 300, 7);
  EXPECT_TRUE(owed.empty());
}

TEST_F(Found, AttachCanBeTriedAgainInTheSameLife) {
  const auto keeper = std::make_shared<MemoryKeeper>();
  world_.options.keeper = keeper;
  start(1);
  world_.add_store();
  keeper->keeps_but_fails = true;
  EXPECT_NE(world_.attach(1), "");
  keeper->keeps_but_fails = false;
  fail_writes(1, EIO);  // its flush
  EXPECT_NE(world_.attach(1), "");
  world_.stores[1]->fault = {};
  EXPECT_EQ(world_.attach(1), "");
  EXPECT_EQ(world_.write(1, 0, 4096, 0x11), 0);
}

// A group that is larger than the reserve could not be copied: the tail stood there for ever.
TEST(FoundOnLargeSectors, LunsThatAreNotAttachedStopNobody) {
  World world(uint64_t{128} << 10, kLargeSector);
  world.options.max_dirty_age = 0ms;
  for (int i = 0; i < 3; ++i) world.add_store();
  ASSERT_EQ(world.open(), "");
  for (const size_t lun : {0, 1}) {
    world.stores[lun]->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : ENOMEDIUM; };
  }
  for (uint64_t i = 0; i < 10; ++i) {  // one burst: its copies promise more than is free once the others write
    Op op(IoKind::write, i * 8192, 4096, static_cast<uint8_t>(i + 1));
    world.submit(i % 2, op);
    ASSERT_TRUE(op.completed);
  }
  for (const size_t lun : {0, 1}) ASSERT_EQ(world.plain(lun, IoKind::flush), 0);
  world.kill();
  auto opened = Journal::open(world.log, world.options);
  ASSERT_TRUE(opened.ok());
  world.journal = std::move(*opened);
  ASSERT_EQ(world.attach(2), "");
  for (uint64_t i = 0; i < 200; ++i) {
    world.now_ns += 10'000'000;
    ASSERT_EQ(world.write(2, i % 64 * 4096, 4096, static_cast<uint8_t>(i)), 0) << i;
    world.run(2);
  }
  for (const size_t lun : {0, 1}) {
    world.stores[lun]->fault = {};
    ASSERT_EQ(world.attach(lun), "");
  }
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(world.reads(i % 2, i * 8192, 4096, static_cast<uint8_t>(i + 1)));
}

TEST_F(Found, StoreThatFailsButIsThereStopsNobodyElse) {
  start(2);
  fail_writes(0, ENOSPC);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  go_round(1);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
}

// Copies of what is left of a record that newer ones have cut to pieces take no more room than it did.
TEST_F(Found, RecordInPiecesIsCopiedForwardWhole) {
  start(2);
  fail_writes(0, ENOMEDIUM);
  ASSERT_EQ(world_.write(0, 0, 8192, 0x11), 0);
  for (uint64_t at = 512; at < 8192; at += 1024) ASSERT_EQ(world_.plain(0, IoKind::write_zeroes, at, 512, true), 0);
  go_round(1);
  EXPECT_GT(world_.journal->statistics().forwarded, 0U);
  for (uint64_t at = 0; at < 8192; at += 1024) {
    EXPECT_TRUE(world_.reads(0, at, 512, 0x11)) << at;
    EXPECT_TRUE(world_.reads(0, at + 512, 512, 0)) << at;
  }
}

// A piece of 512 bytes takes as much of this ring as a whole record of 4096.
TEST(FoundOnLargeSectors, RecordInPiecesTakesNoMoreRoomThanItHad) {
  World world(uint64_t{64} << 10, kLargeSector);
  world.options.max_dirty_age = 0ms;
  for (int i = 0; i < 2; ++i) world.add_store();
  ASSERT_EQ(world.open(), "");
  world.stores[0]->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : ENOMEDIUM; };
  ASSERT_EQ(world.write(0, 0, 4096, 0x11), 0);
  for (const uint64_t at : {512, 1536, 2560, 3584, 8192}) {
    ASSERT_EQ(world.plain(0, IoKind::write_zeroes, at, 512, true), 0);
  }
  for (uint64_t i = 0; i < 100; ++i) {
    world.now_ns += 10'000'000;
    ASSERT_EQ(world.write(1, i % 64 * 4096, 4096, static_cast<uint8_t>(i)), 0) << i;
    world.run(2);
  }
  EXPECT_GT(world.journal->statistics().forwarded, 0U);
  for (uint64_t at = 0; at < 4096; at += 1024) {
    EXPECT_TRUE(world.reads(0, at, 512, 0x11)) << at;
    EXPECT_TRUE(world.reads(0, at + 512, 512, 0)) << at;
  }
}

// Engines that end one request at a time: detach() is answered while the group behind its own is on its way.
TEST(FoundStepByStep, CommitsGoOnWhenTheFunctionThatWaitedForOneHasReturned) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    World world(uint64_t{128} << 10, kSmallSector, &random);
    world.options.max_dirty_age = 0ms;
    for (int i = 0; i < 2; ++i) world.add_store();
    ASSERT_EQ(world.open(), "");
    ASSERT_EQ(world.write(0, 0, 4096, 0x11), 0);
    Op op(IoKind::write, 0, 4096, 0x22);
    op.request.fua = true;
    bool queued = false;
    world.log->seen = [&](const IoRequest& r) {  // while detach() has a group on its way
      if (r.kind != IoKind::write || r.offset < kRingStart || std::exchange(queued, true)) return;
      world.submit(1, op);
    };
    ASSERT_TRUE(world.journal->detach(*world.luns[0], 5s).ok());
    ASSERT_TRUE(queued);
    world.log->seen = {};
    ASSERT_TRUE(world.finish(op)) << seed;
    EXPECT_EQ(world.write(1, 4096, 4096, 0x33), 0);
  }
}

TEST_F(Found, PiecesOfARequestThatFailsHalfWayAreCommitted) {
  world_.options.most_waiters = 0;
  start(1);
  Op op(IoKind::write, 0, uint64_t{256} << 10, 0x11);
  world_.submit(0, op);
  ASSERT_TRUE(op.completed);
  EXPECT_EQ(op.request.error, EAGAIN);
  for (int i = 0; i < 50; ++i) world_.shard_turn();
  EXPECT_GT(world_.journal->statistics().records, 0U);
}

TEST_F(Found, StoreIsNotLateBecauseItEndedSomethingInThisTurn) {
  world_.options.clock_ns = [this] { return ++world_.now_ns; };
  start(1);
  world_.stores[0]->seen = [&](const IoRequest& r) {
    if (r.kind == IoKind::write) world_.stores[0]->stalled = true;  // the flush waits
  };
  commit_only(0, 0, 0x11);
  for (int i = 0; i < 20; ++i) {
    world_.journal->turn();
    EXPECT_FALSE(world_.luns[0]->status().store_away);
  }
  EXPECT_TRUE(world_.stores[0]->stalled);
  world_.stores[0]->seen = {};
  world_.stores[0]->release();
  EXPECT_TRUE(drain_one(0, 5s));
}

TEST_F(Found, StoreReopenedBetweenAWriteAndItsFlushIsWrittenOnceMore) {
  start(1);
  bool lost = false;
  world_.stores[0]->seen = [&](const IoRequest& r) {
    if (r.kind == IoKind::write && !std::exchange(lost, true)) world_.stores[0]->reopen();
  };
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.run();
  ASSERT_TRUE(lost);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
  for (int i = 0; i < 5; ++i) {
    later(3000);
    world_.run();
  }
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
  EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 0U);
}

TEST_F(Found, WhatIsWrittenAfterADetachThatCouldNotBeToldIsKept) {
  const auto keeper = std::make_shared<MemoryKeeper>();
  world_.options.keeper = keeper;
  start(1);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  keeper->keeps_but_fails = true;
  EXPECT_FALSE(world_.journal->detach(*world_.luns[0], 5s).ok());
  commit_only(0, 0, 0x22);
  commit_only(0, 4096, 0x33);
  Random random(1);
  world_.cut_power(random);
  keeper->keeps_but_fails = false;
  auto opened = Journal::open(world_.log, world_.options);
  ASSERT_TRUE(opened.ok());
  world_.journal = std::move(*opened);
  ASSERT_EQ(world_.attach(0), "");
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x22));
  EXPECT_TRUE(world_.reads(0, 4096, 4096, 0x33));
}

TEST_F(Found, AnotherDetachTellsWhatTheFirstCouldNot) {
  const auto keeper = std::make_shared<MemoryKeeper>();
  world_.options.keeper = keeper;
  start(1);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  keeper->broken = true;
  EXPECT_FALSE(world_.journal->detach(*world_.luns[0], 5s).ok());
  EXPECT_FALSE(world_.journal->detach(*world_.luns[0], 5s).ok());
  keeper->broken = false;
  EXPECT_TRUE(world_.journal->detach(*world_.luns[0], 5s).ok());
  ASSERT_EQ(keeper->entries.size(), 1U);
  EXPECT_EQ(keeper->entries[0].state, StateKeeper::State::detached);
}

TEST_F(Found, RangedFlushOfALunThatCouldNotLeaveAFailedLogIsNoSuccess) {
  const auto keeper = std::make_shared<MemoryKeeper>();
  world_.options.keeper = keeper;
  start(1);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x22, false), 0);
  keeper->broken = true;
  world_.log->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : EIO; };
  EXPECT_EQ(world_.plain(0, IoKind::flush), EROFS);
  ASSERT_EQ(world_.luns[0]->status().mode, JournaledStore::Mode::read_only);
  EXPECT_EQ(world_.plain(0, IoKind::flush, 0, 4096), EROFS);
}

TEST_F(Found, FlushAfterRecordsCouldNotBeVoidedInAFailedLogIsAnswered) {
  world_.options.on_failure = FailurePolicy::read_only;
  start(1);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.log->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : EIO; };
  EXPECT_NE(world_.write(0, 0, 4096, 0x22), EINPROGRESS);
  ASSERT_EQ(world_.luns[0]->status().mode, JournaledStore::Mode::read_only);
  EXPECT_FALSE(world_.journal->detach(*world_.luns[0], 5s).ok());
  Op flush(IoKind::flush, 0, 0);
  world_.submit(0, flush);
  EXPECT_TRUE(world_.finish(flush));
}

// Two LUNs whose stores are away hold all of the ring: a third is told BUSY, and does not hang; and goes on with them.
TEST_F(Found, RingFullOfWhatNoStoreTakesIsBusyForTheOthers) {
  start(3);
  std::deque<Op> fill;
  for (const size_t lun : {0, 1}) {
    fail_writes(lun, ENOMEDIUM);
    for (uint64_t i = 0; i < 64 && (fill.empty() || fill.back().completed); ++i) {
      world_.submit(lun, fill.emplace_back(IoKind::write, i * 4096, 4096, 1));
      world_.run(2);
    }
  }
  Op op(IoKind::write, 0, 32768, 0x33);
  op.request.fua = true;
  world_.submit(2, op);
  for (int i = 0; i < 20; ++i) {
    later(1000);
    world_.run(3);
  }
  EXPECT_TRUE(std::all_of(fill.begin(), fill.end(), [](const Op& each) { return each.completed; }));
  ASSERT_TRUE(op.completed);
  EXPECT_EQ(op.request.error, EAGAIN);
  EXPECT_TRUE(std::any_of(world_.reports.begin(), world_.reports.end(),
                          [](const std::string& text) { return text.find("is full of data") != std::string::npos; }));
  for (const size_t lun : {0, 1}) world_.stores[lun]->fault = {};
  for (int i = 0; i < 10; ++i) {
    later(1000);
    world_.run();
  }
  EXPECT_EQ(world_.write(2, 0, 32768, 0x33), 0);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 1));
}

}  // namespace
}  // namespace zvolt::backing::journal
