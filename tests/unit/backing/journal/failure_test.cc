// What fails at run time: the log (write, flush, superblock), the store (write, flush, no space), the state's keeper.
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using namespace std::chrono_literals;
using Mode = JournaledStore::Mode;

class Failure : public testing::Test {
 protected:
  void SetUp() override {
    world_.options.keeper = keeper_;
    world_.add_store();
  }
  void start() { ASSERT_EQ(world_.open(), ""); }
  void break_log(IoKind kind) {
    world_.log->fault = [kind](const IoRequest& r) { return r.kind == kind ? EIO : 0; };
  }
  void later(uint64_t ms) { world_.now_ns += ms * 1'000'000; }

  World world_{uint64_t{128} << 10, kSmallSector};
  std::shared_ptr<MemoryKeeper> keeper_ = std::make_shared<MemoryKeeper>();
};

TEST_F(Failure, LogThatCannotBeWrittenOrFlushedLosesNothing) {
  for (const IoKind kind : {IoKind::write, IoKind::flush}) {
    world_.log->fault = {};
    start();
    ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
    ASSERT_EQ(world_.write(0, 8192, 4096, 0x22, false), 0);
    break_log(kind);
    // Acknowledged only when it is in the flushed store.
    const uint64_t flushes = world_.stores[0]->flushes;
    ASSERT_EQ(world_.write(0, 16384, 4096, 0x33), 0);
    EXPECT_GT(world_.stores[0]->flushes, flushes);
    EXPECT_EQ(world_.luns[0]->status().mode, Mode::direct);
    EXPECT_NE(world_.journal->failure(), "");
    EXPECT_EQ(keeper_->history.back().state, StateKeeper::State::detached);
    EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11) && world_.store_holds(0, 8192, 4096, 0x22) &&
                world_.store_holds(0, 16384, 4096, 0x33));
    ASSERT_EQ(world_.write(0, 0, 4096, 0x44), 0);
    EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x44));
    EXPECT_TRUE(world_.reads(0, 0, 4096, 0x44));
    ASSERT_EQ(world_.plain(0, IoKind::flush), 0);
    world_.kill();
    std::fill(world_.stores[0]->bytes().begin(), world_.stores[0]->bytes().end(), uint8_t{0});
  }
}

TEST_F(Failure, JournalThatComesBackStaleIsNotReplayedOverNewerData) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  break_log(IoKind::write);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x22), 0);
  ASSERT_EQ(world_.write(0, 0, 4096, 0x33), 0);
  world_.kill();
  world_.log->fault = {};  // the device is back, with 0x11 in its ring
  start();
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x33));
  ASSERT_EQ(world_.write(0, 4096, 4096, 0x44), 0);
  world_.kill();
  start();
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x33));
  EXPECT_TRUE(world_.reads(0, 4096, 4096, 0x44));
}

TEST_F(Failure, StateIsToldDetachedAfterTheStoreIsUpToDateAndBeforeAnythingElse) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  bool told = false;
  keeper_->on_save = [&](const StateKeeper::Entry& entry) {
    if (entry.state != StateKeeper::State::detached) return;
    told = true;
    EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
    EXPECT_TRUE(world_.store_holds(0, 4096, 4096, 0x22));
    EXPECT_EQ(world_.luns[0]->status().mode, Mode::leaving);
  };
  break_log(IoKind::write);
  Op op(IoKind::write, 4096, 4096, 0x22);
  op.request.fua = true;
  world_.submit(0, op);
  for (int i = 0; i < 100 && !told; ++i) {
    EXPECT_FALSE(op.completed);
    world_.run(1);
  }
  ASSERT_TRUE(told);
  ASSERT_TRUE(world_.finish(op));
  EXPECT_EQ(op.request.error, 0);
}

TEST_F(Failure, LunWhoseStateCannotBeKeptGoesReadOnly) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  keeper_->broken = true;
  break_log(IoKind::write);
  EXPECT_EQ(world_.write(0, 0, 4096, 0x22), EROFS);
  EXPECT_EQ(world_.luns[0]->status().mode, Mode::read_only);
  EXPECT_EQ(world_.write(0, 0, 4096, 0x33), EROFS);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x22));
}

