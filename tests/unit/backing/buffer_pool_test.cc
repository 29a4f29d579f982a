// BufferPool: accounts, exhaustion, joining of freed neighbours, the bound on mapped memory.
#include "backing/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace zvolt::backing {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kSlab = BufferPool::kSlab;

std::vector<Buffer> fill(BufferPool& pool, size_t size) {
  std::vector<Buffer> all;
  for (Buffer buffer = pool.allocate(size); buffer; buffer = pool.allocate(size)) all.push_back(std::move(buffer));
  return all;
}

TEST(BufferPool, MapsNothingUntilTheFirstAllocation) {
  BufferPool pool(8 * kSlab);
  EXPECT_EQ(pool.mapped(), 0U);
  const Buffer buffer = pool.allocate(1);
  EXPECT_EQ(pool.mapped(), kSlab);
}

TEST(BufferPool, SizesAreRoundedUpToAPowerOfTwo) {
  BufferPool pool(kSlab);
  EXPECT_EQ(BufferPool::rounded(1), 4 * kKiB);
  EXPECT_EQ(BufferPool::rounded(4097), 8 * kKiB);
  EXPECT_EQ(BufferPool::rounded(256 * kKiB), 256 * kKiB);
  EXPECT_EQ(pool.allocate(5000).capacity(), 8 * kKiB);
}

TEST(BufferPool, SizeZeroOrAboveTheLargestIsRefused) {
  BufferPool pool(kSlab);
  EXPECT_FALSE(pool.allocate(0));
  EXPECT_FALSE(pool.allocate(256 * kKiB + 1));
  EXPECT_FALSE(pool.allocate(SIZE_MAX));
  EXPECT_FALSE(pool.allocate_reserved(0));
  EXPECT_FALSE(pool.allocate_reserved(SIZE_MAX));
  EXPECT_EQ(pool.general_in_use(), 0U);
}

TEST(BufferPool, BuffersAreAlignedToTheirPageAndDoNotOverlap) {
  BufferPool pool(4 * kSlab);
  std::vector<Buffer> all;
  std::set<uint8_t*> pages;
  for (size_t size : {4096, 262144, 8192, 65536, 4096, 131072, 16384, 32768}) {
    all.push_back(pool.allocate(size));
    ASSERT_TRUE(all.back());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().data()) % 4096, 0U);
    memset(all.back().data(), 1, all.back().capacity());
    for (size_t at = 0; at < all.back().capacity(); at += 4096)
      EXPECT_TRUE(pages.insert(all.back().data() + at).second);
  }
}

TEST(BufferPool, GeneralBudgetIsSpentToTheLastByteAndNotBeyond) {
  BufferPool pool(2 * kSlab);
  std::vector<Buffer> all = fill(pool, 256 * kKiB);
  EXPECT_EQ(all.size(), 2 * kSlab / (256 * kKiB));
  EXPECT_EQ(pool.general_in_use(), 2 * kSlab);
  EXPECT_FALSE(pool.allocate(1));
  all.pop_back();
  EXPECT_TRUE(pool.allocate(4096));
}

TEST(BufferPool, ReservedMemoryIsNotLentToOthers) {
  BufferPool pool(kSlab);
  EXPECT_TRUE(pool.reserve(kSlab - 8 * kKiB));
  EXPECT_EQ(pool.reserved(), kSlab - 8 * kKiB);
  const std::vector<Buffer> general = fill(pool, 4096);
  EXPECT_EQ(general.size(), 2U);
  const Buffer promised = pool.allocate_reserved(256 * kKiB);
  EXPECT_TRUE(promised);
  EXPECT_EQ(pool.general_in_use(), 8 * kKiB);
}

TEST(BufferPool, MoreThanTheBudgetCannotBePromised) {
  BufferPool pool(kSlab);
  EXPECT_FALSE(pool.reserve(kSlab + 1));
  EXPECT_FALSE(pool.reserve(SIZE_MAX));
  const Buffer general = pool.allocate(4096);
  EXPECT_FALSE(pool.reserve(kSlab));
  EXPECT_TRUE(pool.reserve(kSlab - 4096));
  EXPECT_FALSE(pool.reserve(1));
  pool.unreserve(kSlab - 4096);
  EXPECT_EQ(pool.reserved(), 0U);
  EXPECT_TRUE(pool.reserve(1));
}

TEST(BufferPool, FreedNeighboursJoinSoThatNoSizeStrandsMemory) {
  BufferPool pool(4 * kSlab);
  for (const size_t size : {4096, 262144, 8192, 131072, 16384, 65536, 32768}) {
    const std::vector<Buffer> all = fill(pool, size);
    EXPECT_EQ(all.size() * size, 4 * kSlab) << size;
    EXPECT_LE(pool.mapped(), pool.budget() + kSlab) << size;
  }
}

TEST(BufferPool, RandomSizesStayWithinBudgetPlusOneSlab) {
  BufferPool pool(8 * kSlab);
  std::mt19937 random(7);
  std::vector<Buffer> held;
  for (int i = 0; i < 50000; ++i) {
    if (random() % 2 == 0) {
      Buffer buffer = pool.allocate(size_t{4096} << random() % 7);
      if (buffer) held.push_back(std::move(buffer));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
    ASSERT_LE(pool.mapped(), pool.budget() + kSlab);
    ASSERT_LE(pool.general_in_use(), pool.budget());
  }
  held.clear();
  EXPECT_EQ(pool.general_in_use(), 0U);
  EXPECT_EQ(fill(pool, 262144).size() * 262144, pool.budget());
}

TEST(BufferPool, PromiseHoldsWhenOnlyFragmentsAreLeftAndTheSurplusGoesBack) {
  BufferPool pool(2 * kSlab);
  std::vector<Buffer> general = fill(pool, 4096);
  // Half of the memory is free, but nowhere two pages beside each other.
  for (size_t i = 0; i < general.size(); i += 2) general[i].release();
  ASSERT_TRUE(pool.reserve(kSlab));
  std::vector<Buffer> promised;
  for (size_t i = 0; i < kSlab / (256 * kKiB); ++i) {
    promised.push_back(pool.allocate_reserved(256 * kKiB));
    ASSERT_TRUE(promised.back());
  }
  general.clear();
  promised.clear();
  pool.unreserve(kSlab);
  EXPECT_LE(pool.mapped(), pool.budget() + kSlab);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(BufferPoolDeathTest, UseAfterReleaseIsCaught) {
  BufferPool pool(kSlab);
  Buffer buffer = pool.allocate(4096);
  uint8_t* data = buffer.data();
  buffer.release();
  EXPECT_DEATH(*static_cast<volatile uint8_t*>(data) = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace zvolt::backing
