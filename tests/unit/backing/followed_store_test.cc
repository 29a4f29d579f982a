// FollowedStore: each transition of a device that is late, goes, comes back, is refused, taken offline, resized or made
// read-only, alone and with requests in flight. Real loop devices; what they cannot do by themselves (vanish under an
// open descriptor, fail a request) is said by an injected probe or by the mock engine.
#include "backing/followed_store.h"

#include <thread>

#include "backing/fd_store.h"
#include "tests/unit/backing/followed_fixture.h"

namespace zvolt::backing {
namespace {

TEST_F(Followed, DeviceThatIsThereServesAtOnce) {
  const auto store = follow(options());
  const Report report = store->report();
  EXPECT_EQ(report.presence, Presence::present) << report.reason;
  EXPECT_EQ(report.size, 8 * kMiB);
  EXPECT_EQ(report.device, loop_.path());
  EXPECT_EQ(report.generation, 1U);
  EXPECT_EQ(store->geometry().logical_block, 512U);
  EXPECT_FALSE(loop_.unclaimed());
  Shard shard;
  EXPECT_EQ(shard.write(*store, 4096, 8192, 7, true), 0);
  EXPECT_TRUE(shard.reads(*store, 4096, 8192, 7));
  EXPECT_EQ(shard.plain(*store, IoKind::flush), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 4096, 4096), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 8192, 4096), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::allocation_status, 0, 4096), 0);
  EXPECT_TRUE(shard.reads(*store, 4096, 4096, 0));
}

TEST_F(Followed, LateDeviceAnswersNotNowAndComesUpWithTheNextLook) {
  there_ = false;
  const auto store = follow(options());
  EXPECT_EQ(store->report().presence, Presence::late);
  EXPECT_EQ(store->report().reason, "tank/a is not imported");
  EXPECT_EQ(store->size_bytes(), 0U);
  EXPECT_EQ(store->device_fd(), -1);
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 512, 1), ENOMEDIUM);
  EXPECT_EQ(shard.plain(*store, IoKind::flush), ENOMEDIUM);
  EXPECT_FALSE(store->report().flush_failed_meanwhile);  // nothing was ever written
  EXPECT_EQ(store->look().presence, Presence::late);
  EXPECT_EQ(changes(), 0U);
  there_ = true;
  EXPECT_EQ(store->look().presence, Presence::present);
  EXPECT_EQ(changes(), 1U);
  EXPECT_EQ(store->size_bytes(), 8 * kMiB);
  EXPECT_EQ(shard.write(*store, 0, 512, 1), 0);
}

TEST_F(Followed, GoneDeviceIsClosedAndItsDataIsThereWhenItIsBack) {
  const auto store = follow(options());
  const Geometry& before = store->geometry();
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 4096, 9), 0);
  there_ = false;
  const Report gone = store->look();
  EXPECT_EQ(gone.presence, Presence::gone);
  EXPECT_TRUE(loop_.unclaimed());
  EXPECT_EQ(store->device_fd(), -1);
  EXPECT_EQ(store->size_bytes(), 8 * kMiB);
  EXPECT_EQ(shard.write(*store, 0, 4096, 1), ENOMEDIUM);
  EXPECT_EQ(shard.plain(*store, IoKind::read, 0, 0), ENOMEDIUM);
  there_ = true;
  const Report back = store->look();
  EXPECT_EQ(back.presence, Presence::present);
  EXPECT_EQ(back.generation, 2U);
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 9));
  EXPECT_EQ(before.logical_block, 512U);  // the reference is still good
  EXPECT_EQ(changes(), 2U);
}

TEST_F(Followed, DescriptorNumberIsOneForLife) {
  const auto store = follow(options());
  const int number = store->device_fd();
  there_ = false;
  store->look();
  uint64_t size = 0;
  EXPECT_EQ(ioctl(number, BLKGETSIZE64, &size), -1);
  EXPECT_EQ(errno, EBADF);
  there_ = true;
  store->look();
  EXPECT_EQ(store->device_fd(), number);
  EXPECT_EQ(ioctl(number, BLKGETSIZE64, &size), 0);
}