TEST_F(Failure, PolicyReadOnlyServesReads) {
  world_.options.on_failure = FailurePolicy::read_only;
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  break_log(IoKind::write);
  EXPECT_EQ(world_.write(0, 4096, 4096, 0x22), 0);  // it is in the flushed store
  EXPECT_EQ(world_.write(0, 8192, 4096, 0x33), EROFS);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
  EXPECT_EQ(world_.plain(0, IoKind::flush), 0);
}

TEST_F(Failure, LogAndStoreAwayTogetherIsAnErrorNotAnAcknowledgement) {
  start();
  world_.stores[0]->fault = [](const IoRequest& r) { return r.kind == IoKind::read ? 0 : ENOMEDIUM; };
  break_log(IoKind::write);
  EXPECT_EQ(world_.write(0, 0, 4096, 0x22), ENOMEDIUM);
  world_.stores[0]->fault = {};
  for (int i = 0; i < 5; ++i) {
    later(3000);
    world_.run();
  }
  EXPECT_EQ(world_.luns[0]->status().mode, Mode::direct);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x22));
}

TEST_F(Failure, SuperblockThatCannotBeWrittenFreesNothing) {
  world_.options.max_dirty_age = 0ms;
  start();
  world_.log->fault = [](const IoRequest& r) { return r.kind == IoKind::write && r.offset < kRingStart ? EIO : 0; };
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  for (int i = 0; i < 5; ++i) {
    later(3000);
    world_.run();
  }
  EXPECT_NE(world_.journal->failure(), "");
  EXPECT_EQ(world_.luns[0]->status().mode, Mode::direct);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x11));
}

TEST_F(Failure, StoreThatFailsAWriteIsTriedAgainAndNothingIsForgotten) {
  world_.options.max_dirty_age = 0ms;
  start();
  for (const int error : {EIO, ENOSPC}) {
    world_.stores[0]->fault = [error](const IoRequest& r) { return r.kind == IoKind::write ? error : 0; };
    ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
    later(3000);
    world_.run();
    EXPECT_EQ(world_.luns[0]->status().store_error, error);
    EXPECT_TRUE(world_.reads(0, 0, 4096, 0x11));
    EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 4096U);
    world_.stores[0]->fault = {};
    later(5000);
    ASSERT_TRUE(world_.drain());
    EXPECT_EQ(world_.luns[0]->status().store_error, 0);
  }
}

TEST_F(Failure, OneBadPlaceOfTheStoreDoesNotStopTheRest) {
  world_.options.max_dirty_age = 0ms;
  start();
  world_.stores[0]->fault = [](const IoRequest& r) { return r.kind == IoKind::write && r.offset == 0 ? EIO : 0; };
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  ASSERT_EQ(world_.write(0, 65536, 4096, 0x22), 0);
  later(3000);
  world_.run();
  EXPECT_TRUE(world_.store_holds(0, 65536, 4096, 0x22));
  EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 4096U);
}

// A failed flush may have lost any of what was written before it: all of it is written once more.
TEST_F(Failure, StoreThatFailsAFlushGetsEverythingAgain) {
  world_.options.max_dirty_age = 0ms;
  start();
  bool fail = true;
  int writes = 0;
  world_.stores[0]->fault = [&](const IoRequest& r) { return r.kind == IoKind::flush && fail ? EIO : 0; };
  world_.stores[0]->seen = [&](const IoRequest& r) { writes += r.kind == IoKind::write ? 1 : 0; };
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  later(3000);
  world_.run();
  EXPECT_GE(writes, 1);
  EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 4096U);
  fail = false;
  const int before = writes;
  later(5000);
  ASSERT_TRUE(world_.drain());
  EXPECT_EQ(writes, before + 1);
}

TEST_F(Failure, StoreThatStallsStopsNeitherCommitsNorReads) {
  world_.options.max_dirty_age = 0ms;
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.stores[0]->stalled = true;
  later(3000);
  world_.run();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x22), 0);
  EXPECT_TRUE(world_.reads(0, 0, 4096, 0x22));
  world_.stores[0]->release();
  later(3000);
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0x22));  // the older write has not come after
}

}  // namespace
}  // namespace zvolt::backing::journal
