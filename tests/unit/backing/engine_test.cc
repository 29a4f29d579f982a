// Both engines on plain files, as a shard drives them.
#include <fcntl.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace zvolt::backing {
namespace {

class Engine : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fd_ = open(dir_.file("data", kMiB).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { close(fd_); }
  int run(Io& io) {
    io.completed = false;
    shard_.engine().queue(io.request, fd_);
    shard_.finish(io);
    return io.request.error;
  }

  TempDir dir_;
  Shard shard_{GetParam()};
  int fd_ = -1;
};

TEST_P(Engine, DescriptionNamesTheKind) {
  const std::string& text = shard_.engine().description();
  EXPECT_NE(text.find(GetParam() ? "io_uring (" : "worker threads"), std::string::npos) << text;
}

TEST_P(Engine, WhatWasWrittenIsReadBack) {
  Io out(IoKind::write, 4096, 8192);
  EXPECT_EQ(run(out.fill(0x5a)), 0);
  Io in(IoKind::read, 4096, 8192);
  EXPECT_EQ(run(in), 0);
  EXPECT_TRUE(in.holds(0x5a));
  EXPECT_EQ(shard_.engine().in_flight(), 0U);
}

TEST_P(Engine, SeveralIovsArriveInOrder) {
  Io out(IoKind::write, 0, 3000);
  iovec parts[3] = {{out.data, 1}, {out.data + 1, 2000}, {out.data + 2001, 999}};
  for (int i = 0; i < 3000; ++i) out.data[i] = static_cast<uint8_t>(i * 7);
  out.request.iov = parts;
  out.request.iov_count = 3;
  EXPECT_EQ(run(out), 0);
  Io in(IoKind::read, 0, 3000);
  EXPECT_EQ(run(in), 0);
  EXPECT_EQ(memcmp(in.data, out.data, 3000), 0);
}

TEST_P(Engine, MoreIovsThanOneCallTakesAreCarriedOn) {
  constexpr unsigned kParts = 1500;  // IOV_MAX is 1024
  Io out(IoKind::write, 0, kParts * 16);
  for (unsigned i = 0; i < kParts * 16; ++i) out.data[i] = static_cast<uint8_t>(i / 16 + i);
  std::vector<iovec> parts(kParts);
  for (unsigned i = 0; i < kParts; ++i) parts[i] = {out.data + i * 16, 16};
  out.request.iov = parts.data();
  out.request.iov_count = kParts;
  EXPECT_EQ(run(out), 0);
  Io in(IoKind::read, 0, kParts * 16);
  EXPECT_EQ(run(in), 0);
  EXPECT_EQ(memcmp(in.data, out.data, kParts * 16), 0);
}

TEST_P(Engine, ReadPastTheEndOfTheFileIsEioAtTheEnd) {
  Io in(IoKind::read, kMiB - 4096, 8192);
  EXPECT_EQ(run(in), EIO);
  EXPECT_EQ(in.request.error_offset, kMiB);
}

TEST_P(Engine, ErrorOfTheKernelIsReported) {
  const int read_only = open(dir_.path("data").c_str(), O_RDONLY | O_CLOEXEC);
  Io out(IoKind::write, 0, 512);
  shard_.engine().queue(out.request, read_only);
  shard_.finish(out);
  EXPECT_EQ(out.request.error, EBADF);
  close(read_only);
}

TEST_P(Engine, FlushZeroAndDiscardReachTheFile) {
  Io out(IoKind::write, 0, 65536);
  EXPECT_EQ(run(out.fill(1)), 0);
  Io sync(IoKind::flush, 0, 0);
  EXPECT_EQ(run(sync), 0);
  Io zero(IoKind::write_zeroes, 4096, 4096);
  EXPECT_EQ(run(zero), 0);
  Io discard(IoKind::discard, 16384, 4096);
  EXPECT_EQ(run(discard), 0);
  Io in(IoKind::read, 0, 65536);
  EXPECT_EQ(run(in), 0);
  EXPECT_EQ(in.data[4095], 1);
  EXPECT_EQ(in.data[4096], 0);
  EXPECT_EQ(in.data[8191], 0);
  EXPECT_EQ(in.data[8192], 1);
  EXPECT_EQ(in.data[16384], 0);
  EXPECT_EQ(in.data[20480], 1);
}

TEST_P(Engine, OneFlushSubmitsTheWholeBurst) {
  std::vector<std::unique_ptr<Io>> burst;
  shard_.engine().reap(1);
  const uint64_t before = shard_.engine().submissions();
  for (unsigned i = 0; i < 32; ++i) {
    burst.push_back(std::make_unique<Io>(IoKind::write, i * 4096, 4096));
    shard_.engine().queue(burst.back()->fill(static_cast<uint8_t>(i + 1)).request, fd_);
  }
  EXPECT_EQ(shard_.engine().in_flight(), 32U);
  shard_.engine().flush();
  EXPECT_EQ(shard_.engine().submissions(), before + 1);
  shard_.engine().flush();  // nothing queued: no submission
  EXPECT_EQ(shard_.engine().submissions(), before + 1);
  for (auto& io : burst) shard_.finish(*io);
  EXPECT_EQ(shard_.engine().in_flight(), 0U);
}

TEST_P(Engine, MoreRequestsThanTheRingHasEntriesComplete) {
  Shard small(GetParam(), 4);
  std::vector<std::unique_ptr<Io>> burst;
  for (unsigned i = 0; i < 200; ++i) {
    burst.push_back(std::make_unique<Io>(IoKind::write, i * 4096, 4096));
    small.engine().queue(burst.back()->fill(static_cast<uint8_t>(i)).request, fd_);
  }
  for (auto& io : burst) {
    small.finish(*io);
    EXPECT_EQ(io->request.error, 0);
  }
  Io in(IoKind::read, 199 * 4096, 4096);
  EXPECT_EQ(run(in), 0);
  EXPECT_TRUE(in.holds(199));
}

TEST_P(Engine, OffloadedWorkRunsOnAnotherThread) {
  Io io(IoKind::discard, 0, 0);
  shard_.engine().offload(io.request, [](IoRequest& r) { r.error = static_cast<int>(::getpid() == ::gettid()); });
  shard_.finish(io);
  EXPECT_EQ(io.request.error, 0);
}

TEST_P(Engine, ParkedRequestIsFinishedFromAnotherThreadAndWakesTheDescriptor) {
  Io io(IoKind::flush, 0, 0);
  shard_.engine().park(io.request);
  EXPECT_EQ(shard_.engine().in_flight(), 1U);
  std::thread other([&] { shard_.engine().finish_from_any_thread(io.request); });
  shard_.finish(io);
  other.join();
  EXPECT_EQ(shard_.engine().in_flight(), 0U);
}

TEST_P(Engine, FinishOnTheOwnThreadCompletesInReapNotAtOnce) {
  Io io(IoKind::flush, 0, 0);
  shard_.engine().park(io.request);
  shard_.engine().finish_from_any_thread(io.request);
  EXPECT_FALSE(io.completed);
  shard_.finish(io);
}

TEST_P(Engine, PostedFunctionsRunInOrderOnTheShard) {
  shard_.engine().reap(1);
  struct Post {
    std::vector<int>* order;
    int number;
  };
  std::vector<int> order;
  std::vector<Post> posts;
  for (int i = 0; i < 100; ++i) posts.push_back({&order, i});
  std::thread other([&] {
    for (Post& post : posts) {
      shard_.engine().post([](void* p) { static_cast<Post*>(p)->order->push_back(static_cast<Post*>(p)->number); },
                           &post);
    }
  });
  while (order.size() < 100) ASSERT_TRUE(shard_.turn());
  other.join();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_P(Engine, WhatALimitedReapLeavesKeepsTheDescriptorReadable) {
  std::vector<std::unique_ptr<Io>> parked;
  for (int i = 0; i < 10; ++i) {
    parked.push_back(std::make_unique<Io>(IoKind::flush, 0, 0));
    shard_.engine().park(parked.back()->request);
  }
  std::thread other([&] {
    for (auto& io : parked) shard_.engine().finish_from_any_thread(io->request);
  });
  other.join();
  size_t turns = 0;
  while (shard_.engine().in_flight() > 0) {
    pollfd waiting{shard_.engine().wait_fd(), POLLIN, 0};
    int ready;
    do {
      ready = poll(&waiting, 1, 20000);
    } while (ready < 0 && errno == EINTR);
    ASSERT_EQ(ready, 1);
    shard_.engine().reap(1);
    ++turns;
  }
  EXPECT_GE(turns, 10U);
}

TEST_P(Engine, ManyWakesFromManyThreadsLoseNothing) {
  constexpr int kEach = 2000;
  std::atomic<int> ran{0};
  shard_.engine().reap(1);
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        shard_.engine().post([](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &ran);
      }
    });
  }
  while (ran.load() < 3 * kEach) ASSERT_TRUE(shard_.turn());
  for (std::thread& other : others) other.join();
  EXPECT_EQ(ran.load(), 3 * kEach);
}

