// FaultStore: each fault, where it bites, and the power cut.
#include "backing/fault_store.h"

#include <thread>

#include "support.h"

namespace zvolt::backing {
namespace {

class Faulty : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    // In memory the inner store answers inside submit(), on a file later: both paths of every step.
    inner_ = GetParam() ? must(make_memory(kMiB)) : must(open_file({.path = dir_.file("disk", kMiB)}));
    auto made = make_faulty(inner_, {});
    ASSERT_TRUE(made.ok());
    store_ = *made;
  }
  void rule(FaultRule rule) { store_->set_rules({rule}); }

  TempDir dir_;
  Shard shard_;
  std::shared_ptr<BlockStore> inner_;
  std::shared_ptr<FaultStore> store_;
};

TEST_P(Faulty, WithoutRulesItIsTheInnerStore) {
  EXPECT_EQ(shard_.write(*store_, 4096, 4096, 1), 0);
  EXPECT_TRUE(shard_.reads(*inner_, 4096, 4096, 1));
  EXPECT_EQ(store_->size_bytes(), kMiB);
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 0, 8192), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::discard, 0, 8192), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::allocation_status, 0, 8192), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::read, kMiB, 1), EINVAL);
  EXPECT_EQ(store_->bites(), 0U);
}

TEST_P(Faulty, ErrorBitesOnlyItsKindRangeAndCount) {
  rule({.any_kind = false, .kind = IoKind::write, .begin = 8192, .end = 12288, .skip = 1, .count = 2, .error = ENOSPC});
  EXPECT_EQ(shard_.write(*store_, 8192, 4096, 1), 0);       // skipped
  EXPECT_EQ(shard_.write(*store_, 0, 8192, 1), 0);          // ends before
  EXPECT_EQ(shard_.write(*store_, 12288, 4096, 1), 0);      // begins after
  EXPECT_EQ(shard_.write(*store_, 4096, 8192, 2), ENOSPC);  // touches
  EXPECT_EQ(shard_.plain(*store_, IoKind::read, 8192, 4096), 0);
  EXPECT_EQ(shard_.write(*store_, 12287, 1, 2), ENOSPC);
  EXPECT_EQ(shard_.write(*store_, 8192, 4096, 3), 0);  // used up
  EXPECT_EQ(store_->bites(), 2U);
  EXPECT_TRUE(shard_.reads(*inner_, 4096, 4096, 1));
}

TEST_P(Faulty, ShortWriteIsTornAndReported) {
  rule({.fault = Fault::short_transfer, .any_kind = false, .kind = IoKind::write, .error = EIO, .bytes = 512});
  Io out(IoKind::write, 4096, 4096);
  EXPECT_EQ(shard_.run(*store_, out.fill(7)), EIO);
  EXPECT_EQ(out.request.error_offset, 4096U + 512);
  EXPECT_TRUE(shard_.reads(*store_, 4096, 512, 7));
  EXPECT_TRUE(shard_.reads(*store_, 4608, 3584, 0));
}

TEST_P(Faulty, StalledRequestWaitsForReleaseWhileOthersGoOn) {
  rule({.fault = Fault::stall, .begin = 0, .end = 4096});
  Io stalled(IoKind::write, 0, 4096);
  shard_.submit(*store_, stalled.fill(1));
  EXPECT_EQ(store_->stalled(), 1U);
  EXPECT_EQ(shard_.write(*store_, 8192, 4096, 2), 0);
  EXPECT_FALSE(stalled.completed);
  EXPECT_EQ(shard_.engine().in_flight(), 1U);
  std::thread other([this] { store_->release(); });
  shard_.finish(stalled);
  other.join();
  EXPECT_EQ(stalled.request.error, 0);
  EXPECT_EQ(store_->stalled(), 0U);
  EXPECT_TRUE(shard_.reads(*inner_, 0, 4096, 1));
}

TEST_P(Faulty, DelayHoldsTheRequestNotTheShard) {
  rule({.fault = Fault::delay, .count = 1, .delay = std::chrono::milliseconds(30)});
  const auto start = std::chrono::steady_clock::now();
  Io late(IoKind::write, 0, 4096);
  shard_.submit(*store_, late.fill(1));
  EXPECT_EQ(shard_.write(*store_, 8192, 4096, 2), 0);
  shard_.finish(late);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
  EXPECT_EQ(late.request.error, 0);
}

TEST_P(Faulty, FlushCanFail) {
  rule({.any_kind = false, .kind = IoKind::flush, .count = 1});
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), EIO);
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
}

TEST_P(Faulty, CutLosesWhatWasNotFlushedAndOnlyThat) {
  store_->keep_unflushed(true);
  EXPECT_EQ(shard_.write(*store_, 0, 8192, 1), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  EXPECT_EQ(store_->unflushed_bytes(), 0U);
  EXPECT_EQ(shard_.write(*store_, 4096, 8192, 2), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 6000, 100), 0);
  EXPECT_EQ(store_->unflushed_bytes(), 8192U);
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 1));  // reads see un-flushed data
  EXPECT_TRUE(shard_.reads(*store_, 4096, 1904, 2));
  EXPECT_TRUE(shard_.reads(*store_, 6000, 100, 0));
  EXPECT_TRUE(shard_.reads(*store_, 6100, 6188, 2));
  store_->cut();
  EXPECT_TRUE(shard_.reads(*store_, 0, 8192, 1));
  EXPECT_TRUE(shard_.reads(*store_, 8192, 4096, 0));
}

TEST_P(Faulty, FuaWriteSurvivesTheCutAloneAndNewerUnflushedDataDoesNot) {
  store_->keep_unflushed(true);
  EXPECT_EQ(shard_.write(*store_, 0, 12288, 1), 0);
  EXPECT_EQ(shard_.write(*store_, 4096, 4096, 2, true), 0);
  EXPECT_TRUE(shard_.reads(*store_, 4096, 4096, 2));
  EXPECT_TRUE(shard_.reads(*store_, 8192, 4096, 1));
  EXPECT_EQ(shard_.write(*store_, 4096, 100, 3), 0);
  EXPECT_TRUE(shard_.reads(*store_, 4096, 100, 3));
  store_->cut();
  EXPECT_TRUE(shard_.reads(*store_, 4096, 4096, 2));
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 0));
  EXPECT_TRUE(shard_.reads(*store_, 8192, 4096, 0));
}

TEST_P(Faulty, FlushedOverlayIsInTheInnerStore) {
  store_->keep_unflushed(true);
  for (unsigned i = 0; i < 40; ++i) {
    EXPECT_EQ(shard_.write(*store_, i * 8192, 4096, static_cast<uint8_t>(i + 1)), 0);
  }
  EXPECT_TRUE(shard_.reads(*inner_, 0, 4096, 0));
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  for (unsigned i = 0; i < 40; ++i) {
    EXPECT_TRUE(shard_.reads(*inner_, i * 8192, 4096, static_cast<uint8_t>(i + 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Inner, Faulty, testing::Bool(),
                         [](const auto& each) { return each.param ? "Memory" : "File"; });

}  // namespace
}  // namespace zvolt::backing
