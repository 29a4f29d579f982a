// Writes of one burst that follow each other reach the kernel as one; when that fails each is done by itself.
#include <fcntl.h>

#include "loop_device.h"
#include "support.h"

namespace zvolt::backing {
namespace {

class Merge : public testing::Test {
 protected:
  void SetUp() override {
    if (shard_.engine().description().find("io_uring (") == std::string::npos) {
      GTEST_SKIP() << "merging is the ring's: " << shard_.engine().description();
    }
    fd_ = open(dir_.file("data", 4 * kMiB).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { close(fd_); }

  void queue(uint64_t offset, uint64_t length, int fd = -1) {
    burst_.push_back(std::make_unique<Io>(IoKind::write, offset, length));
    Io& io = burst_.back()->fill(static_cast<uint8_t>(burst_.size()));
    shard_.engine().queue(io.request, fd < 0 ? fd_ : fd);
  }
  void finish() {
    for (auto& io : burst_) shard_.finish(*io);
    EXPECT_EQ(shard_.engine().in_flight(), 0U);
  }
  // "1" for each write that went as part of a larger one.
  std::string merged() const {
    std::string text;
    for (const auto& io : burst_) text += io->request.merged ? '1' : '0';
    return text;
  }
  void expect_data(int fd) const {
    for (size_t i = 0; i < burst_.size(); ++i) {
      const IoRequest& request = burst_[i]->request;
      std::vector<uint8_t> data(request.length);
      ASSERT_EQ(pread(fd, data.data(), data.size(), static_cast<off_t>(request.offset)),
                static_cast<ssize_t>(data.size()));
      EXPECT_EQ(data, std::vector<uint8_t>(request.length, static_cast<uint8_t>(i + 1))) << i;
    }
  }

  TempDir dir_;
  Shard shard_;
  int fd_ = -1;
  std::vector<std::unique_ptr<Io>> burst_;
};

TEST_F(Merge, NeighboursInABurstGoAsOne) {
  for (uint64_t i = 0; i < 8; ++i) queue(65536 + i * 4096, 4096);
  finish();
  EXPECT_EQ(merged(), "11111111");
  expect_data(fd_);
}

TEST_F(Merge, StrangersGoAlone) {
  queue(0, 4096);
  queue(8192, 4096);
  queue(4096, 4096);  // before, not after
  queue(65536, 4096);
  finish();
  EXPECT_EQ(merged(), "0000");
  expect_data(fd_);
}

TEST_F(Merge, RunsInOneBurstAreSeparate) {
  queue(0, 4096);
  queue(4096, 8192);
  queue(kMiB, 4096);
  queue(kMiB + 4096, 4096);
  queue(3 * kMiB, 4096);
  finish();
  EXPECT_EQ(merged(), "11110");
  expect_data(fd_);
}

TEST_F(Merge, OtherDescriptorIsNoNeighbour) {
  const int other = open(dir_.file("other", kMiB).c_str(), O_RDWR | O_CLOEXEC);
  queue(0, 4096);
  queue(4096, 4096, other);
  finish();
  EXPECT_EQ(merged(), "00");
  close(other);
}

TEST_F(Merge, BurstsAreNotHeldBackForEachOther) {
  queue(0, 4096);
  shard_.engine().flush();
  queue(4096, 4096);
  finish();
  EXPECT_EQ(merged(), "00");
}

TEST_F(Merge, RunEndsAtItsLimitsAndNothingIsLost) {
  for (uint64_t i = 0; i < 300; ++i) queue(i * 4096, 4096);               // 64 parts, 256 KiB at a time
  for (uint64_t i = 0; i < 4; ++i) queue(2 * kMiB + i * 131072, 131072);  // not small
  finish();
  EXPECT_EQ(merged(), std::string(300, '1') + "0000");
  expect_data(fd_);
}

TEST_F(Merge, LimitedReapLeavesTheRestForTheNext) {
  for (uint64_t i = 0; i < 8; ++i) queue(i * 4096, 4096);
  shard_.engine().flush();
  size_t turns = 0;
  while (shard_.engine().in_flight() > 0) {
    pollfd waiting{shard_.engine().wait_fd(), POLLIN, 0};
    int ready;
    do {
      ready = poll(&waiting, 1, 20000);
    } while (ready < 0 && errno == EINTR);
    ASSERT_EQ(ready, 1);
    const size_t before = shard_.engine().in_flight();
    shard_.engine().reap(2);
    EXPECT_LE(before - shard_.engine().in_flight(), 2U);
    ++turns;
  }
  EXPECT_GE(turns, 4U);
}

TEST_F(Merge, FailedRunFailsEachByItself) {
  const int read_only = open(dir_.path("data").c_str(), O_RDONLY | O_CLOEXEC);
  for (uint64_t i = 0; i < 4; ++i) queue(i * 4096, 4096, read_only);
  finish();
  for (const auto& io : burst_) EXPECT_EQ(io->request.error, EBADF);
  EXPECT_EQ(merged(), "0000");
  close(read_only);
}

TEST_F(Merge, WritesBeforeTheEndOfADeviceSucceedThoughTheirRunCrossesIt) {
  const LoopDevice loop(dir_.file("disk", kMiB), 512);
  NEEDS(loop);
  const int fd = open(loop.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  queue(kMiB - 8192, 4096, fd);
  queue(kMiB - 4096, 4096, fd);
  queue(kMiB, 4096, fd);
  finish();
  EXPECT_EQ(burst_[0]->request.error, 0);
  EXPECT_EQ(burst_[1]->request.error, 0);
  EXPECT_EQ(burst_[2]->request.error, ENOSPC);
  close(fd);
}

TEST_F(Merge, StoreCountsThem) {
  const LoopDevice loop(dir_.file("disk", kMiB), 512);
  NEEDS(loop);
  const auto store = must(open_device({.path = loop.path()}));
  for (uint64_t i = 0; i < 6; ++i) {
    burst_.push_back(std::make_unique<Io>(IoKind::write, i * 4096, 4096));
    shard_.submit(*store, burst_.back()->fill(1).fua());
  }
  finish();
  EXPECT_EQ(store->counters().merged_writes, 6U);
  EXPECT_TRUE(shard_.reads(*store, 0, 6 * 4096, 1));
}

}  // namespace
}  // namespace zvolt::backing