TEST_F(Followed, DeviceIsNotClosedUnderARequestAndNotReopenedBeforeItsEnd) {
  const auto store = follow(options());
  Io write(IoKind::write, 0, 4096);
  Io second(IoKind::write, 8192, 4096);
  ASSERT_EQ(submit(*store, write), Submitted::pending);
  ASSERT_EQ(submit(*store, second), Submitted::pending);
  there_ = false;
  Report report = store->look();
  EXPECT_EQ(report.presence, Presence::gone);
  EXPECT_NE(report.reason.find("closes when 2 requests in flight have ended"), std::string::npos) << report.reason;
  EXPECT_FALSE(loop_.unclaimed());
  there_ = true;
  EXPECT_EQ(store->look().presence, Presence::gone);  // it is back, but an old write may still land
  engine_.complete();
  EXPECT_TRUE(write.completed);
  EXPECT_EQ(write.request.error, 0);
  EXPECT_EQ(store->look().presence, Presence::gone);
  engine_.complete(EIO);
  await(second);
  EXPECT_EQ(second.request.error, ENOMEDIUM);
  EXPECT_EQ(store->look().presence, Presence::present);
  EXPECT_EQ(engine_.in_flight(), 0U);
}

TEST_F(Followed, LastRequestOutClosesTheDeviceWithoutTheWatcher) {
  const auto store = follow(options());
  Io read(IoKind::read, 0, 4096);
  ASSERT_EQ(submit(*store, read), Submitted::pending);
  there_ = false;
  store->look();
  EXPECT_FALSE(loop_.unclaimed());
  engine_.complete();
  EXPECT_EQ(read.request.error, 0);
  EXPECT_TRUE(closed_soon());
}

TEST_F(Followed, FailedRequestMakesTheHelperLookAndIsAnsweredNotNow) {
  std::atomic<int> wanted{0};
  auto opened = follow_device(options());
  ASSERT_TRUE(opened.ok());
  const auto store = *opened;
  store->on_look_wanted([&] { wanted.fetch_add(1); });
  for (const int error : {EIO, ENXIO, ENODEV, EBADF}) {
    Io read(IoKind::read, 0, 4096);
    ASSERT_EQ(store->look().presence, Presence::present);
    ASSERT_EQ(submit(*store, read), Submitted::pending);
    there_ = false;
    engine_.complete(error);
    await(read);
    EXPECT_EQ(read.request.error, ENOMEDIUM) << error;
    EXPECT_EQ(store->report().presence, Presence::gone);
    EXPECT_TRUE(closed_soon());
    EXPECT_TRUE(store->look_wanted());
    there_ = true;
  }
  EXPECT_EQ(store->requests_parked(), 0U);
  EXPECT_EQ(engine_.in_flight(), 0U);
  Io last(IoKind::read, 0, 4096);  // the helper is through with the notices once it has answered this one
  store->look();
  ASSERT_EQ(submit(*store, last), Submitted::pending);
  engine_.complete(EIO);
  await(last);
  EXPECT_GE(wanted.load(), 4);
}

TEST_F(Followed, ErrorOfADeviceThatIsThereIsExplained) {
  std::atomic<bool> other_thread{false};
  FollowOptions with = options();
  const auto here = std::this_thread::get_id();
  with.explain = [&](int error, const IoRequest& request) {
    other_thread = std::this_thread::get_id() != here;
    return request.kind == IoKind::write && error == EIO ? EDQUOT : error;
  };
  const auto store = follow(std::move(with));
  Io write(IoKind::write, 0, 4096);
  submit(*store, write);
  engine_.complete(EIO);
  await(write);
  EXPECT_EQ(write.request.error, EDQUOT);
  EXPECT_TRUE(other_thread);
  Io read(IoKind::read, 0, 4096);
  submit(*store, read);
  engine_.complete(EIO);
  await(read);
  EXPECT_EQ(read.request.error, EIO);
  EXPECT_EQ(store->report().presence, Presence::present);
}

TEST_F(Followed, ExplanationThatTheDatasetIsGoneMeansNotNow) {
  FollowOptions with = options();
  with.explain = [](int, const IoRequest&) { return ENODEV; };
  const auto store = follow(std::move(with));
  Io write(IoKind::write, 0, 4096);
  submit(*store, write);
  engine_.complete(EIO);
  await(write);
  EXPECT_EQ(write.request.error, ENOMEDIUM);
}