// A post that arrives while reap() runs, its wake-up being the last thing that reap()'s limit allows to take.
TEST_P(Engine, AWakeUpTakenAtTheLimitIsNotForgotten) {
  shard_.engine().reap(1);
  struct Chain {
    IoEngine* engine;
    int ran;
  };
  for (const size_t limit : {1U, 2U, 3U, 4U}) {
    Chain chain{&shard_.engine(), 0};
    const auto last = [](void* p) { ++static_cast<Chain*>(p)->ran; };
    const auto first = [](void* p) {
      auto& own = *static_cast<Chain*>(p);
      ++own.ran;
      std::thread([&own] { own.engine->post([](void* q) { ++static_cast<Chain*>(q)->ran; }, &own); }).join();
    };
    std::thread([&] { chain.engine->post(first, &chain); }).join();
    shard_.engine().reap(limit);
    if (chain.ran < 2) {
      EXPECT_TRUE(shard_.turn()) << "limit " << limit;
    }
    EXPECT_EQ(chain.ran, 2) << "limit " << limit;
    std::thread([&] { chain.engine->post(last, &chain); }).join();
    EXPECT_TRUE(shard_.turn());
    EXPECT_EQ(chain.ran, 3) << "limit " << limit;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Engine, testing::Values(true, false),
                         [](const auto& param) { return param.param ? "Uring" : "Threads"; });

// Leak detection is the judge: in the mailbox, and taken from it but not yet run.
TEST(EnginePosts, ThoseThatNobodyReapedGoWithTheEngine) {
  for (const bool uring : {true, false}) {
    int ran = 0;
    const auto engine = make_engine({.allow_uring = uring});
    engine->reap(1);
    const auto count = [](void* p) { ++*static_cast<int*>(p); };
    std::thread([&] {
      for (int i = 0; i < 3; ++i) engine->post(count, &ran);
    }).join();
    engine->reap(1);
    EXPECT_EQ(ran, 1);
    std::thread([&] { engine->post(count, &ran); }).join();
  }
}

TEST(EngineSlots, LivingEnginesHaveDifferentNumbersAndTheyComeBack) {
  std::vector<std::unique_ptr<IoEngine>> engines;
  uint64_t seen = 0;
  for (int i = 0; i < 8; ++i) {
    engines.push_back(make_engine({.allow_uring = false}));
    const unsigned slot = engines.back()->slot();
    ASSERT_LT(slot, IoEngine::kSlots);
    EXPECT_EQ(seen >> slot & 1, 0U);
    seen |= uint64_t{1} << slot;
  }
  const unsigned last = engines.back()->slot();
  engines.pop_back();
  engines.push_back(make_engine({.allow_uring = false}));
  EXPECT_EQ(engines.back()->slot(), last);
}

}  // namespace
}  // namespace zvolt::backing
