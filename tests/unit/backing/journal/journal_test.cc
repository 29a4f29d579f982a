// One LUN on a journal: what is acknowledged when, what reads see, what reaches the store in which order, wrap and
// back- pressure, replay.
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using namespace std::chrono_literals;

class OneLun : public testing::Test {
 protected:
  void start(uint32_t physical = 4096) {
    world_.add_store(uint64_t{1} << 20, physical);
    ASSERT_EQ(world_.open(), "");
  }
  void later(uint64_t ms) { world_.now_ns += ms * 1'000'000; }
  // Turns of the shard only: no write-back.
  void commit_only(Op& op) {
    world_.submit(0, op);
    for (int i = 0; i < 50 && !op.completed; ++i) world_.shard_turn();
  }

  World world_{uint64_t{128} << 10, kSmallSector};
};

TEST_F(OneLun, PlainWriteIsCompleteInMemory) {
  start();
  Op op(IoKind::write, 0, 512, 7);
  EXPECT_EQ(world_.luns[0]->submit(op.request, *world_.shard), Submitted::done);
  EXPECT_EQ(op.request.error, 0);
  EXPECT_TRUE(world_.reads(0, 0, 512, 7));
}

TEST_F(OneLun, DurableWriteIsAcknowledgedAfterTheLogsFlushAndNotBefore) {
  start();
  const uint64_t flushes = world_.log->flushes;
  Op op(IoKind::write, 0, 512, 7);
  op.request.fua = true;
  world_.submit(0, op);
  EXPECT_FALSE(op.completed);
  world_.shard->flush();
  world_.shard->reap(1);  // the group's write
  EXPECT_FALSE(op.completed);
  EXPECT_EQ(world_.log->flushes, flushes);
  world_.shard->reap(1);  // its flush
  EXPECT_EQ(world_.log->flushes, flushes + 1);
  world_.shard->reap(1);
  EXPECT_TRUE(op.completed);
}

TEST_F(OneLun, BurstIsOneGroup) {
  start();
  std::vector<std::unique_ptr<Op>> ops;
  for (uint64_t i = 0; i < 10; ++i) {
    ops.push_back(std::make_unique<Op>(IoKind::write, i * 4096, 512, 1));
    ops.back()->request.fua = true;
    world_.submit(0, *ops.back());
  }
  for (const auto& op : ops) ASSERT_TRUE(world_.finish(*op));
  EXPECT_EQ(world_.journal->statistics().commits, 1U);
  EXPECT_EQ(world_.journal->statistics().records, 10U);
}

TEST_F(OneLun, FlushWaitsForWhatCompletedBefore) {
  start();
  Op write(IoKind::write, 0, 512, 7);
  ASSERT_EQ(world_.luns[0]->submit(write.request, *world_.shard), Submitted::done);
  Op flush(IoKind::flush, 0, 0);
  world_.submit(0, flush);
  EXPECT_FALSE(flush.completed);
  ASSERT_TRUE(world_.finish(flush));
  EXPECT_EQ(flush.request.error, 0);
  EXPECT_EQ(world_.plain(0, IoKind::flush), 0);
}

TEST_F(OneLun, FlushOfARangeThatIsDurableDoesNotWaitForOthers) {
  start();
  ASSERT_EQ(world_.write(0, 0, 512, 1), 0);
  Op other(IoKind::write, 8192, 512, 2);
  world_.submit(0, other);
  Op here(IoKind::flush, 0, 512);
  Op there(IoKind::flush, 8192, 512);
  world_.submit(0, here);
  world_.submit(0, there);
  EXPECT_TRUE(here.completed);
  EXPECT_FALSE(there.completed);
  ASSERT_TRUE(world_.finish(there));
}

TEST_F(OneLun, NothingReachesTheStoreBeforeItIsDurableInTheRing) {
  world_.options.max_dirty_age = 0ms;
  start();
  world_.log->stalled = true;
  Op op(IoKind::write, 0, 4096, 9);
  ASSERT_EQ(world_.luns[0]->submit(op.request, *world_.shard), Submitted::done);
  later(10000);
  world_.run(50);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 0));
  world_.log->release();
  world_.run(50);
  later(10000);
  world_.run(50);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 9));
}

