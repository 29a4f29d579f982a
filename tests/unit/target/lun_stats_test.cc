// LunStats: which stamps make which stage, memory, reading while a shard writes.
#include "target/stats/lun_stats.h"

#include <gtest/gtest.h>

#include <thread>

namespace zvolt::stats {
namespace {

using scsi::OpClass;
using scsi::Stamps;

constexpr Stamps kAll{
    .received = 1'000'000, .data_ready = 1'010'000, .started = 1'030'000, .store_done = 1'070'000, .sent = 1'150'000};

uint64_t stage_count(const LunStats& stats, OpClass op, Stage stage) {
  return stats.summary(op).stages[static_cast<size_t>(stage)].count();
}
uint64_t stage_max(const LunStats& stats, OpClass op, Stage stage) {
  return stats.summary(op).stages[static_cast<size_t>(stage)].max_ns();
}

TEST(LunStats, StagesAreDifferencesOfStamps) {
  LunStats stats("a", 2);
  stats.shard(1).record(OpClass::write, kAll, 4096, false);
  EXPECT_EQ(stage_max(stats, OpClass::write, Stage::total), 150'000u);
  EXPECT_EQ(stage_max(stats, OpClass::write, Stage::receive), 10'000u);
  EXPECT_EQ(stage_max(stats, OpClass::write, Stage::queue), 20'000u);
  EXPECT_EQ(stage_max(stats, OpClass::write, Stage::store), 40'000u);
  EXPECT_EQ(stage_max(stats, OpClass::write, Stage::send), 80'000u);
  EXPECT_EQ(stats.summary(OpClass::write).bytes, 4096u);
  EXPECT_EQ(stats.summary(OpClass::write).errors, 0u);
}

TEST(LunStats, MissingStampSkipsItsStages) {
  LunStats stats("a", 1);
  Stamps refused = kAll;  // refused before it was started
  refused.started = refused.store_done = 0;
  stats.shard(0).record(OpClass::read, refused, 0, true);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::total), 1u);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::receive), 1u);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::queue), 0u);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::store), 0u);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::send), 0u);
  EXPECT_EQ(stats.summary(OpClass::read).errors, 1u);
}

TEST(LunStats, StampsOfOneBurstGiveZeroNotNothing) {
  LunStats stats("a", 1);
  const Stamps burst{.received = 5, .data_ready = 5, .started = 5, .store_done = 5, .sent = 5};
  stats.shard(0).record(OpClass::flush, burst, 0, false);
  for (size_t i = 0; i < kStages; ++i) {
    const bool delayed = i == static_cast<size_t>(Stage::limit);  // it was not
    EXPECT_EQ(stats.summary(OpClass::flush).stages[i].count(), delayed ? 0u : 1u);
  }
}

TEST(LunStats, WhatTheLimitDelayedIsItsOwnStageAndNotPartOfAnother) {
  LunStats stats("a", 1);
  Stamps delayed = kAll;
  delayed.started += 5'000'000, delayed.store_done += 5'000'000, delayed.sent += 5'000'000;
  delayed.limit_from = 1'012'000;
  delayed.limit_to = 6'012'000;
  stats.shard(0).record(OpClass::read, delayed, 4096, false);
  EXPECT_EQ(stage_max(stats, OpClass::read, Stage::limit), 5'000'000u);
  EXPECT_EQ(stage_max(stats, OpClass::read, Stage::queue), 20'000u);
  EXPECT_EQ(stage_max(stats, OpClass::read, Stage::receive), 10'000u);
  EXPECT_EQ(stage_max(stats, OpClass::read, Stage::store), 40'000u);
  EXPECT_EQ(stage_max(stats, OpClass::read, Stage::total), 5'150'000u);
}

TEST(LunStats, ClassesAndShardsAreApartAndSummed) {
  LunStats stats("a", 3);
  stats.shard(0).record(OpClass::read, kAll, 512, false);
  stats.shard(2).record(OpClass::read, kAll, 1024, false);
  stats.shard(2).record(OpClass::unmap, kAll, 1 << 20, false);
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::total), 2u);
  EXPECT_EQ(stats.summary(OpClass::read).bytes, 1536u);
  EXPECT_EQ(stage_count(stats, OpClass::unmap, Stage::total), 1u);
  EXPECT_EQ(stage_count(stats, OpClass::write, Stage::total), 0u);
}

TEST(LunStats, NothingIsAllocatedForWhatWasNotSeen) {
  LunStats stats("a", 1);
  LunShardStats& shard = stats.shard(0);
  EXPECT_EQ(&shard, &stats.shard(0));
  EXPECT_EQ(shard.of(OpClass::read), nullptr);
  shard.record(OpClass::read, kAll, 512, false);
  EXPECT_NE(shard.of(OpClass::read), nullptr);
  EXPECT_EQ(shard.of(OpClass::write), nullptr);
}

TEST(LunStats, BusyLunAndShardStaysBelow64KiB) {
  static_assert(sizeof(LunShardStats) + 2 * sizeof(ClassStats) < 64 * 1024, "read and write of one LUN on one shard");
  static_assert(sizeof(LunShardStats) <= 256, "an idle LUN on a shard is small");
  EXPECT_LT(sizeof(LunShardStats) + 2 * sizeof(ClassStats), 64u * 1024);
}

TEST(LunStats, InFlightIsStartedLessFinished) {
  LunStats stats("a", 2);
  for (int i = 0; i < 5; ++i) stats.shard(0).count_start();
  for (int i = 0; i < 3; ++i) stats.shard(0).count_finish();
  stats.shard(1).count_start();
  EXPECT_EQ(stats.in_flight(), 3u);
}

TEST(LunStats, ReaderSeesWholeCountsWhileAShardWrites) {
  constexpr uint64_t kOperations = 200000;
  LunStats stats("a", 1);
  std::thread shard([&] {
    LunShardStats& mine = stats.shard(0);
    for (uint64_t i = 0; i < kOperations; ++i) mine.record(OpClass::read, kAll, 1, false);
  });
  uint64_t last = 0;
  while (last < kOperations) {
    const uint64_t now = stage_count(stats, OpClass::read, Stage::total);
    if (now < last) {
      ADD_FAILURE() << "counts went back from " << last << " to " << now;
      break;
    }
    last = now;
  }
  shard.join();
  EXPECT_EQ(stage_count(stats, OpClass::read, Stage::send), kOperations);
  EXPECT_EQ(stats.summary(OpClass::read).bytes, kOperations);
}

}  // namespace
}  // namespace zvolt::stats
