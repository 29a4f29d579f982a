// hold_range and release_range: commands that overlap wait, others do not, and go on on their own thread.
#include <atomic>
#include <thread>

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

class Gate : public ScsiTest {
 protected:
  static uint64_t Bytes512(uint64_t blocks) { return blocks * 512; }
  void Hold(uint64_t lba, uint64_t blocks) { unit->hold_range(Bytes512(lba), Bytes512(blocks)); }
  void Release(uint64_t lba, uint64_t blocks) { unit->release_range(Bytes512(lba), Bytes512(blocks)); }
};

TEST_F(Gate, OverlappingCommandsWaitUntilTheRelease) {
  Hold(10, 10);
  std::vector<std::unique_ptr<Task>> waiting;
  for (const Bytes& cdb : {CdbLba10(0x28, {19, 1}), CdbLba10(0x2a, {0, 11}), CdbLba16(0x93, {12, 1}),
                           CdbLba10(0x2f, {10, 1}), CdbLba16(0x93, {0, 0, 0x01})}) {
    waiting.push_back(host->Begin(cdb));
    EXPECT_EQ(waiting.back()->phase, Phase::pending);
  }
  EXPECT_TRUE(store->events.empty());
  Release(10, 10);
  for (const auto& task : waiting) EXPECT_EQ(task->phase, Phase::pending);  // not on the releasing thread
  for (const auto& task : waiting) ExpectGood(host->Finish(*task, Bytes(11 * 512)));
}

TEST_F(Gate, OthersDoNotWait) {
  Hold(10, 10);
  ExpectGood(Read10(0, 10));
  ExpectGood(Write10(20, Repeated(1, 1)));
  ExpectGood(SynchronizeCache10());
  ExpectGood(TestUnitReady());
  ExpectGood(Read10(15, 0));
  ExpectGood(SendUnmap({{0, 10}, {20, 5}}));
}

TEST_F(Gate, RefusalsDoNotWait) {
  Hold(0, unit->blocks());
  ExpectSense(Read10(unit->blocks() - 1, 2), 5, 0x21, 0);
}

TEST_F(Gate, UnmapWaitsForEachOfItsRanges) {
  store->fill(1);
  Hold(100, 1);
  const auto task = host->Begin({0x42, 0, 0, 0, 0, 0, 0, 0, 40, 0});
  ASSERT_EQ(task->phase, Phase::data_out);
  task->data = UnmapList({{0, 8}, {96, 8}});
  nexus->data_out(*task);
  EXPECT_EQ(task->phase, Phase::pending);
  EXPECT_TRUE(store->events.empty());
  Release(100, 1);
  ExpectGood(host->Finish(*task));
  EXPECT_EQ(Stored(96, 8), Repeated(0, 8));
}

TEST_F(Gate, ATaskWaitsForAllHoldsThatItOverlaps) {
  Hold(0, 4);
  Hold(0, 4);
  Hold(6, 2);
  const auto task = host->Begin(CdbLba10(0x28, {0, 8}));
  Release(0, 4);
  Release(6, 2);
  EXPECT_EQ(engine.reap(SIZE_MAX), 0u);
  EXPECT_EQ(task->phase, Phase::pending);
  Release(0, 4);
  ExpectGood(host->Finish(*task));
}

TEST_F(Gate, ANewHoldBetweenReleaseAndResumptionKeepsTheTask) {
  Hold(0, 4);
  const auto task = host->Begin(CdbLba10(0x28, {0, 8}));
  Release(0, 4);
  Hold(2, 1);
  EXPECT_EQ(engine.reap(SIZE_MAX), 1u);
  EXPECT_EQ(task->phase, Phase::pending);
  Release(2, 1);
  ExpectGood(host->Finish(*task));
}

TEST_F(Gate, AnAbortedTaskLeavesTheGateAtOnce) {
  Hold(0, 4);
  const auto first = host->Begin(CdbLba10(0x28, {0, 1}));
  const auto second = host->Begin(CdbLba10(0x28, {1, 1}));
  const auto third = host->Begin(CdbLba10(0x28, {2, 1}));
  EXPECT_TRUE(nexus->abort(*second));
  EXPECT_EQ(second->phase, Phase::complete);
  EXPECT_EQ(second->status, Status::task_aborted);
  EXPECT_TRUE(nexus->abort(*third));
  const auto fourth = host->Begin(CdbLba10(0x28, {3, 1}));
  Release(0, 4);
  ExpectGood(host->Finish(*first));
  ExpectGood(host->Finish(*fourth));
}

TEST_F(Gate, ATaskAbortedOnItsWayBackIsStillHeardOf) {
  Hold(0, 4);
  const auto task = host->Begin(CdbLba10(0x28, {0, 1}));
  Release(0, 4);
  EXPECT_FALSE(nexus->abort(*task));
  EXPECT_EQ(host->Finish(*task).status, Status::task_aborted);
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Gate, WhatShrankMeanwhileIsCheckedAgain) {
  Hold(0, 8);
  const auto task = host->Begin(CdbLba10(0x28, {0, 8}));
  unit->capacity_changed(4 * 512);
  Release(0, 8);
  ExpectSense(host->Finish(*task), 5, 0x21, 0);
}

// The advanced() of a waiting task comes exactly once, on the shard's thread, whoever releases the range.
TEST_F(Gate, ReleaseOnAnotherThreadResumesOnTheShard) {
  constexpr int kRounds = 500;
  std::atomic<int> wanted{0};
  std::thread releaser([&] {
    for (int round = 1; round <= kRounds; ++round) {
      wanted.wait(round - 1);
      Release(0, 8);
    }
  });
  static std::thread::id advanced_on;
  static int advances;
  advances = 0;
  for (int round = 1; round <= kRounds; ++round) {
    Hold(0, 8);
    Task task;
    task.cdb = {0x28};
    task.cdb[8] = 1;
    task.engine = &engine;
    task.advanced = [](Task&) noexcept {
      advanced_on = std::this_thread::get_id();
      ++advances;
    };
    nexus->start(task);
    ASSERT_EQ(task.phase, Phase::pending);
    wanted.store(round);
    wanted.notify_one();
    engine.wait_for_work();
    engine.reap(SIZE_MAX);
    ASSERT_EQ(task.phase, Phase::media_in);
    ASSERT_EQ(advances, round);
    ASSERT_EQ(advanced_on, std::this_thread::get_id());
  }
  releaser.join();
}

TEST_F(Gate, HoldsFromSeveralThreadsNeverLoseATask) {
  constexpr int kThreads = 3, kRounds = 300;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> holders;
  for (int i = 0; i < kThreads; ++i) {
    holders.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        Hold(static_cast<uint64_t>(i), 2);
        std::this_thread::yield();
        Release(static_cast<uint64_t>(i), 2);
      }
      --running;
    });
  }
  while (running.load() > 0) {
    const auto task = host->Begin(CdbLba10(0x28, {0, 4}));
    while (task->phase == Phase::pending) {
      engine.wait_for_work();
      engine.reap(SIZE_MAX);
    }
    ASSERT_EQ(task->phase, Phase::media_in);
  }
  for (std::thread& holder : holders) holder.join();
  EXPECT_FALSE(unit->gate().active());
}

}  // namespace
}  // namespace zvolt::scsi::test