TEST_F(OneLun, ReadIsMemoryOverTheStore) {
  start();
  std::fill(world_.stores[0]->bytes().begin(), world_.stores[0]->bytes().end(), uint8_t{0xee});
  ASSERT_EQ(world_.write(0, 1000, 100, 0x11), 0);
  Op op(IoKind::read, 0, 4096);
  ASSERT_EQ(world_.run_op(0, op), 0);
  for (uint64_t i = 0; i < 4096; ++i) ASSERT_EQ(op.memory[i], i >= 1000 && i < 1100 ? 0x11 : 0xee) << i;
}

TEST_F(OneLun, ReadUnderWayWhileWriteBackForgetsIsRight) {
  world_.options.max_dirty_age = 0ms;
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 0x11), 0);
  world_.stores[0]->stalled = true;  // the read of the clean part hangs at the store ...
  Op op(IoKind::read, 0, 8192);
  world_.submit(0, op);
  world_.stores[0]->stalled = false;
  ASSERT_TRUE(world_.drain());  // ... while the dirty part moves there
  world_.stores[0]->release();
  ASSERT_TRUE(world_.finish(op));
  EXPECT_TRUE(std::all_of(op.memory.begin(), op.memory.begin() + 4096, [](uint8_t b) { return b == 0x11; }));
}

TEST_F(OneLun, CleanLunReadsGoStraightToTheStore) {
  start();
  const uint64_t before = world_.stores[0]->submitted;
  EXPECT_TRUE(world_.reads(0, 0, 512, 0));
  EXPECT_EQ(world_.stores[0]->submitted, before + 1);
}

TEST_F(OneLun, SmallSequentialWritesReachTheStoreAsWholeVolblocks) {
  world_.options.max_dirty_age = 100s;
  world_.options.memory_bytes = uint64_t{256} << 10;
  start(16384);
  for (uint64_t at = 0; at < (uint64_t{1} << 20); at += 4096) {
    ASSERT_EQ(world_.write(0, at, 4096, static_cast<uint8_t>(at >> 12)), 0);
    later(1);
  }
  ASSERT_TRUE(world_.drain());
  const Statistics s = world_.journal->statistics();
  EXPECT_EQ(s.partial_in, 256U);
  EXPECT_EQ(s.partial_written_back, 0U);
  EXPECT_EQ(s.bytes_written_back, uint64_t{1} << 20);
}

TEST_F(OneLun, OverwrittenInMemoryIsWrittenBackOnce) {
  start();
  for (int i = 0; i < 8; ++i) ASSERT_EQ(world_.write(0, 0, 4096, static_cast<uint8_t>(i)), 0);
  ASSERT_TRUE(world_.drain());
  EXPECT_EQ(world_.journal->statistics().bytes_written_back, 4096U);
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 7));
}

TEST_F(OneLun, DiscardReadsAsZerosInWholeGranulesAndLeavesTheEdges) {
  start();
  ASSERT_EQ(world_.write(0, 0, 16384, 0x33), 0);
  ASSERT_TRUE(world_.drain());
  ASSERT_EQ(world_.plain(0, IoKind::discard, 1024, 12288, true), 0);
  const auto right = [&] {
    return world_.reads(0, 0, 4096, 0x33) && world_.reads(0, 4096, 8192, 0) && world_.reads(0, 12288, 4096, 0x33);
  };
  EXPECT_TRUE(right());
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(right());
  EXPECT_TRUE(world_.store_holds(0, 4096, 8192, 0));
}

TEST_F(OneLun, PartOfADiscardThatWasWrittenOverIsZeroedExactly) {
  start();
  ASSERT_EQ(world_.write(0, 0, 8192, 0x33), 0);
  ASSERT_TRUE(world_.drain());
  ASSERT_EQ(world_.plain(0, IoKind::discard, 0, 8192), 0);
  ASSERT_EQ(world_.write(0, 0, 512, 0x44), 0);  // what is left of the first granule is less than a granule
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(world_.store_holds(0, 0, 512, 0x44));
  EXPECT_TRUE(world_.store_holds(0, 512, 7680, 0));
}

TEST_F(OneLun, DiscardOfAStoreThatPromisesNoZerosChangesNothing) {
  start();
  world_.stores[0]->mutable_geometry().discard_zeroes = false;
  ASSERT_EQ(world_.write(0, 0, 8192, 0x33), 0);
  ASSERT_EQ(world_.plain(0, IoKind::discard, 0, 8192), 0);
  EXPECT_TRUE(world_.reads(0, 0, 8192, 0x33));
}

