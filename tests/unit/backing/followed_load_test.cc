// FollowedStore under load: shards write and read what they know while the device goes and comes, is made read-only,
// resized and taken offline under them. Each request is answered once; what was acknowledged is there.
#include <array>
#include <atomic>
#include <thread>

#include "backing/followed_store.h"
#include "loop_device.h"
#include "support.h"

namespace zvolt::backing {
namespace {

constexpr uint64_t kBlock = 4096;      // bytes
constexpr uint64_t kBlocksEach = 256;  // of one shard's own range
constexpr unsigned kDepth = 16;        // requests in flight of a shard
constexpr unsigned kShards = 2;
constexpr int kRounds = 6;  // of all transitions

// One place of a shard's queue: a block that is written with a new value, then read back, and so on.
struct Place {
  Io io{IoKind::write, 0, kBlock};
};

class Worker {
 public:
  Worker(FollowedStore& store, unsigned number) : store_(store), base_(number * kBlocksEach) {}

  void run(const std::atomic<bool>& stop, std::atomic<unsigned>& working) {
    uint64_t turn = 0;
    while (!stop.load()) {
      for (unsigned i = 0; i < kDepth; ++i) start(places_[i], (turn * kDepth + i) % kBlocksEach, turn + i);
      for (Place& place : places_) {
        shard_.finish(place.io);
        check(place);
      }
      ++turn;
      turns_.store(turn);
      serve();
    }
    for (uint64_t block = 0; block < kBlocksEach; ++block) verify(block);
    working.fetch_sub(1);
    while (working.load() > 0) serve();
  }
  uint64_t turns() const { return turns_.load(); }
  uint64_t good() const { return good_; }
  uint64_t away() const { return away_; }

 private:
  // As a shard does whether or not it waits for something itself: another's flush may be on its engine.
  void serve() {
    shard_.engine().flush();
    shard_.engine().reap(256);
    shard_.engine().flush();
  }
  void start(Place& place, uint64_t block, uint64_t turn) {
    IoRequest& request = place.io.request;
    constexpr IoKind kKinds[] = {IoKind::write, IoKind::write, IoKind::read, IoKind::flush, IoKind::write_zeroes};
    request.kind = kKinds[turn % 5];
    request.fua = request.kind == IoKind::write && turn % 3 == 0;
    request.offset = (base_ + block) * kBlock;
    request.length = kBlock;
    request.iov = &place.io.iov;
    request.iov_count = 1;
    place.io.completed = false;
    const auto value = static_cast<uint8_t>(turn % 250 + 1);
    if (request.kind == IoKind::write) memset(place.io.data, value, kBlock);
    shard_.submit(store_, place.io);
  }
  void check(const Place& place) {
    const IoRequest& request = place.io.request;
    const int error = request.error;
    const uint64_t block = request.offset / kBlock - base_;
    EXPECT_TRUE(error == 0 || error == ENOMEDIUM || error == EROFS) << error;
    (error == 0 ? good_ : away_) += 1;
    if (error != 0 && (request.kind == IoKind::write || request.kind == IoKind::write_zeroes)) known_[block] = -1;
    if (error != 0) return;
    if (request.kind == IoKind::write) known_[block] = place.io.data[0];
    if (request.kind == IoKind::write_zeroes) known_[block] = 0;
    if (request.kind == IoKind::read && known_[block] >= 0) {
      EXPECT_TRUE(place.io.holds(static_cast<uint8_t>(known_[block]))) << block;
    }
  }
  void verify(uint64_t block) {
    if (known_[block] < 0) return;
    EXPECT_TRUE(shard_.reads(store_, (base_ + block) * kBlock, kBlock, static_cast<uint8_t>(known_[block]))) << block;
  }

  FollowedStore& store_;
  const uint64_t base_;
  Shard shard_;
  std::array<Place, kDepth> places_;
  std::array<int, kBlocksEach> known_{};  // value of each block, -1: a write of it failed
  std::atomic<uint64_t> turns_{0};
  uint64_t good_ = 0;
  uint64_t away_ = 0;
};

TEST(FollowedLoad, EveryTransitionUnderLoadLosesNothingAndAnswersEachRequestOnce) {
  const TempDir dir;
  LoopDevice loop(dir.file("disk", 8 * kMiB), 512);
  NEEDS(loop);
  std::atomic<bool> there{true};
  FollowOptions options;
  options.name = "load";
  options.locate = [&]() -> Result<std::string> {
    if (there) return loop.path();
    return Error{ENOENT, "not there"};
  };
  options.probe = [&](int) { return there ? 0 : ENXIO; };
  auto opened = follow_device(std::move(options));
  ASSERT_TRUE(opened.ok());
  FollowedStore& store = **opened;
  std::atomic<bool> stop{false};
  std::atomic<unsigned> working{kShards};
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kShards; ++i) {
    workers.push_back(std::make_unique<Worker>(store, i));
    threads.emplace_back([&, worker = workers.back().get()] { worker->run(stop, working); });
  }
  const auto settle = [&](Presence presence) {
    for (int looks = 0; looks < 2000; ++looks) {
      if (store.look().presence == presence) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the watcher's cadence
    }
    return false;
  };
  // Each state meets a whole turn of each shard.
  const auto mix = [&] {
    for (const auto& worker : workers) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      const uint64_t wanted = worker->turns() + 2;
      while (worker->turns() < wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      EXPECT_GE(worker->turns(), wanted);
    }
  };
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    there = false;
    EXPECT_TRUE(settle(Presence::gone));
    mix();
    there = true;
    EXPECT_TRUE(settle(Presence::present)) << store.report().reason;
    mix();
    EXPECT_EQ(loop.set_read_only(1), 0);
    EXPECT_TRUE(store.look().read_only);
    mix();
    EXPECT_EQ(loop.set_read_only(0), 0);
    EXPECT_FALSE(store.look().read_only);
    EXPECT_EQ(loop.resize((8 + static_cast<uint64_t>(round)) * kMiB), 0);
    EXPECT_EQ(store.look().size, (8 + static_cast<uint64_t>(round)) * kMiB);
    mix();
    EXPECT_EQ(store.set_offline(true).presence, Presence::offline);
    mix();
    EXPECT_EQ(store.set_offline(false).presence, Presence::present) << store.report().reason;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& worker : workers) {
    EXPECT_GT(worker->good(), 0U);
    EXPECT_GT(worker->away(), 0U);
  }
  EXPECT_EQ(store.requests_parked(), 0U);
  EXPECT_EQ(store.report().presence, Presence::present);
}

}  // namespace
}  // namespace zvolt::backing
