// DeviceStore on loop devices: geometry, 4096-byte sectors under byte ranges, who is refused. Needs root and free loop
// devices; without them each test says so and is skipped.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <thread>

#include "loop_device.h"
#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

DeviceOptions at(const LoopDevice& loop) {
  DeviceOptions options;
  options.path = loop.path();
  options.busy_wait = std::chrono::milliseconds(0);
  return options;
}

TEST(DeviceStore, GeometryIsTheDevices) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->size_bytes(), 8 * kMiB);
  EXPECT_EQ(store->geometry().logical_block, 4096U);
  EXPECT_EQ(store->geometry().io_alignment, 4096U);
  EXPECT_GE(store->geometry().physical_block, 4096U);
  EXPECT_GT(store->geometry().discard_granularity, 0U);
  EXPECT_FALSE(store->geometry().read_only);
  EXPECT_NE(store->describe().find(loop.path()), std::string::npos);
}

TEST(DeviceStore, SmallBlocksOverLargeSectorsKeepTheirNeighbours) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 16384, 1), 0);
  EXPECT_EQ(shard.write(*store, 512, 512, 2), 0);
  EXPECT_EQ(shard.write(*store, 3584, 1024, 3), 0);
  EXPECT_EQ(shard.write(*store, 7680, 8192, 4, true), 0);
  EXPECT_TRUE(shard.reads(*store, 0, 512, 1));
  EXPECT_TRUE(shard.reads(*store, 512, 512, 2));
  EXPECT_TRUE(shard.reads(*store, 1024, 2560, 1));
  EXPECT_TRUE(shard.reads(*store, 3584, 1024, 3));
  EXPECT_TRUE(shard.reads(*store, 4608, 3072, 1));
  EXPECT_TRUE(shard.reads(*store, 7680, 8192, 4));
  EXPECT_TRUE(shard.reads(*store, 15872, 512, 1));
}

TEST(DeviceStore, SmallBlocksFromTwoShardsAllArrive) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&store, t] {
      Shard shard;
      std::vector<std::unique_ptr<Io>> all;
      for (uint64_t block = t; block < 128; block += 2) {
        all.push_back(std::make_unique<Io>(IoKind::write, block * 512, 512));
        shard.submit(*store, all.back()->fill(static_cast<uint8_t>(block + 1)));
      }
      for (auto& io : all) shard.finish(*io);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Shard shard;
  for (uint64_t block = 0; block < 128; ++block) {
    ASSERT_TRUE(shard.reads(*store, block * 512, 512, static_cast<uint8_t>(block + 1))) << block;
  }
}

TEST(DeviceStore, ZeroesAreExactAndDiscardKeepsPartlyCoveredGranules) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 4096);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, kMiB, 1), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 512, 10000), 0);
  EXPECT_TRUE(shard.reads(*store, 0, 512, 1));
  EXPECT_TRUE(shard.reads(*store, 512, 10000, 0));
  EXPECT_TRUE(shard.reads(*store, 10512, 10000, 1));
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 20700, 5), 0);
  EXPECT_TRUE(shard.reads(*store, 20512, 188, 1));
  EXPECT_TRUE(shard.reads(*store, 20700, 5, 0));
  EXPECT_TRUE(shard.reads(*store, 20705, 1000, 1));
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 65536 + 512, 65536), 0);
  EXPECT_TRUE(shard.reads(*store, 65536, store->geometry().discard_granularity, 1));
  const uint64_t unit = store->geometry().discard_granularity;
  EXPECT_TRUE(store->geometry().discard_zeroes);  // a loop device has WRITE ZEROES
  EXPECT_TRUE(shard.reads(*store, 65536 + unit, 65536 - unit, 0));
  EXPECT_TRUE(shard.reads(*store, 131072, unit, 1));
  EXPECT_EQ(shard.plain(*store, IoKind::flush), 0);
}