TEST_F(OneLun, WriteZeroesIsExact) {
  start();
  ASSERT_EQ(world_.write(0, 0, 8192, 0x33), 0);
  ASSERT_EQ(world_.plain(0, IoKind::write_zeroes, 100, 5000, true), 0);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_TRUE(world_.reads(0, 0, 100, 0x33));
    EXPECT_TRUE(world_.reads(0, 100, 5000, 0));
    EXPECT_TRUE(world_.reads(0, 5100, 3092, 0x33));
    ASSERT_TRUE(world_.drain());
  }
}

TEST_F(OneLun, RingIsUsedManyTimesOver) {
  world_.options.max_dirty_age = 0ms;
  start();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(world_.write(0, static_cast<uint64_t>(i % 100) * 5120, 5120, static_cast<uint8_t>(i)), 0) << i;
    later(1);
    world_.run(1);
  }
  EXPECT_GT(world_.journal->statistics().bytes_committed, uint64_t{8} * 131072);
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  for (int i = 200; i < 300; ++i) {
    ASSERT_TRUE(world_.reads(0, static_cast<uint64_t>(i % 100) * 5120, 5120, static_cast<uint8_t>(i))) << i;
  }
}

TEST_F(OneLun, FullRingMakesWritesWaitInOrderAndWriteBackLetsThemGo) {
  start();
  std::vector<std::unique_ptr<Op>> ops;
  for (uint64_t i = 0; i < 40; ++i) {
    ops.push_back(std::make_unique<Op>(IoKind::write, i * 8192, 8192, static_cast<uint8_t>(i + 1)));
    world_.submit(0, *ops.back());
  }
  const size_t at_once =
      static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [](const auto& op) { return op->completed; }));
  EXPECT_GT(at_once, 4U);
  EXPECT_LT(at_once, 16U);
  EXPECT_EQ(world_.journal->statistics().waiting, 40 - at_once);
  for (size_t i = at_once; i < ops.size(); ++i) {
    ASSERT_TRUE(world_.finish(*ops[i]));
    EXPECT_EQ(ops[i]->request.error, 0);
  }
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(world_.reads(0, i * 8192, 8192, static_cast<uint8_t>(i + 1)));
}

TEST_F(OneLun, TooManyWaitersAreToldBusy) {
  world_.options.most_waiters = 2;
  start();
  std::vector<std::unique_ptr<Op>> ops;
  int busy = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    ops.push_back(std::make_unique<Op>(IoKind::write, i * 8192, 8192, 1));
    world_.submit(0, *ops.back());
    if (ops.back()->completed && ops.back()->request.error == EAGAIN) ++busy;
  }
  EXPECT_GT(busy, 0);
  EXPECT_EQ(world_.journal->statistics().waiting, 2U);
  for (const auto& op : ops) ASSERT_TRUE(world_.finish(*op));
}

TEST_F(OneLun, WriteLargerThanARecordIsWhole) {
  start();
  ASSERT_EQ(world_.write(0, 3 * 512, 100 * 1024, 0x5a), 0);
  EXPECT_TRUE(world_.reads(0, 3 * 512, 100 * 1024, 0x5a));
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 3 * 512, 100 * 1024, 0x5a));
}

TEST_F(OneLun, RangesBeyondTheEndAreRefused) {
  start();
  EXPECT_EQ(world_.write(0, (uint64_t{1} << 20) - 512, 1024, 1), EINVAL);
  EXPECT_EQ(world_.plain(0, IoKind::discard, uint64_t{1} << 20, 512), EINVAL);
  ASSERT_EQ(world_.write(0, 0, 512, 1), 0);  // a dirty LUN checks too
  EXPECT_EQ(world_.plain(0, IoKind::read, (uint64_t{1} << 20) - 512, 1024), EINVAL);
}

TEST_F(OneLun, ReplayTwiceIsAsReplayOnce) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 1), 0);
  ASSERT_EQ(world_.write(0, 2048, 4096, 2), 0);
  for (int i = 0; i < 3; ++i) {
    world_.kill();
    ASSERT_EQ(world_.open(), "");
    EXPECT_TRUE(world_.reads(0, 0, 2048, 1));
    EXPECT_TRUE(world_.reads(0, 2048, 4096, 2));
  }
  EXPECT_EQ(world_.journal->epoch(), 4U);
}

