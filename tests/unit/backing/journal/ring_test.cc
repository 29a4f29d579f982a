// The account of the ring's space.
#include "backing/journal/ring.h"

#include <gtest/gtest.h>

namespace zvolt::backing::journal {
namespace {

Ring three_groups() {
  Ring ring(Tail{1, 0, 0}, 10000);
  ring.promise(3000);
  ring.append({1, 3, 0, 1000, 0, 11}, 1000);
  ring.append({4, 4, 1000, 500, 11, 12}, 1000);
  ring.append({5, 9, 1500, 1500, 12, 13}, 1000);
  return ring;
}

TEST(Ring, PromisesCountUntilTheyAreGroups) {
  Ring ring(Tail{1, 0, 0}, 1000);
  EXPECT_TRUE(ring.fits(1000, 0));
  ring.promise(600);
  EXPECT_FALSE(ring.fits(401, 0));
  EXPECT_FALSE(ring.fits(300, 200));
  ring.append({1, 1, 0, 512, 0, 5}, 600);
  EXPECT_TRUE(ring.fits(488, 0));
  EXPECT_EQ(ring.used(), 512U);
  EXPECT_EQ(ring.promised(), 0U);
}

TEST(Ring, TailStandsAtTheGroupThatHoldsTheRecord) {
  const Ring ring = three_groups();
  EXPECT_EQ(ring.tail_for(1), (Tail{1, 0, 0}));
  EXPECT_EQ(ring.tail_for(3), (Tail{1, 0, 0}));
  EXPECT_EQ(ring.tail_for(4), (Tail{4, 1000, 11}));
  EXPECT_EQ(ring.tail_for(7), (Tail{5, 1500, 12}));
}

TEST(Ring, TailStandsAtTheHeadWhenNothingIsNeeded) {
  EXPECT_EQ(three_groups().tail_for(10), (Tail{10, 3000, 13}));
}

TEST(Ring, ReleaseGivesTheSpaceOfWholeGroupsBack) {
  Ring ring = three_groups();
  ring.release(ring.tail_for(4));
  EXPECT_EQ(ring.used(), 2000U);
  EXPECT_EQ(ring.tail_for(4), (Tail{4, 1000, 11}));
  ring.release(ring.tail_for(10));
  EXPECT_EQ(ring.used(), 0U);
  EXPECT_EQ(ring.head(), (Tail{10, 3000, 13}));
}

}  // namespace
}  // namespace zvolt::backing::journal
