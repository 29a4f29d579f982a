// FollowedStore and flushes: which failures stay, which are forgiven when the device is back, and what is told of them.
#include "tests/unit/backing/followed_fixture.h"

namespace zvolt::backing {
namespace {

TEST_F(Followed, FlushThatFailsWhileGoneIsToldAndFlushesWorkAfterwards) {
  const auto store = follow(options());
  if (!store->geometry().volatile_cache) GTEST_SKIP() << "the loop device has no volatile cache here";
  Io flush(IoKind::flush, 0, 0);
  ASSERT_EQ(submit(*store, flush), Submitted::pending);
  there_ = false;
  engine_.complete(EIO);
  await(flush);
  EXPECT_EQ(flush.request.error, ENOMEDIUM);
  EXPECT_TRUE(store->report().flush_failed_meanwhile);
  EXPECT_FALSE(store->report().flush_lost);
  there_ = true;
  ASSERT_EQ(store->look().presence, Presence::present);
  store->set_flushes_told();
  EXPECT_FALSE(store->report().flush_failed_meanwhile);
  ASSERT_EQ(submit(*store, flush), Submitted::pending);
  engine_.complete();
  EXPECT_EQ(flush.request.error, 0);
}

TEST_F(Followed, FlushThatIsRefusedWhileGoneIsTold) {
  const auto store = follow(options());
  there_ = false;
  store->look();
  EXPECT_FALSE(store->report().flush_failed_meanwhile);
  Io flush(IoKind::flush, 0, 0);
  EXPECT_EQ(submit(*store, flush), Submitted::done);
  EXPECT_EQ(flush.request.error, ENOMEDIUM);
  EXPECT_TRUE(store->report().flush_failed_meanwhile);
}

TEST_F(Followed, FlushThatFailsOnADeviceThatIsThereStaysFailedThroughReopening) {
  const auto store = follow(options());
  if (!store->geometry().volatile_cache) GTEST_SKIP() << "the loop device has no volatile cache here";
  Io flush(IoKind::flush, 0, 0);
  submit(*store, flush);
  engine_.complete(EIO);
  await(flush);
  EXPECT_EQ(flush.request.error, EIO);
  EXPECT_TRUE(store->look().flush_lost);
  there_ = false;
  store->look();
  there_ = true;
  ASSERT_EQ(store->look().presence, Presence::present);
  submit(*store, flush);
  await(flush);
  EXPECT_EQ(flush.request.error, EIO);
  EXPECT_TRUE(engine_.calls.empty());  // the kernel would say nothing of what is lost
  EXPECT_FALSE(store->report().flush_failed_meanwhile);
  store->set_offline(true);
  store->set_offline(false);  // the operator's word
  ASSERT_EQ(submit(*store, flush), Submitted::pending);
  engine_.complete();
  EXPECT_EQ(flush.request.error, 0);
  EXPECT_FALSE(store->report().flush_lost);
}

TEST_F(Followed, FlushThatFailsWhileReadOnlyIsErofsAndForgiven) {
  const auto store = follow(options());
  if (!store->geometry().volatile_cache) GTEST_SKIP() << "the loop device has no volatile cache here";
  ASSERT_EQ(loop_.set_read_only(1), 0);
  store->look();
  Io flush(IoKind::flush, 0, 0);
  ASSERT_EQ(submit(*store, flush), Submitted::pending);  // earlier writes may wait for it
  engine_.complete(EIO);
  await(flush);
  EXPECT_EQ(flush.request.error, EROFS);
  EXPECT_TRUE(store->report().flush_failed_meanwhile);
  ASSERT_EQ(loop_.set_read_only(0), 0);
  store->look();
  ASSERT_EQ(submit(*store, flush), Submitted::pending);
  engine_.complete();
  EXPECT_EQ(flush.request.error, 0);
}

}  // namespace
}  // namespace zvolt::backing
