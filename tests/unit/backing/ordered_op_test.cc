// Read-modify-write: writes of parts of a block from several shards lose nothing, whoever else writes the block.
#include <barrier>
#include <random>
#include <thread>

#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

// A store that needs whole blocks: O_DIRECT, or a skip that says why.
class Ordered : public testing::Test {
 protected:
  void SetUp() override {
    store_ = must(open_file({.path = dir_.file("disk", kMiB)}));
    ASSERT_NE(store_, nullptr);
    unit_ = store_->geometry().io_alignment;
    if (unit_ == 1) GTEST_SKIP() << "the temporary directory has no O_DIRECT: nothing needs a read-modify-write";
  }
  TempDir dir_;
  std::shared_ptr<BlockStore> store_;
  uint64_t unit_ = 1;
};

TEST_F(Ordered, AlignedWriteGoesStraightToTheEngineUntilTheFirstUnalignedOne) {
  MockEngine engine;
  Io aligned(IoKind::write, 0, unit_);
  store_->submit(aligned.request, engine);
  ASSERT_EQ(engine.calls.size(), 1U);
  EXPECT_EQ(engine.calls.front().request, &aligned.request);  // the request itself, not a copy with a hold
  engine.complete();
  EXPECT_TRUE(aligned.completed);
}

TEST_F(Ordered, UnalignedWriteWaitsForTheUntrackedWritesInFlight) {
  MockEngine engine;
  Io aligned(IoKind::write, 0, unit_);
  Io part(IoKind::write, 10, 20);
  store_->submit(aligned.request, engine);
  store_->submit(part.request, engine);
  ASSERT_EQ(engine.calls.size(), 1U);  // its read would miss the write in flight
  engine.complete();
  EXPECT_TRUE(aligned.completed);
  engine.reap(SIZE_MAX);
  ASSERT_EQ(engine.calls.size(), 1U);
  EXPECT_EQ(engine.calls.front().request->kind, IoKind::read);
  engine.complete();
  ASSERT_EQ(engine.calls.size(), 1U);
  EXPECT_EQ(engine.calls.front().request->kind, IoKind::write);
  EXPECT_EQ(engine.calls.front().request->length, unit_);
  engine.complete();
  EXPECT_TRUE(part.completed);
  EXPECT_EQ(engine.in_flight(), 0U);
}

TEST_F(Ordered, AlignedWriteWaitsForAReadModifyWriteOfItsBlockOnly) {
  MockEngine engine;
  MockEngine other;
  Io part(IoKind::write, 10, 20);
  Io same(IoKind::write, 0, 4 * unit_);
  Io elsewhere(IoKind::write, 8 * unit_, unit_);
  store_->submit(part.request, engine);
  store_->submit(same.request, other);
  store_->submit(elsewhere.request, other);
  ASSERT_EQ(other.calls.size(), 1U);
  EXPECT_EQ(other.calls.front().request->offset, 8 * unit_);
  other.complete();
  engine.complete();  // read
  engine.complete();  // write
  EXPECT_TRUE(part.completed);
  other.reap(SIZE_MAX);
  ASSERT_EQ(other.calls.size(), 1U);
  EXPECT_EQ(other.calls.front().request->offset, 0U);
  other.complete();
  EXPECT_TRUE(same.completed && elsewhere.completed);
  EXPECT_EQ(other.in_flight(), 0U);
}

TEST_F(Ordered, ReadModifyWriteGoesBeforeLaterWritesThatWaitBehindIt) {
  MockEngine engine;
  Io first(IoKind::write, 1, 1);
  Io plain(IoKind::write, 0, unit_);
  Io second(IoKind::write, 2, 1);
  Io late(IoKind::write, 0, unit_);
  for (Io* io : {&first, &plain, &second, &late}) store_->submit(io->request, engine);
  std::vector<bool> order;
  while (!late.completed) {
    engine.reap(SIZE_MAX);
    ASSERT_FALSE(engine.calls.empty());
    engine.complete();
    if (late.completed) {
      EXPECT_TRUE(first.completed && plain.completed && second.completed);
    }
    if (second.completed) {
      EXPECT_TRUE(plain.completed);
    }
  }
  EXPECT_EQ(engine.in_flight(), 0U);
}

TEST_F(Ordered, FailureOfTheReadOrWriteIsReportedAndReleasesTheBlock) {
  MockEngine engine;
  Io bad_read(IoKind::write, 10, 20);
  store_->submit(bad_read.request, engine);
  engine.complete(EIO);
  EXPECT_TRUE(bad_read.completed);
  EXPECT_EQ(bad_read.request.error, EIO);
  Io bad_write(IoKind::write, 10, 20);
  store_->submit(bad_write.request, engine);
  engine.complete();
  engine.complete(ENOSPC);
  EXPECT_EQ(bad_write.request.error, ENOSPC);
  Io good(IoKind::write, 10, 20);
  store_->submit(good.request, engine);
  EXPECT_EQ(engine.calls.size(), 1U);
  engine.complete();
  engine.complete();
  EXPECT_EQ(good.request.error, 0);
}

TEST_F(Ordered, ZeroesAndDiscardsWaitForAReadModifyWriteToo) {
  MockEngine engine;
  Io part(IoKind::write, 10, 20);
  Io zero(IoKind::write_zeroes, 0, 64 * unit_);
  store_->submit(part.request, engine);
  store_->submit(zero.request, engine);
  ASSERT_EQ(engine.calls.size(), 1U);
  engine.complete();
  engine.complete();
  engine.reap(SIZE_MAX);
  ASSERT_EQ(engine.calls.size(), 1U);
  EXPECT_NE(engine.calls.front().work, nullptr);
  engine.complete();
  EXPECT_TRUE(zero.completed);
}

