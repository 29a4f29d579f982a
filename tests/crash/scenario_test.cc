// Named scenarios: what has undone journals elsewhere, step by step, each with many seeds for what is left to chance
// (which sectors of which writes the disks kept). The model judges every sector after every restart.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "tests/crash/machine.h"

namespace zvolt::crash {
namespace {

using backing::IoKind;
using backing::journal::JournaledStore;

constexpr auto kForEver = std::chrono::hours(1000);

Plan small_plan(unsigned luns, unsigned shards, uint32_t features = 0) {
  Plan plan;
  plan.features = features;
  plan.luns = luns;
  plan.shards = shards;
  plan.ring_bytes = 128 << 10;
  plan.lun_bytes = 64 << 10;
  plan.memory_bytes = 1 << 20;
  plan.max_dirty_age_ms = 2000;
  return plan;
}

// A machine with verbs.
class Scene {
 public:
  Scene(const Plan& plan, uint64_t seed) : plan_(plan), rng_(seed), m(plan_, rng_, Mutant::none) {
    m.between = [this] {
      if (in_between_ || m.shards.empty()) return;
      in_between_ = true;
      m.now_ns += 1'000'000;
      m.shard_turn();
      in_between_ = false;
    };
  }

  void start() {
    m.begin_life();
    const auto opened = m.open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    for (size_t i = 0; i < m.luns.size(); ++i) {
      const auto attached = m.attach(i);
      ASSERT_TRUE(attached.ok()) << attached.error().message;
    }
    judge();
  }
  void cut() {
    m.power.off();
    m.end_life();
    in_between_ = false;
  }
  // Every LUN holds what it may hold; that is what it holds from now on.
  void judge() {
    for (size_t i = 0; i < m.luns.size(); ++i) {
      std::vector<uint8_t> image;
      ASSERT_TRUE(m.read_all(i, image));
      const uint64_t now = m.tick();
      for (uint64_t s = 0; s < m.model.sectors(i); ++s) {
        ASSERT_EQ(m.model.judge(i, s, image.data() + s * kSectorBytes, now, m.life), "");
        m.model.settle(i, s, image.data() + s * kSectorBytes, now, m.life);
      }
    }
  }
  void turns(uint64_t count) {
    for (; count > 0; --count) {
      m.shard_turn();
      if (m.journal != nullptr) m.journal->turn();
      m.now_ns += 1'000'000;
    }
  }
  void finish() {
    for (int i = 0; i < 30000 && m.running() != 0; ++i) turns(1);
    ASSERT_EQ(m.running(), 0U) << m.first_running() << "; " << m.describe();
    ASSERT_EQ(m.power.violation(), "");
  }
  void write(size_t lun, uint64_t first, uint64_t count, bool fua = true) {
    m.submit(IoKind::write, lun, first, count, fua);
    finish();
  }
  void flush(size_t lun) {
    m.submit(IoKind::flush, lun, 0, 0, false);
    finish();
  }

 private:
  Plan plan_;
  Rng rng_;
  bool in_between_ = false;