TEST_F(Followed, UnexplainedErrorsThatCannotBeTrueAreEio) {
  const auto store = follow(options());
  for (const int error : {EIO, ENXIO, EBADF, EPERM}) {
    Io write(IoKind::write, 0, 4096);
    submit(*store, write);
    engine_.complete(error);
    await(write);
    EXPECT_EQ(write.request.error, EIO) << error;
  }
}

TEST_F(Followed, WhatAdmitRefusesStaysClosedAndIsTriedAgain) {
  std::atomic<bool> admitted{false};
  FollowOptions with = options();
  with.admit = [&](int fd, const Geometry& geometry) -> Result<void> {
    EXPECT_GE(fd, 0);
    EXPECT_EQ(geometry.logical_block, 512U);
    if (admitted) return {};
    return Error{EBUSY, "tank/a has sync=disabled"};
  };
  const auto store = follow(std::move(with));
  EXPECT_EQ(store->report().presence, Presence::refused);
  EXPECT_EQ(store->report().reason, "tank/a has sync=disabled");
  EXPECT_TRUE(loop_.unclaimed());
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 512, 1), ENOMEDIUM);
  admitted = true;
  EXPECT_EQ(store->look().presence, Presence::present);
}

TEST_F(Followed, DeviceThatIsClaimedElsewhereIsRefusedUntilItIsFree) {
  const int claim = open(loop_.path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  const auto store = follow(options());
  EXPECT_EQ(store->report().presence, Presence::refused);
  EXPECT_NE(store->report().reason.find("in use"), std::string::npos);
  close(claim);
  EXPECT_EQ(store->look().presence, Presence::present);
}

TEST_F(Followed, WhoHasADeviceClaimedIsAskedAndTold) {
  const int claim = open(loop_.path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  FollowOptions with = options();
  with.claimant = [](const std::string&) { return "is claimed by pool 'inner'"; };
  const auto store = follow(std::move(with));
  EXPECT_EQ(store->report().presence, Presence::refused);
  EXPECT_EQ(store->report().reason, loop_.path() + " is claimed by pool 'inner'");
  close(claim);
  EXPECT_EQ(store->look().presence, Presence::present);
}

TEST_F(Followed, WrongKindOfFileIsRefused) {
  path_ = dir_.file("plain", kMiB);
  const auto store = follow(options());
  EXPECT_EQ(store->report().presence, Presence::refused);
  EXPECT_NE(store->report().reason.find("not a block device"), std::string::npos);
  path_ = "/dev/zvolt-no-such-device";
  EXPECT_EQ(store->look().presence, Presence::late);
}

TEST_F(Followed, OfflineClosesAndStaysSoUntilOnline) {
  const auto store = follow(options());
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 4096, 3), 0);
  EXPECT_EQ(store->set_offline(true).presence, Presence::offline);
  EXPECT_TRUE(loop_.unclaimed());
  EXPECT_EQ(store->look().presence, Presence::offline);
  EXPECT_EQ(shard.write(*store, 0, 4096, 4), ENOMEDIUM);
  EXPECT_EQ(store->set_offline(true).presence, Presence::offline);
  EXPECT_EQ(store->set_offline(false).presence, Presence::present);
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 3));
  EXPECT_FALSE(store->report().flush_failed_meanwhile);
}

TEST_F(Followed, OfflineWaitsForRequestsInFlight) {
  const auto store = follow(options());
  Io write(IoKind::write, 0, 4096);
  ASSERT_EQ(submit(*store, write), Submitted::pending);
  std::thread operator_thread([&] { EXPECT_EQ(store->set_offline(true).presence, Presence::offline); });
  while (store->device_fd() != -1) std::this_thread::yield();
  Io refused(IoKind::read, 0, 512);
  EXPECT_EQ(submit(*store, refused), Submitted::done);
  EXPECT_EQ(refused.request.error, ENOMEDIUM);
  EXPECT_FALSE(loop_.unclaimed());
  engine_.complete();
  EXPECT_EQ(write.request.error, 0);
  operator_thread.join();
  EXPECT_TRUE(closed_soon());
}

TEST_F(Followed, LateDeviceTakenOfflineDoesNotComeUp) {
  there_ = false;
  const auto store = follow(options());
  store->set_offline(true);
  there_ = true;
  EXPECT_EQ(store->look().presence, Presence::offline);
  EXPECT_EQ(store->set_offline(false).presence, Presence::present);
}

