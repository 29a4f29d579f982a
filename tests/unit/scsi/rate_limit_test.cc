// RateLimiter: how long commands wait, what may be saved up, and that threads together get no more than the limit.
#include "scsi/rate_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace zvolt::scsi {
namespace {

using std::chrono::milliseconds;
constexpr uint64_t kStart = 1'000'000'000'000;
constexpr uint64_t kMs = 1'000'000;

TEST(RateLimiter, WithoutALimitItIsNotActive) {
  RateLimiter limiter;
  EXPECT_FALSE(limiter.active());
  EXPECT_EQ(limiter.book(1 << 20, kStart), kStart);
  limiter.set({.iops = 1});
  EXPECT_TRUE(limiter.active());
  limiter.set({});
  EXPECT_FALSE(limiter.active());
}

TEST(RateLimiter, CommandsComeAtTheRateOnceTheBurstIsUsedUp) {
  RateLimiter limiter;
  limiter.set({.iops = 100, .bandwidth = 0, .burst = milliseconds(50)});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(limiter.book(512, kStart), kStart) << i;  // five saved up, and its own
  for (uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(limiter.book(512, kStart), kStart + i * 10 * kMs);
}

TEST(RateLimiter, BytesCount) {
  RateLimiter limiter;
  limiter.set({.iops = 0, .bandwidth = 1'000'000, .burst = milliseconds(0)});
  EXPECT_EQ(limiter.book(500'000, kStart), kStart);
  EXPECT_EQ(limiter.book(1000, kStart), kStart + 500 * kMs);
  EXPECT_EQ(limiter.book(1000, kStart), kStart + 501 * kMs);
}

TEST(RateLimiter, TheStricterOfTwoLimitsRules) {
  RateLimiter limiter;
  limiter.set({.iops = 1000, .bandwidth = 1'000'000, .burst = milliseconds(0)});
  limiter.book(100'000, kStart);
  EXPECT_EQ(limiter.book(0, kStart), kStart + 100 * kMs);
  RateLimiter other;
  other.set({.iops = 10, .bandwidth = 1'000'000'000, .burst = milliseconds(0)});
  other.book(512, kStart);
  EXPECT_EQ(other.book(512, kStart), kStart + 100 * kMs);
}

TEST(RateLimiter, SavesUpNoMoreThanTheBurst) {
  RateLimiter limiter;
  limiter.set({.iops = 100, .bandwidth = 0, .burst = milliseconds(50)});
  limiter.book(512, kStart);
  const uint64_t later = kStart + 3600'000 * kMs;
  int at_once = 0;
  while (limiter.book(512, later) == later) ++at_once;
  EXPECT_EQ(at_once, 6);
}

// A command that is larger than the burst waits for those before it, not for itself.
TEST(RateLimiter, ALargeCommandIsNeverStuck) {
  RateLimiter limiter;
  limiter.set({.iops = 0, .bandwidth = 1000, .burst = milliseconds(1)});
  EXPECT_EQ(limiter.book(1 << 20, kStart), kStart);
  EXPECT_GT(limiter.book(1, kStart), kStart + 1000'000 * kMs);
}

TEST(RateLimiter, AnotherLimitForgetsTheDebtOfTheOld) {
  RateLimiter limiter;
  limiter.set({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
  for (int i = 0; i < 100; ++i) limiter.book(512, kStart);
  const uint32_t before = limiter.generation();
  limiter.set({.iops = 1000, .bandwidth = 0, .burst = milliseconds(0)});
  EXPECT_NE(limiter.generation(), before);
  EXPECT_EQ(limiter.book(512, kStart), kStart);
  EXPECT_EQ(limiter.book(512, kStart), kStart + kMs);
}

TEST(RateLimiter, ThreadsTogetherGetTheLimit) {
  RateLimiter limiter;
  limiter.set({.iops = 1'000'000, .bandwidth = 0, .burst = milliseconds(0)});
  constexpr uint64_t kThreads = 4, kEach = 20'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) limiter.book(512, kStart);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(limiter.book(512, kStart), kStart + kThreads * kEach * 1000);
}

}  // namespace
}  // namespace zvolt::scsi
