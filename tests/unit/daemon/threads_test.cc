// The daemon's helper threads: what hangs in one holds up nobody, and the end does not wait for it.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "backing/stores.h"
#include "target/daemon/closer.h"
#include "target/daemon/parallel.h"
#include "target/daemon/pulse.h"
#include "target/daemon/worker.h"

namespace zvolt::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr milliseconds kEnough{30'000};  // for what must happen
constexpr milliseconds kShort{20};       // for what must not

// A door that threads wait at. Shared, because a test ends while they may still hold it.
class Door {
 public:
  void open() {
    std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  bool wait_arrived(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kEnough, [&] { return arrived_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

std::shared_ptr<backing::BlockStore> store_that_closes_at(std::shared_ptr<Door> door) {
  auto inner = backing::make_memory(4096);
  return {inner->get(), [inner = *inner, door](backing::BlockStore*) { door->pass(); }};
}

TEST(StoreCloser, CloseHangsOnItsOwnLaneOnly) {
  const StoreCloser closer;
  auto stuck = std::make_shared<Door>(), free = std::make_shared<Door>();
  free->open();
  auto a = closer.closing_later(store_that_closes_at(stuck), "pool a", "a");
  auto b = closer.closing_later(store_that_closes_at(free), "pool b", "b");
  a.reset();
  b.reset();
  EXPECT_TRUE(closer.wait_for({"b"}, kEnough).empty());
  EXPECT_EQ(closer.wait(kShort), std::vector<std::string>{"a"});
  stuck->open();
  EXPECT_TRUE(closer.wait(kEnough).empty());
}

TEST(StoreCloser, LastReferenceCloses) {
  const StoreCloser closer;
  auto door = std::make_shared<Door>();
  door->open();
  auto first = closer.closing_later(store_that_closes_at(door), "files", "a");
  auto second = first;
  first.reset();
  EXPECT_TRUE(closer.wait(milliseconds(0)).empty());
  EXPECT_EQ(second->size_bytes(), 4096u) << "still open";
  second.reset();
  EXPECT_TRUE(door->wait_arrived(1));
}

TEST(StoreCloser, ThreadsOutliveTheCloser) {
  auto door = std::make_shared<Door>();
  {
    const StoreCloser closer;
    closer.closing_later(store_that_closes_at(door), "files", "a");
    ASSERT_TRUE(door->wait_arrived(1));
  }
  door->open();
}

TEST(RunParallel, EachJobRunsOnceOnBoundedThreads) {
  auto mutex = std::make_shared<std::mutex>();
  auto threads = std::make_shared<std::set<std::thread::id>>();
  auto runs = std::make_shared<std::vector<int>>(500);
  EXPECT_TRUE(run_parallel(
      500,
      [=](size_t index) {
        std::scoped_lock lock(*mutex);
        threads->insert(std::this_thread::get_id());
        ++(*runs)[index];
      },
      kEnough));
  EXPECT_EQ(*runs, std::vector<int>(500, 1));
  EXPECT_LE(threads->size(), size_t{kParallelJobs});
}

TEST(RunParallel, LimitLeavesTheHungOneBehind) {
  auto door = std::make_shared<Door>();
  auto done = std::make_shared<std::atomic<int>>(0);
  EXPECT_FALSE(run_parallel(
      3,
      [=](size_t index) {
        if (index == 1) door->pass();
        ++*done;
      },
      milliseconds(200)));
  door->open();
}

TEST(RunParallel, NothingToDoIsDone) {
  EXPECT_TRUE(run_parallel(
      0, [](size_t) { FAIL(); }, milliseconds(0)));
}

TEST(Pulse, BeatsByItselfAndWhenWoken) {
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    int woken = 0, due = 0;
  };
  auto seen = std::make_shared<Seen>();
  const auto beat = [seen](bool woken) {
    std::scoped_lock lock(seen->mutex);
    ++(woken ? seen->woken : seen->due);
    seen->changed.notify_all();
  };
  Pulse slow("slow", seconds(3600), beat);
  slow.wake();
  Pulse fast("fast", milliseconds(1), beat);
  std::unique_lock lock(seen->mutex);
  EXPECT_TRUE(seen->changed.wait_for(lock, kEnough, [&] { return seen->woken == 1 && seen->due >= 3; }));
}

TEST(Pulse, EndsInTimeOrSaysThatItHangs) {
  auto door = std::make_shared<Door>();
  Pulse hangs("hangs", milliseconds(1), [door](bool) { door->pass(); });
  ASSERT_TRUE(door->wait_arrived(1));
  hangs.stop();
  EXPECT_FALSE(hangs.join_until(Pulse::Clock::now() + kShort));
  EXPECT_GE(hangs.busy_for(), kShort);
  door->open();
  EXPECT_TRUE(hangs.join_until(Pulse::Clock::now() + kEnough));
  EXPECT_EQ(hangs.busy_for(), milliseconds(0));
}

TEST(Worker, OneThatHangsLeavesTheOthers) {
  Worker worker;
  auto stuck = std::make_shared<Door>(), other = std::make_shared<Door>();
  ASSERT_TRUE(worker.post([stuck] { stuck->pass(); }));
  ASSERT_TRUE(stuck->wait_arrived(1));
  ASSERT_TRUE(worker.post([other] { other->pass(); }));
  EXPECT_TRUE(other->wait_arrived(1));
  other->open();
  EXPECT_FALSE(worker.stop(kShort));
  EXPECT_FALSE(worker.post([] {})) << "it takes no more";
  stuck->open();
  EXPECT_TRUE(worker.stop(kEnough));
}

TEST(Worker, QueueIsBounded) {
  Worker worker;
  auto stuck = std::make_shared<Door>();
  for (unsigned i = 0; i < kWorkerThreads; ++i) ASSERT_TRUE(worker.post([stuck] { stuck->pass(); }));
  ASSERT_TRUE(stuck->wait_arrived(kWorkerThreads));
  for (size_t i = 0; i < kWorkerQueue; ++i) ASSERT_TRUE(worker.post([] {}));
  EXPECT_FALSE(worker.post([] {}));
  stuck->open();
  EXPECT_TRUE(worker.stop(kEnough));
}

}  // namespace
}  // namespace zvolt::daemon
