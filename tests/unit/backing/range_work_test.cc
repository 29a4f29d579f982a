// Work that blocks: stores share the workers, long ranges are done in pieces and can be cancelled, zeroes may spare
// holes; and the counters of a store.
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "loop_device.h"
#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

// Work that waits until it is let go.
struct Stall {
  std::mutex mutex;
  std::condition_variable wake;
  bool open = false;
  int entered = 0;

  void enter() {
    std::unique_lock lock(mutex);
    ++entered;
    wake.notify_all();
    wake.wait(lock, [this] { return open; });
  }
  bool wait_entered(int wanted) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, std::chrono::seconds(20), [&] { return entered >= wanted; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    wake.notify_all();
  }
};

TEST(Workers, StalledStoresLeaveThreadsToOthers) {
  Shard shard;  // two workers
  Stall stall;
  int stores[3];
  std::vector<std::unique_ptr<Io>> stuck;
  const auto offload = [&](int& store, Io& io, void (*work)(IoRequest&)) {
    io.request.owner = &store;
    io.request.scratch[0] = reinterpret_cast<uint64_t>(&stall);
    shard.engine().offload(io.request, work);
  };
  for (int i = 0; i < 10; ++i) {  // five for each of two stores: each may hold two threads, no more
    stuck.push_back(std::make_unique<Io>(IoKind::discard, 0, 0));
    offload(stores[i % 2], *stuck.back(), [](IoRequest& r) { reinterpret_cast<Stall*>(r.scratch[0])->enter(); });
  }
  EXPECT_TRUE(stall.wait_entered(2));
  for (int i = 0; i < 5; ++i) {
    Io other(IoKind::discard, 0, 0);
    offload(stores[2], other, [](IoRequest& r) { r.error = 0; });
    shard.finish(other);
  }
  {
    const std::lock_guard lock(stall.mutex);
    EXPECT_LE(stall.entered, 4);
  }
  stall.release();
  for (auto& io : stuck) shard.finish(*io);
}

TEST(Workers, HeldWorkerDoesNotKeepAnotherStoreWaiting) {
  const auto engine = make_engine({.worker_threads = 1});
  static std::mutex mutex;
  static std::string order;
  static Stall stall;
  int stores[2];
  Io first(IoKind::discard, 0, 0);
  Io second(IoKind::discard, 0, 0);
  first.request.owner = &stores[0];
  second.request.owner = &stores[1];
  order.clear();
  engine->offload(first.request, [](IoRequest& r) {
    if (r.scratch[0] == 0) stall.enter();  // until the other waits
    const std::lock_guard lock(mutex);
    order += 'a';
    r.again = ++r.scratch[0] < 4;
  });
  ASSERT_TRUE(stall.wait_entered(1));
  // The only worker is held: another is started for this one.
  engine->offload(second.request, [](IoRequest&) {
    const std::lock_guard lock(mutex);
    order += 'b';
  });
  while (!second.completed) {
    engine->flush();
    engine->reap(16);
  }
  stall.release();
  while (!first.completed) {
    engine->flush();
    engine->reap(16);
  }
  EXPECT_EQ(order, "baaaa");
}

TEST(Workers, PiecesOfOneStoreGoBehindItsOtherWork) {
  const auto engine = make_engine({.worker_threads = 1});
  static std::mutex mutex;
  static std::string order;
  static Stall stall;
  Io first(IoKind::discard, 0, 0);
  Io second(IoKind::discard, 0, 0);
  order.clear();
  engine->offload(first.request, [](IoRequest& r) {
    if (r.scratch[0] == 0) stall.enter();
    const std::lock_guard lock(mutex);
    order += 'a';
    r.again = ++r.scratch[0] < 3;
  });
  ASSERT_TRUE(stall.wait_entered(1));
  engine->offload(second.request, [](IoRequest&) {
    const std::lock_guard lock(mutex);
    order += 'b';
  });
  stall.release();
  while (!first.completed || !second.completed) {
    engine->flush();
    engine->reap(16);
  }
  EXPECT_EQ(order, "abaa");
}