 public:
  Machine m;
};

void for_seeds(uint64_t count, const std::function<void(uint64_t)>& run) {
  for (uint64_t seed = 1; seed <= count && !::testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      run(seed);
    } catch (const Violation& violation) {
      FAIL() << violation.text;
    }
  }
}

TEST(CrashScenario, AnOldRecordIsNotReplayedOverANewerDirectWrite) {
  for_seeds(50, [](uint64_t seed) {
    Scene scene(small_plan(2, 1), seed);
    scene.start();
    scene.write(0, 8, 16);
    scene.write(1, 0, 8);  // keeps the tail where it is
    ASSERT_TRUE(scene.m.journal->detach(*scene.m.luns[0].journaled, kForEver).ok());
    scene.write(0, 10, 4, false);
    scene.flush(0);
    scene.cut();
    scene.start();
    scene.cut();
    scene.start();
  });
}

TEST(CrashScenario, AStaleRecordOfAnEarlierEpochBehindATornTailStaysDead) {
  for_seeds(300, [](uint64_t seed) {
    Scene scene(small_plan(1, 2), seed);
    scene.start();
    scene.write(0, 0, 4);
    // Groups that are on their way, or behind one that is: their remains stand behind the tail.
    for (uint64_t i = 0; i < 4; ++i) {
      scene.m.submit(IoKind::write, 0, i * 8, 6, true);
      scene.turns(seed % 7);
    }
    scene.cut();
    scene.start();
    scene.m.submit(IoKind::write, 0, 2, 2, true);  // a shorter group where a longer one began
    scene.turns(seed % 5);
    scene.cut();
    scene.start();
    scene.write(0, 20, 1);
    scene.cut();
    scene.start();
  });
}

TEST(CrashScenario, ADurableWriteOfOneShardBringsTheEarlierOnesOfAllShards) {
  for_seeds(100, [](uint64_t seed) {
    Scene scene(small_plan(2, 3), seed);
    scene.start();
    for (uint64_t i = 0; i < 12; ++i) scene.m.submit(IoKind::write, i % 2, i * 4, 3, false);
    const uint64_t reached = scene.m.tick();
    scene.write(0, 64, 8);
    scene.cut();
    const uint32_t life = scene.m.life;
    scene.m.begin_life();
    ASSERT_TRUE(scene.m.open().ok());
    for (size_t lun = 0; lun < 2; ++lun) {
      ASSERT_TRUE(scene.m.attach(lun).ok());
      std::vector<uint8_t> image;
      ASSERT_TRUE(scene.m.read_all(lun, image));
      for (uint64_t s = 0; s < scene.m.model.sectors(lun); ++s) {
        ASSERT_EQ(scene.m.model.missing(lun, s, image.data() + s * kSectorBytes, life, reached), "");
      }
    }
  });
}

TEST(CrashScenario, ALunWhoseStoreIsAwayOrStallsDoesNotStopTheOthers) {
  for (const bool stalled : {false, true}) {
    for_seeds(10, [stalled](uint64_t seed) {
      Scene scene(small_plan(2, 2), seed);
      scene.start();
      SimLun& lun = scene.m.luns[0];
      lun.faulted = true;
      (stalled ? lun.disk->faults.stalled : lun.disk->faults.away) = true;
      scene.write(0, 0, 16);
      // Several times around the ring.
      for (uint64_t i = 0; i < 200; ++i) scene.write(1, i % 8 * 8, 8);
      scene.m.heal(false);
      scene.turns(400);
      scene.cut();
      scene.start();
    });
  }
}

TEST(CrashScenario, AJournalThatFailedAndComesBackStaleIsNotReplayed) {
  for_seeds(60, [](uint64_t seed) {
    Scene scene(small_plan(2, 2), seed);
    scene.start();
    for (uint64_t i = 0; i < 6; ++i) scene.write(i % 2, i * 4, 8);
    scene.m.log_faulted = true;
    scene.m.log->faults.write_error = EIO;
    for (uint64_t i = 0; i < 6; ++i) scene.write(i % 2, i * 4 + 2, 4);  // write-through from here on
    scene.cut();
    // Without the journal.
    scene.m.begin_life();
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(scene.m.keeper->entries[scene.m.luns[i].uuid].state, StateKeeper::State::detached);
      scene.m.serve_raw(i);
    }
    scene.judge();
    for (uint64_t i = 0; i < 6; ++i) scene.write(i % 2, i * 4 + 1, 2);
    scene.cut();
    // And with it again.
    scene.start();
    scene.write(0, 0, 4);
    scene.cut();
    scene.start();
  });
}

TEST(CrashScenario, AStateThatCannotBeKeptMakesAFailedJournalsLunReadOnly) {
  for_seeds(40, [](uint64_t seed) {
    Scene scene(small_plan(1, 1), seed);
    scene.start();
    scene.write(0, 0, 8);
    scene.m.log_faulted = scene.m.keeper_faulted = true;
    scene.m.log->faults.flush_error = EIO;
    scene.m.keeper->broken = true;
    scene.write(0, 4, 8);
    scene.turns(400);
    EXPECT_EQ(scene.m.luns[0].journaled->status().mode, JournaledStore::Mode::read_only);
    const uint64_t errors = scene.m.tally.errors;
    scene.write(0, 2, 1);
    EXPECT_EQ(scene.m.tally.errors, errors + 1);
    scene.cut();
    scene.start();
  });
}

TEST(CrashScenario, AnOlderCopyOfTheJournalIsRefused) {
  Scene scene(small_plan(1, 1), 1);
  scene.start();
  scene.write(0, 0, 8);
  scene.cut();
  const std::vector<uint8_t> old = scene.m.log->durable();
  scene.start();
  scene.write(0, 4, 8);
  scene.cut();
  scene.m.log->reset_to(old);
  scene.m.begin_life();
  ASSERT_TRUE(scene.m.open().ok());
  const auto attached = scene.m.attach(0);
  ASSERT_FALSE(attached.ok());
  EXPECT_EQ(attached.error().code, EUCLEAN);
}

TEST(CrashScenario, ASnapshotOfTwoLunsIsOneInstant) {
  for_seeds(60, [](uint64_t seed) {
    Scene scene(small_plan(2, 2), seed);
    scene.start();
    for (uint64_t i = 0; i < 20; ++i) {
      scene.m.submit(IoKind::write, i % 2, i * 5 % 100, 1 + i % 7, i % 3 == 0);
      scene.turns(i % 3);
    }
    JournaledStore* both[] = {scene.m.luns[0].journaled.get(), scene.m.luns[1].journaled.get()};
    // Issued before the hold: they may be in it, or not.
    const uint64_t asked = scene.m.tick();
    scene.m.submit(IoKind::write, 0, 0, 8, true);
    scene.m.submit(IoKind::write, 1, 0, 8, true);
    scene.m.hold(3);
    const uint64_t latest = scene.m.tick();
    bool ran = false;
    const auto result = scene.m.journal->quiesce(both, kForEver, [&]() -> Result<void> {
      ran = true;
      for (size_t i = 0; i < 2; ++i) scene.m.judge_store(i, asked, latest, "a snapshot was taken");
      return {};
    });
    scene.m.hold(0);
    ASSERT_TRUE(result.ok());
    ASSERT_TRUE(ran);
    scene.finish();
    scene.cut();
    scene.start();
  });
}

}  // namespace
}  // namespace zvolt::crash
