// The durability contract: who flushes when, per sync mode, and what a failed flush means.
#include <cerrno>

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using backing::IoKind;

class Durability : public ScsiTest {
 protected:
  void BuildSync(SyncMode sync, bool volatile_cache = true) {
    Build([=](backing::Geometry& geometry) { geometry.volatile_cache = volatile_cache; },
          [=](UnitOptions& options) { options.sync = sync; });
  }
  size_t Flushes() const { return store->count(IoKind::flush); }
};

constexpr uint8_t kFuaBit = 0x08;

TEST_F(Durability, StandardFlushesOnFuaAndSynchronizeCacheOnly) {
  BuildSync(SyncMode::standard);
  ExpectGood(Write10(0, Repeated(1, 1)));
  EXPECT_EQ(Flushes(), 0u);
  ExpectGood(Write10(0, Repeated(1, 1), kFuaBit));
  EXPECT_EQ(Flushes(), 1u);
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(Flushes(), 2u);
}

TEST_F(Durability, AlwaysFlushesAfterEveryChangeAndHasNothingLeftToSynchronize) {
  BuildSync(SyncMode::always);
  ExpectGood(Write10(0, Repeated(1, 1)));
  EXPECT_EQ(Flushes(), 1u);
  ExpectGood(WriteSame10(0, 8, 0, Repeated(7, 1)));
  EXPECT_EQ(Flushes(), 2u);
  ExpectGood(SendUnmap({{0, 64}}));
  EXPECT_EQ(Flushes(), 3u);
  ExpectGood(SynchronizeCache10());
  ExpectGood(Read10(0, 1, kFuaBit));
  EXPECT_EQ(Flushes(), 3u);
}

TEST_F(Durability, DisabledNeverFlushes) {
  BuildSync(SyncMode::disabled);
  ExpectGood(Write10(0, Repeated(1, 1), kFuaBit));
  ExpectGood(SynchronizeCache10());
  ExpectGood(Read10(0, 1, kFuaBit));
  EXPECT_EQ(Flushes(), 0u);
}

TEST_F(Durability, AStoreWithoutVolatileCacheIsNeverFlushed) {
  for (const SyncMode mode : {SyncMode::standard, SyncMode::always}) {
    BuildSync(mode, false);
    ExpectGood(Write10(0, Repeated(1, 1), kFuaBit));
    ExpectGood(SynchronizeCache10());
    EXPECT_EQ(Flushes(), 0u);
  }
}

TEST_F(Durability, AReadOnlyStoreIsNeverFlushed) {
  Build([](backing::Geometry& geometry) { geometry.read_only = true; }, {});
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(Flushes(), 0u);
}

TEST_F(Durability, TheFlushComesAfterTheWriteAndGoodAfterTheFlush) {
  BuildSync(SyncMode::always);
  store->timing = Timing::withheld;
  const auto task = host->Begin(CdbLba10(0x2a, {0, 1}));
  ASSERT_EQ(task->phase, Phase::media_out);
  Bytes data(4096, 0x33);
  MediaIo piece;
  piece.length = 512;
  piece.data = data.data();
  piece.done = [](MediaIo&) noexcept {};
  ASSERT_FALSE(nexus->media_io(*task, piece));
  EXPECT_EQ(Flushes(), 0u);
  store->release_withheld();
  nexus->finish(*task);
  EXPECT_EQ(task->phase, Phase::pending);
  EXPECT_EQ(store->events.back().kind, IoKind::flush);
  store->release_withheld();
  EXPECT_EQ(task->phase, Phase::complete);
  EXPECT_EQ(task->status, Status::good);
}

TEST_F(Durability, AFuaReadFlushesBeforeItReads) {
  BuildSync(SyncMode::standard);
  store->timing = Timing::later;
  ExpectGood(Read10(0, 1, kFuaBit));
  ASSERT_EQ(store->events.size(), 2u);
  EXPECT_EQ(store->events[0].kind, IoKind::flush);
  EXPECT_EQ(store->events[1].kind, IoKind::read);
}

TEST_F(Durability, AFailedFlushIsAWriteErrorForWhoeverAskedForIt) {
  BuildSync(SyncMode::standard);
  store->errors[IoKind::flush] = EIO;
  ExpectSense(SynchronizeCache10(), 3, 0x0c, 0);
  ExpectSense(Write10(0, Repeated(1, 1), kFuaBit), 3, 0x0c, 0);
  ExpectSense(Read10(0, 1, kFuaBit), 3, 0x0c, 0);
  ExpectGood(Write10(0, Repeated(1, 1)));
  store->errors[IoKind::flush] = ENOSPC;
  ExpectSense(SynchronizeCache10(), 7, 0x27, 7);
}

TEST_F(Durability, AFailedWriteIsNotFlushed) {
  BuildSync(SyncMode::always);
  store->errors[IoKind::write] = EIO;
  ExpectSense(Write10(0, Repeated(1, 1)), 3, 0x0c, 0);
  EXPECT_EQ(Flushes(), 0u);
}

TEST_F(Durability, SynchronizeCacheWithImmedAnswersAtOnceAndFlushesInTheBackground) {
  BuildSync(SyncMode::standard);
  store->timing = Timing::withheld;
  const auto task = host->Begin(CdbLba10(0x35, {0, 0, 0x02}));
  EXPECT_EQ(task->phase, Phase::complete);
  EXPECT_EQ(task->status, Status::good);
  EXPECT_EQ(Flushes(), 1u);
  nexus.reset();  // the session ends before its flush does
  store->release_withheld();
}

TEST_F(Durability, WritesThatFinishTogetherAllWaitForTheirFlush) {
  BuildSync(SyncMode::always);
  store->timing = Timing::later;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(host->Begin(CdbLba10(0x2a, {0, 1})));
    nexus->finish(*tasks.back());
    EXPECT_EQ(tasks.back()->phase, Phase::pending);
  }
  while (engine.reap(SIZE_MAX) != 0) {
  }
  for (const auto& task : tasks) EXPECT_EQ(task->phase, Phase::complete);
}

TEST_F(Durability, StoppingTheUnitFlushesIt) {
  BuildSync(SyncMode::standard);
  ExpectGood(Send(Cdb6(0x1b, 0, 0, 0, 0x00)));
  EXPECT_EQ(Flushes(), 1u);
  ExpectGood(Send(Cdb6(0x1b, 0, 0, 0, 0x01)));
  ExpectGood(Send(Cdb6(0x1b, 0, 0, 0, 0x04)));  // NO_FLUSH
  EXPECT_EQ(Flushes(), 1u);
}

TEST_F(Durability, TheModePageTellsTheTruth) {
  const auto wce = [&] { return (ModeSense6(0x08, 0x08).data.at(6) & 0x04) != 0; };
  BuildSync(SyncMode::standard);
  EXPECT_TRUE(wce());
  BuildSync(SyncMode::always);
  EXPECT_FALSE(wce());
  BuildSync(SyncMode::disabled);
  EXPECT_TRUE(wce());
}

}  // namespace
}  // namespace zvolt::scsi::test