TEST(RangeWork, LongRangesAreDoneInPiecesAndWhole) {
  const TempDir dir;
  const auto store = must(open_file({.path = dir.file("disk", 80 * kMiB)}));
  Shard shard;
  for (const uint64_t at : {uint64_t{0}, 31 * kMiB, 32 * kMiB, 64 * kMiB, 79 * kMiB}) {
    ASSERT_EQ(shard.write(*store, at, 65536, 7), 0);
  }
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 4096, 80 * kMiB - 8192), 0);
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 7));
  EXPECT_TRUE(shard.reads(*store, 4096, 61440, 0));
  for (const uint64_t at : {31 * kMiB, 32 * kMiB, 64 * kMiB, 79 * kMiB}) {
    EXPECT_TRUE(shard.reads(*store, at, 65536, 0)) << at;
  }
  ASSERT_EQ(shard.write(*store, 33 * kMiB, 65536, 7), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 0, 80 * kMiB), 0);
  EXPECT_TRUE(shard.reads(*store, 33 * kMiB, 65536, 0));
}

TEST(RangeWork, CancelledRangeStopsBeforeTheNextPiece) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 80 * kMiB), 512);
  NEEDS(loop);
  const auto store = must(open_device({.path = loop.path()}));
  MockEngine engine;
  std::atomic<bool> cancel{false};
  Io zero(IoKind::write_zeroes, 0, 80 * kMiB);
  zero.request.cancel = &cancel;
  ASSERT_EQ(store->submit(zero.request, engine), Submitted::pending);
  const MockEngine::Call call = engine.calls.front();
  call.work(*call.request);
  EXPECT_EQ(call.request->error, 0);
  EXPECT_TRUE(call.request->again);
  cancel = true;
  engine.complete();  // calls it once more
  EXPECT_EQ(zero.request.error, ECANCELED);
}

TEST(RangeWork, ZeroesThatSpareHolesAllocateNothing) {
  const TempDir dir;
  const std::string path = dir.file("disk", 8 * kMiB);
  const auto store = must(open_file({.path = path}));
  Shard shard;
  ASSERT_EQ(shard.write(*store, kMiB, 4096, 7, true), 0);
  struct stat before {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  Io zero(IoKind::write_zeroes, 512, 4 * kMiB);  // unaligned on both sides
  zero.request.spare_holes = true;
  EXPECT_EQ(shard.run(*store, zero), 0);
  struct stat after {};
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  EXPECT_TRUE(shard.reads(*store, kMiB, 4096, 0));
}

TEST(RangeWork, ZeroesThatSpareHolesAreExact) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device({.path = loop.path()}));
  Shard shard;
  ASSERT_EQ(shard.write(*store, 0, kMiB, 7), 0);
  Io zero(IoKind::write_zeroes, 4608, 65536);  // 512 bytes into a block
  zero.request.spare_holes = true;
  EXPECT_EQ(shard.run(*store, zero), 0);
  EXPECT_TRUE(shard.reads(*store, 0, 4608, 7));
  EXPECT_TRUE(shard.reads(*store, 4608, 65536, 0));
  EXPECT_TRUE(shard.reads(*store, 4608 + 65536, 65536, 7));
  EXPECT_EQ(store->counters().rmw, 1U);
}

TEST(Counters, WritesOfPartsOfAPhysicalBlockAreCounted) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device({.path = loop.path()}));
  Shard shard;
  shard.write(*store, 0, 4096, 1);
  shard.write(*store, 4096, 8192, 1);
  EXPECT_EQ(store->counters().partial_writes, 0U);
  shard.write(*store, 512, 4096, 1);
  shard.write(*store, 0, 512, 1);
  EXPECT_EQ(store->counters().partial_writes, 2U);
  EXPECT_EQ(store->counters().rmw, 2U);
  EXPECT_EQ(store->counters().merged_writes, 0U);
}

}  // namespace
}  // namespace zvolt::backing