TEST_F(Followed, SizeIsFollowedUpAndDown) {
  const auto store = follow(options());
  std::vector<uint64_t> sizes;
  store->on_resize([&](uint64_t size) { sizes.push_back(size); });
  ASSERT_EQ(loop_.resize(16 * kMiB), 0);
  EXPECT_EQ(store->look().size, 16 * kMiB);
  Shard shard;
  EXPECT_EQ(shard.write(*store, 12 * kMiB, 4096, 1), 0);
  ASSERT_EQ(loop_.resize(4 * kMiB), 0);
  EXPECT_EQ(store->look().size, 4 * kMiB);
  EXPECT_EQ(shard.write(*store, 12 * kMiB, 4096, 1), EINVAL);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{16 * kMiB, 4 * kMiB}));
  EXPECT_EQ(changes(), 2U);
  EXPECT_EQ(store->report().generation, 1U);
}

TEST_F(Followed, RequestThatMeetsTheNewEndOfAShrunkenDeviceIsOutOfRange) {
  const auto store = follow(options());
  Io write(IoKind::write, 6 * kMiB, 4096);
  Io read(IoKind::read, 6 * kMiB, 4096);
  submit(*store, write);
  submit(*store, read);
  ASSERT_EQ(loop_.resize(4 * kMiB), 0);
  engine_.complete(ENOSPC);
  engine_.complete(EIO);
  await(write);
  await(read);
  EXPECT_EQ(write.request.error, EINVAL);
  EXPECT_EQ(read.request.error, EINVAL);
  EXPECT_EQ(store->size_bytes(), 4 * kMiB);
}

TEST_F(Followed, DeviceWithoutASizeIsGoneAndBackWhenItHasOne) {
  FollowOptions with = options();
  with.probe = nullptr;  // the real one
  const auto store = follow(std::move(with));
  ASSERT_EQ(loop_.resize(0), 0);
  EXPECT_EQ(store->look().presence, Presence::gone);
  EXPECT_TRUE(loop_.unclaimed());
  EXPECT_EQ(store->look().presence, Presence::gone);
  EXPECT_NE(store->report().reason.find("has no size"), std::string::npos) << store->report().reason;
  ASSERT_EQ(loop_.resize(8 * kMiB), 0);
  EXPECT_EQ(store->look().presence, Presence::present);
}

TEST_F(Followed, RealProbeFindsTheDeviceWhateverItsNameHasBecome) {
  FollowOptions with = options();
  with.probe = nullptr;
  const std::string link = dir_.path("link");
  std::filesystem::create_symlink(loop_.path(), link);
  path_ = link;
  const auto store = follow(std::move(with));
  std::filesystem::remove(link);
  EXPECT_EQ(store->look().presence, Presence::present);
  EXPECT_EQ(store->report().generation, 1U);
}

TEST_F(Followed, ReadOnlyIsFollowedThereAndBackOnTheSameDescriptor) {
  const auto store = follow(options());
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 4096, 5), 0);
  ASSERT_EQ(loop_.set_read_only(1), 0);
  EXPECT_TRUE(store->look().read_only);
  EXPECT_TRUE(store->geometry().read_only);
  EXPECT_EQ(shard.write(*store, 0, 4096, 6), EROFS);
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 0, 4096), EROFS);
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 5));
  ASSERT_EQ(loop_.set_read_only(0), 0);
  EXPECT_FALSE(store->look().read_only);
  EXPECT_EQ(shard.write(*store, 0, 4096, 6), 0);
  EXPECT_EQ(store->report().generation, 1U);
  EXPECT_EQ(changes(), 2U);
}

TEST_F(Followed, WriteThatFindsTheDeviceReadOnlyIsErofs) {
  const auto store = follow(options());
  Io write(IoKind::write, 0, 4096);
  submit(*store, write);
  ASSERT_EQ(loop_.set_read_only(1), 0);
  engine_.complete(EPERM);  // what a zvol says
  await(write);
  EXPECT_EQ(write.request.error, EROFS);
  EXPECT_TRUE(store->report().read_only);
}

