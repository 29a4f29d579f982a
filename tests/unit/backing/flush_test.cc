// One sync for a burst of flushes, FUA as write and sync, and a failed flush that is never forgotten.
#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

// A buffered file on a mock engine: what reaches the engine is exactly what the store asks of the kernel.
class Flush : public testing::Test {
 protected:
  void SetUp() override {
    store_ = must(open_file({.path = dir_.file("disk", kMiB), .allow_direct = false}));
    ASSERT_NE(store_, nullptr);
    if (store_->describe().find("in memory") != std::string::npos) {
      GTEST_SKIP() << "the temporary directory is on tmpfs, where a flush has nothing to do";
    }
  }
  Submitted submit(Io& io) { return store_->submit(io.request, engine_); }

  TempDir dir_;
  std::shared_ptr<BlockStore> store_;
  MockEngine engine_;
  Io one_{IoKind::flush, 0, 0};
  Io two_{IoKind::flush, 0, 0};
  Io three_{IoKind::flush, 0, 0};
};

TEST_F(Flush, FlushesOfOneBurstShareOneSync) {
  submit(one_);
  submit(two_);
  submit(three_);
  ASSERT_EQ(engine_.calls.size(), 1U);
  EXPECT_TRUE(engine_.calls.front().sync);
  engine_.flush();
  engine_.complete();
  EXPECT_TRUE(one_.completed && two_.completed && three_.completed);
  EXPECT_TRUE(engine_.calls.empty());
  EXPECT_EQ(engine_.in_flight(), 0U);
}

TEST_F(Flush, FlushThatComesWhileOneRunsWaitsForTheNext) {
  submit(one_);
  engine_.flush();  // the sync has begun: it may have missed writes that completed since
  submit(two_);
  submit(three_);
  ASSERT_EQ(engine_.calls.size(), 1U);
  engine_.complete();
  EXPECT_TRUE(one_.completed);
  EXPECT_FALSE(two_.completed);
  ASSERT_EQ(engine_.calls.size(), 1U);  // one for both
  engine_.complete();
  EXPECT_TRUE(two_.completed && three_.completed);
  EXPECT_TRUE(engine_.calls.empty());
}

TEST_F(Flush, OtherShardSharesTheNextSyncAndCompletesOnItsOwnEngine) {
  MockEngine other;
  submit(one_);
  ASSERT_EQ(store_->submit(two_.request, other), Submitted::pending);
  submit(three_);
  engine_.flush();
  EXPECT_TRUE(other.calls.empty());
  engine_.complete();
  EXPECT_TRUE(one_.completed && three_.completed);
  EXPECT_FALSE(two_.completed);
  Io four(IoKind::flush, 0, 0), five(IoKind::flush, 0, 0);
  submit(four);
  ASSERT_EQ(other.calls.size(), 1U);
  other.flush();
  ASSERT_EQ(store_->submit(five.request, other), Submitted::pending);
  other.complete();
  EXPECT_TRUE(two_.completed);
  EXPECT_FALSE(four.completed);
  other.complete();  // one of its own waits, so it leads once more, for the other shard's too
  EXPECT_TRUE(five.completed);
  engine_.reap(SIZE_MAX);
  EXPECT_TRUE(four.completed);
  EXPECT_EQ(other.in_flight(), 0U);
  EXPECT_EQ(engine_.in_flight(), 0U);
}

// That of `offline`, a resize, a shutdown, a function of the journal that blocks.
TEST_F(Flush, EngineThatIsGoneWhenItsOwnFlushIsAnsweredLeadsNoOther) {
  auto passing = std::make_unique<MockEngine>();
  ASSERT_EQ(store_->submit(one_.request, *passing), Submitted::pending);
  passing->flush();
  submit(two_);
  passing->complete();
  EXPECT_TRUE(one_.completed);
  EXPECT_TRUE(passing->calls.empty());
  passing.reset();
  ASSERT_EQ(engine_.calls.size(), 1U);
  engine_.complete();
  EXPECT_TRUE(two_.completed);
  submit(three_);
  ASSERT_EQ(engine_.calls.size(), 1U);
  engine_.complete();
  EXPECT_TRUE(three_.completed);
}