TEST_F(OneLun, CleanCloseLeavesNothingToReplay) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 1, false), 0);
  ASSERT_TRUE(world_.journal->close(5s).ok());
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 1));
  world_.kill();
  ASSERT_EQ(world_.open(), "");
  EXPECT_EQ(world_.journal->replayed().records, 0U);
  SimEngine engine;
  ASSERT_TRUE(world_.journal->close(5s).ok());
  EXPECT_TRUE(format_journal(*world_.log, {kJournalUuid, 512, 0}, engine).ok());
}

TEST_F(OneLun, JournalInUseIsNotFormattedOver) {
  start();
  ASSERT_EQ(world_.write(0, 0, 4096, 1), 0);
  world_.kill();
  SimEngine engine;
  const auto formatted = format_journal(*world_.log, {kJournalUuid, 512, 0}, engine);
  ASSERT_FALSE(formatted.ok());
  EXPECT_EQ(formatted.error().code, EEXIST);
}

// The group of an earlier life behind a torn one has the right sequence, position and journal: only its epoch is wrong.
TEST_F(OneLun, RecordOfAnEarlierEpochBehindATornTailIsNotTaken) {
  start();
  Op first(IoKind::write, 0, 512, 1);
  Op second(IoKind::write, 4096, 512, 2);
  first.request.fua = second.request.fua = true;
  commit_only(first);
  commit_only(second);
  world_.kill();
  const auto with_second = world_.log->bytes();
  // The last group is torn: it counts as never written. A new life begins in its place, with the same sequence.
  world_.log->bytes()[kRingStart + 1024 + 600] ^= 1;
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.journal->replayed().torn);
  EXPECT_TRUE(world_.reads(0, 4096, 512, 0));
  world_.kill();
  // The torn group is whole after all (a write that the device had kept back): its epoch is over.
  std::copy_n(with_second.begin() + static_cast<ptrdiff_t>(kRingStart) + 1024, 1024,
              world_.log->bytes().begin() + static_cast<ptrdiff_t>(kRingStart) + 1024);
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 0, 512, 1));
  EXPECT_TRUE(world_.reads(0, 4096, 512, 0));
}

TEST_F(OneLun, TailDoesNotPassADurableRecordWhoseNewerOneIsNotDurable) {
  world_.options.max_dirty_age = 0ms;
  start();
  Op old_write(IoKind::write, 0, 4096, 1);
  old_write.request.fua = true;
  commit_only(old_write);
  ASSERT_TRUE(old_write.completed);
  world_.log->stalled = true;  // the newer record never becomes durable
  Op newer(IoKind::write, 0, 4096, 2);
  world_.submit(0, newer);
  for (int i = 0; i < 20; ++i) {
    later(3000);
    world_.run();
  }
  Random random(5);
  world_.cut_power(random);
  ASSERT_EQ(world_.open(), "");
  EXPECT_TRUE(world_.reads(0, 0, 4096, 1));
}

TEST_F(OneLun, ShrunkStoreGetsNothingBeyondItsEnd) {
  start();
  ASSERT_EQ(world_.write(0, 512 * 1024, 8192, 1), 0);
  ASSERT_EQ(world_.write(0, 0, 4096, 2), 0);
  world_.stores[0]->resize(512 * 1024 + 4096);
  ASSERT_TRUE(world_.drain());
  EXPECT_TRUE(world_.store_holds(0, 512 * 1024, 4096, 1));
  EXPECT_TRUE(world_.store_holds(0, 0, 4096, 2));
  EXPECT_EQ(world_.luns[0]->status().dirty_bytes, 0U);
}

TEST_F(OneLun, AllocationStatusKnowsWhatIsDirty) {
  start();
  ASSERT_EQ(world_.write(0, 4096, 4096, 1), 0);
  ASSERT_EQ(world_.plain(0, IoKind::discard, 8192, 8192), 0);
  const auto status = [&](uint64_t offset) {
    Op op(IoKind::allocation_status, offset, 65536);
    EXPECT_EQ(world_.run_op(0, op), 0);
    return std::pair(op.request.mapped, op.request.extent_length);
  };
  EXPECT_EQ(status(0), std::pair(true, uint64_t{4096}));
  EXPECT_EQ(status(4096), std::pair(true, uint64_t{4096}));
  EXPECT_EQ(status(8192), std::pair(false, uint64_t{8192}));
}

}  // namespace
}  // namespace zvolt::backing::journal