TEST_F(Followed, DeviceThatWasReadOnlyFromTheStartIsServedSoAndBecomesWritable) {
  ASSERT_EQ(loop_.set_read_only(1), 0);
  const auto store = follow(options());
  EXPECT_EQ(store->report().presence, Presence::present) << store->report().reason;
  EXPECT_TRUE(store->report().read_only);
  Shard shard;
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 0));
  EXPECT_EQ(shard.write(*store, 0, 4096, 1), EROFS);
  EXPECT_EQ(shard.plain(*store, IoKind::flush), 0);
  ASSERT_EQ(loop_.set_read_only(0), 0);
  EXPECT_FALSE(store->look().read_only);
  EXPECT_EQ(shard.write(*store, 0, 4096, 1), 0);
}

TEST_F(Followed, ReadOnlyVolumeIsNeverWritable) {
  FollowOptions with = options();
  with.read_only = true;
  const auto store = follow(std::move(with));
  EXPECT_TRUE(store->look().read_only);
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 4096, 1), EROFS);
}

TEST_F(Followed, EdgeOfAnUnmapIsTriedOnceMoreAfterEnospc) {
  FollowOptions with = options();
  with.space_wait = std::chrono::milliseconds(20);
  const auto store = follow(std::move(with));
  Io zero(IoKind::write_zeroes, 4096, 4096);
  zero.request.spare_holes = true;
  ASSERT_EQ(submit(*store, zero), Submitted::pending);
  engine_.complete(ENOSPC);
  EXPECT_FALSE(zero.completed);
  while (engine_.calls.empty()) ASSERT_TRUE(engine_.turn());
  EXPECT_FALSE(zero.completed);
  engine_.complete(0);
  EXPECT_TRUE(zero.completed);
  EXPECT_EQ(zero.request.error, 0);
  EXPECT_EQ(store->counters().space_retries, 1U);
  ASSERT_EQ(submit(*store, zero), Submitted::pending);
  engine_.complete(ENOSPC);
  while (engine_.calls.empty()) ASSERT_TRUE(engine_.turn());
  engine_.complete(ENOSPC);
  await(zero);
  EXPECT_EQ(zero.request.error, ENOSPC);
  EXPECT_EQ(engine_.in_flight(), 0U);
}

TEST_F(Followed, OtherWritesAreNotTriedAgainAfterEnospc) {
  const auto store = follow(options());
  Io write(IoKind::write, 4096, 4096);
  submit(*store, write);
  engine_.complete(ENOSPC);
  await(write);
  EXPECT_EQ(write.request.error, ENOSPC);
}

TEST_F(Followed, DeviceMayComeBackWithOtherBlocks) {
  const LoopDevice large(dir_.file("large", 16 * kMiB), 4096);
  NEEDS(large);
  const auto store = follow(options());
  const Geometry& before = store->geometry();
  there_ = false;
  store->look();
  path_ = large.path();
  there_ = true;
  store->look();
  EXPECT_EQ(store->geometry().logical_block, 4096U);
  EXPECT_EQ(before.logical_block, 512U);
  EXPECT_EQ(store->size_bytes(), 16 * kMiB);
  Shard shard;
  EXPECT_EQ(shard.write(*store, 512, 512, 2), 0);
  EXPECT_EQ(store->counters().rmw, 1U);
  there_ = false;
  store->look();
  EXPECT_EQ(store->counters().rmw, 1U);  // counted over all openings
}

TEST_F(Followed, ReadModifyWriteInFlightEndsOnTheDeviceThatItBeganOn) {
  const LoopDevice large(dir_.file("large", 16 * kMiB), 4096);
  NEEDS(large);
  path_ = large.path();
  const auto store = follow(options());
  Io write(IoKind::write, 512, 512);
  ASSERT_EQ(submit(*store, write), Submitted::pending);
  there_ = false;
  EXPECT_EQ(store->look().presence, Presence::gone);
  there_ = true;
  engine_.complete();  // the read of the block
  ASSERT_EQ(engine_.calls.size(), 1U);
  EXPECT_EQ(store->look().presence, Presence::gone);
  engine_.complete();
  EXPECT_TRUE(write.completed);
  EXPECT_EQ(store->look().presence, Presence::present);
}

TEST(FollowedStore, NothingToLocateWithIsAnError) {
  EXPECT_EQ(follow_device({.name = "x"}).error().code, EINVAL);
}

}  // namespace
}  // namespace zvolt::backing