TEST(DeviceStore, AllocationIsUnknownSoEverythingIsMapped) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 512);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  Shard shard;
  Io status(IoKind::allocation_status, 4096, kMiB);
  status.request.mapped = false;
  EXPECT_EQ(shard.run(*store, status), 0);
  EXPECT_TRUE(status.request.mapped);
  EXPECT_EQ(status.request.extent_length, kMiB);
}

TEST(DeviceStore, DeviceServedAlreadyIsRefused) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 512);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  const auto second = open_device(at(loop));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  EXPECT_NE(second.error().message.find("mounted or in use"), std::string::npos) << second.error().message;
}

TEST(DeviceStore, BusyDeviceIsWaitedFor) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 512);
  NEEDS(loop);
  auto store = must(open_device(at(loop)));
  DeviceOptions patient = at(loop);
  patient.busy_wait = std::chrono::seconds(20);
  std::thread old_process([&store] { store.reset(); });
  EXPECT_TRUE(open_device(patient).ok());
  old_process.join();
}

TEST(DeviceStore, MountedDeviceIsRefusedWithItsMountPoint) {
  const TempDir dir;
  const std::string image = dir.file("disk", 8 * kMiB);
  const LoopDevice loop(image, 512);
  NEEDS(loop);
  if (system(("mkfs.ext4 -q -F " + loop.path() + " > /dev/null 2>&1").c_str()) != 0) GTEST_SKIP() << "no mkfs.ext4";
  const std::string point = dir.path("mnt");
  std::filesystem::create_directory(point);
  if (mount(loop.path().c_str(), point.c_str(), "ext4", 0, "") != 0) {
    GTEST_SKIP() << "cannot mount here: " << strerror(errno);
  }
  DeviceOptions options = at(loop);
  options.busy_wait = std::chrono::minutes(10);  // what is mounted is not waited for
  const auto store = open_device(options);
  EXPECT_FALSE(store.ok());
  if (!store) {
    EXPECT_EQ(store.error().code, EBUSY);
    EXPECT_NE(store.error().message.find("is mounted at " + point), std::string::npos) << store.error().message;
  }
  EXPECT_EQ(umount(point.c_str()), 0);
  EXPECT_TRUE(open_device(at(loop)).ok());
}

TEST(DeviceStore, ReadOnlyDeviceIsServedReadOnly) {
  const TempDir dir;
  const LoopDevice loop(dir.file("disk", 8 * kMiB), 512, true);
  NEEDS(loop);
  DeviceOptions options = at(loop);
  options.read_only = true;
  const auto store = must(open_device(options));
  ASSERT_NE(store, nullptr);
  Shard shard;
  EXPECT_TRUE(store->geometry().read_only);
  EXPECT_TRUE(shard.reads(*store, 0, 4096, 0));
  EXPECT_EQ(shard.write(*store, 0, 512, 1), EROFS);
}

TEST(DeviceStore, GrownDeviceIsSeenByRefresh) {
  const TempDir dir;
  const std::string image = dir.file("disk", 8 * kMiB);
  const LoopDevice loop(image, 512);
  NEEDS(loop);
  const auto store = must(open_device(at(loop)));
  std::filesystem::resize_file(image, 16 * kMiB);
  ASSERT_EQ(ioctl(loop.fd(), LOOP_SET_CAPACITY, 0), 0);
  EXPECT_EQ(*store->refresh_size(), 16 * kMiB);
  EXPECT_EQ(store->size_bytes(), 16 * kMiB);
}

TEST(DeviceStore, WhatIsNoBlockDeviceIsRefused) {
  const TempDir dir;
  EXPECT_EQ(open_device({.path = dir.path("nothing")}).error().code, ENOENT);
  EXPECT_NE(open_device({.path = dir.file("file", kMiB)}).error().message.find("not a block device"),
            std::string::npos);
  EXPECT_NE(open_device({.path = "/dev/null"}).error().message.find("not a block device"), std::string::npos);
}

}  // namespace
}  // namespace zvolt::backing