TEST_F(Flush, WhatComesBeforeTheNextEngineHasBegunJoins) {
  MockEngine passing;
  ASSERT_EQ(store_->submit(one_.request, passing), Submitted::pending);
  passing.flush();
  submit(two_);
  engine_.keep_posts = true;
  passing.complete();
  ASSERT_EQ(engine_.posts.size(), 1U);
  EXPECT_TRUE(engine_.calls.empty());
  ASSERT_EQ(store_->submit(three_.request, passing), Submitted::pending);
  engine_.posts.front().fn(engine_.posts.front().arg);
  ASSERT_EQ(engine_.calls.size(), 1U);
  engine_.complete();
  passing.reap(SIZE_MAX);
  EXPECT_TRUE(two_.completed && three_.completed);
  EXPECT_TRUE(passing.calls.empty() && engine_.calls.empty());
}

TEST_F(Flush, FuaWriteIsAWriteAndThenASync) {
  Io write(IoKind::write, 0, 4096);
  EXPECT_EQ(submit(write.fua()), Submitted::pending);
  ASSERT_EQ(engine_.calls.size(), 1U);
  EXPECT_FALSE(engine_.calls.front().sync);
  engine_.complete();
  EXPECT_FALSE(write.completed);
  ASSERT_EQ(engine_.calls.size(), 1U);
  EXPECT_TRUE(engine_.calls.front().sync);
  engine_.complete();
  EXPECT_TRUE(write.completed);
  EXPECT_EQ(write.request.error, 0);
}

TEST_F(Flush, FuaWritesOfOneBurstShareOneSync) {
  Io first(IoKind::write, 0, 4096);
  Io second(IoKind::write, 4096, 4096);
  submit(first.fua());
  submit(second.fua());
  engine_.flush();
  engine_.complete();
  engine_.complete();
  ASSERT_EQ(engine_.calls.size(), 1U);
  engine_.complete();
  EXPECT_TRUE(first.completed && second.completed);
}

TEST_F(Flush, FailedFuaWriteIsNotSynced) {
  Io write(IoKind::write, 0, 4096);
  submit(write.fua());
  engine_.complete(ENOSPC);
  EXPECT_TRUE(write.completed);
  EXPECT_EQ(write.request.error, ENOSPC);
  EXPECT_TRUE(engine_.calls.empty());
}

TEST_F(Flush, FailedFlushIsNeverForgotten) {
  submit(one_);
  engine_.flush();
  submit(two_);  // its writes may be among the lost ones: the next sync of the kernel would say nothing of them
  engine_.complete(EIO);
  EXPECT_EQ(one_.request.error, EIO);
  engine_.reap(SIZE_MAX);
  EXPECT_TRUE(two_.completed);
  EXPECT_EQ(two_.request.error, EIO);
  EXPECT_EQ(submit(three_), Submitted::done);
  EXPECT_EQ(three_.request.error, EIO);
  Io write(IoKind::write, 0, 4096);
  submit(write.fua());
  engine_.complete();
  EXPECT_TRUE(write.completed);
  EXPECT_EQ(write.request.error, EIO);
  EXPECT_TRUE(engine_.calls.empty());
  EXPECT_EQ(engine_.in_flight(), 0U);
}

TEST_F(Flush, ReopenedStoreFlushesAgain) {
  submit(one_);
  engine_.complete(EIO);
  store_.reset();
  store_ = must(open_file({.path = dir_.path("disk"), .allow_direct = false}));
  EXPECT_EQ(submit(two_), Submitted::pending);
  engine_.complete();
  EXPECT_EQ(two_.request.error, 0);
}

TEST(FlushRing, BurstOfFuaWritesOnTheRealEngineIsDurable) {
  const TempDir dir;
  const auto store = must(open_file({.path = dir.file("disk", kMiB)}));
  Shard shard;
  std::vector<std::unique_ptr<Io>> burst;
  for (unsigned i = 0; i < 32; ++i) {
    burst.push_back(std::make_unique<Io>(IoKind::write, i * 4096, 4096));
    shard.submit(*store, burst.back()->fill(static_cast<uint8_t>(i + 1)).fua());
  }
  for (unsigned i = 0; i < 32; ++i) {
    shard.finish(*burst[i]);
    EXPECT_EQ(burst[i]->request.error, 0);
    EXPECT_TRUE(shard.reads(*store, i * 4096, 4096, static_cast<uint8_t>(i + 1)));
  }
}

}  // namespace
}  // namespace zvolt::backing