TEST_F(Ordered, RangeOverTheWholeStoreHoldsEveryStripe) {
  std::filesystem::resize_file(dir_.path("disk"), 200 * kMiB);
  ASSERT_TRUE(store_->refresh_size().ok());
  MockEngine engine;
  Io part(IoKind::write, 150 * kMiB + 1, 1);
  Io all(IoKind::write_zeroes, 0, 200 * kMiB);
  store_->submit(part.request, engine);
  store_->submit(all.request, engine);
  EXPECT_EQ(engine.calls.size(), 1U);
  Io behind(IoKind::write, 0, unit_);  // shares with `all`, which holds the stripes up to the busy one
  store_->submit(behind.request, engine);
  EXPECT_EQ(engine.calls.size(), 2U);
  while (!engine.calls.empty()) engine.complete();
  EXPECT_TRUE(part.completed && all.completed && behind.completed);
}

TEST_F(Ordered, WriteLargerThanTheBounceLimitIsRefusedNotServedFromMemoryWeLack) {
  std::filesystem::resize_file(dir_.path("disk"), 64 * kMiB);
  ASSERT_TRUE(store_->refresh_size().ok());
  Shard shard;
  EXPECT_EQ(shard.write(*store_, 1, 17 * kMiB, 1), ENOMEM);
}

// Each thread owns one byte position in every cell of 8 bytes and writes it, one by one, into shared blocks; one more
// thread writes whole blocks elsewhere in the same stripe. All on shards of their own, at the same time.
void scatter(BlockStore& store, bool uring, unsigned thread, unsigned threads, uint64_t bytes) {
  Shard shard(uring);
  std::mt19937 random(thread);
  std::vector<std::unique_ptr<Io>> burst;
  for (uint64_t at = thread; at < bytes; at += threads) {
    burst.push_back(std::make_unique<Io>(IoKind::write, at, 1));
    shard.submit(store, burst.back()->fill(static_cast<uint8_t>(1 + at % 251)));
    if (burst.size() < 1 + random() % 16) continue;
    for (auto& io : burst) {
      shard.finish(*io);
      EXPECT_EQ(io->request.error, 0);
    }
    burst.clear();
  }
  for (auto& io : burst) shard.finish(*io);
  EXPECT_EQ(shard.engine().in_flight(), 0U);
}

TEST_F(Ordered, SingleBytesFromFourShardsAllArrive) {
  for (const bool uring : {true, false}) {
    constexpr unsigned kThreads = 4;
    const uint64_t bytes = 2 * unit_ + 100;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { scatter(*store_, uring, t, kThreads, bytes); });
    }
    for (std::thread& thread : threads) thread.join();
    Shard shard;
    Io in(IoKind::read, 0, bytes);
    ASSERT_EQ(shard.run(*store_, in), 0);
    for (uint64_t at = 0; at < bytes; ++at) ASSERT_EQ(in.data[at], 1 + at % 251) << at;
    EXPECT_EQ(shard.write(*store_, 0, 4 * unit_, 0), 0);
  }
}

// Aligned writes of block 0 race with byte writes of block 0 that are *not* part of the aligned data's meaning: the
// last aligned write that was acknowledged before a byte write began must not be undone by an older read of the block.
TEST_F(Ordered, AcknowledgedAlignedWriteIsNotUndoneByAReadModifyWriteBesideIt) {
  constexpr int kRounds = 300;
  std::atomic<bool> stop{false};
  std::thread noise([&] {  // touches the last byte of block 1 only; its read-modify-write covers all of block 1
    Shard shard;
    while (!stop.load()) EXPECT_EQ(shard.write(*store_, 2 * unit_ - 1, 1, 0xff), 0);
  });
  Shard shard;
  for (int round = 1; round <= kRounds; ++round) {
    const auto value = static_cast<uint8_t>(round);
    ASSERT_EQ(shard.write(*store_, 0, 2 * unit_, value), 0);
    ASSERT_TRUE(shard.reads(*store_, 0, 2 * unit_ - 1, value)) << round;
  }
  stop.store(true);
  noise.join();
}

// The switch to tracked mode, hit again and again with aligned writes in flight on every shard.
TEST_F(Ordered, FirstUnalignedWriteAmongAlignedOnesLosesNothing) {
  constexpr int kRounds = 40;
  constexpr unsigned kThreads = 3;
  for (int round = 0; round < kRounds; ++round) {
    store_.reset();
    store_ = must(open_file({.path = dir_.path("disk")}));
    ASSERT_NE(store_, nullptr);
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Shard shard(round % 2 == 0);
        std::vector<std::unique_ptr<Io>> burst;
        start.arrive_and_wait();
        for (uint64_t i = 0; i < 8; ++i) {
          burst.push_back(std::make_unique<Io>(IoKind::write, (t * 8 + i) * unit_, unit_));
          shard.submit(*store_, burst.back()->fill(static_cast<uint8_t>(round + 1)));
        }
        // One byte in the neighbour's last block: a read-modify-write over what the neighbour has in flight.
        const uint64_t at = ((t + 1) % kThreads * 8 + 8) * unit_ - 1;
        burst.push_back(std::make_unique<Io>(IoKind::write, at, 1));
        shard.submit(*store_, burst.back()->fill(static_cast<uint8_t>(round + 1)));
        for (auto& io : burst) shard.finish(*io);
      });
    }
    for (std::thread& thread : threads) thread.join();
    Shard shard;
    ASSERT_TRUE(shard.reads(*store_, 0, kThreads * 8 * unit_, static_cast<uint8_t>(round + 1))) << round;
  }
}

}  // namespace
}  // namespace zvolt::backing
