// FileStore on tmpfs and on the disk behind the temporary directory: every kind of request, and what cannot be opened.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <thread>

#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

enum class Place { tmpfs, direct, buffered };

std::string directory_of(Place place) {
  return place == Place::tmpfs ? "/dev/shm" : std::filesystem::temp_directory_path().string();
}

class FileStore : public testing::TestWithParam<std::tuple<Place, bool>> {
 protected:
  static Place place() { return std::get<0>(GetParam()); }
  void SetUp() override {
    if (place() == Place::tmpfs && access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm is not writable here";
    store_ = must(open_file(options(dir_.file("disk", kMiB))));
    ASSERT_NE(store_, nullptr);
  }
  FileOptions options(const std::string& path) const {
    FileOptions options;
    options.path = path;
    options.allow_direct = place() != Place::buffered;
    return options;
  }

  TempDir dir_{directory_of(place())};
  Shard shard_{std::get<1>(GetParam())};
  std::shared_ptr<BlockStore> store_;
};

TEST_P(FileStore, WhatWasWrittenIsReadBackAlsoAfterReopening) {
  EXPECT_EQ(shard_.write(*store_, 8192, 65536, 0xa5), 0);
  EXPECT_TRUE(shard_.reads(*store_, 8192, 65536, 0xa5));
  EXPECT_TRUE(shard_.reads(*store_, 0, 8192, 0));
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  store_.reset();
  store_ = must(open_file(options(dir_.path("disk"))));
  EXPECT_TRUE(shard_.reads(*store_, 8192, 65536, 0xa5));
}

TEST_P(FileStore, AnyByteRangeCanBeWrittenAndReadAndNeighboursStay) {
  EXPECT_EQ(shard_.write(*store_, 0, 16384, 1), 0);
  EXPECT_EQ(shard_.write(*store_, 5000, 200, 2), 0);    // within a block
  EXPECT_EQ(shard_.write(*store_, 8100, 184, 3), 0);    // over a border
  EXPECT_EQ(shard_.write(*store_, 10001, 6000, 4), 0);  // two edges and whole blocks
  EXPECT_TRUE(shard_.reads(*store_, 0, 5000, 1));
  EXPECT_TRUE(shard_.reads(*store_, 5000, 200, 2));
  EXPECT_TRUE(shard_.reads(*store_, 5200, 2900, 1));
  EXPECT_TRUE(shard_.reads(*store_, 8100, 184, 3));
  EXPECT_TRUE(shard_.reads(*store_, 8284, 1717, 1));
  EXPECT_TRUE(shard_.reads(*store_, 10001, 6000, 4));
  EXPECT_TRUE(shard_.reads(*store_, 16001, 383, 1));
}

TEST_P(FileStore, MemoryNeedNotBeAligned) {
  Io out(IoKind::write, 4096, 8192, 3);
  EXPECT_EQ(shard_.run(*store_, out.fill(9)), 0);
  Io in(IoKind::read, 4096, 8192, 5);
  EXPECT_EQ(shard_.run(*store_, in), 0);
  EXPECT_TRUE(in.holds(9));
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 0));
}

TEST_P(FileStore, UnalignedWriteWithFuaSucceeds) {
  EXPECT_EQ(shard_.write(*store_, 100, 200, 5, true), 0);
  EXPECT_TRUE(shard_.reads(*store_, 100, 200, 5));
}

TEST_P(FileStore, RequestBeyondTheEndIsEinval) {
  EXPECT_EQ(shard_.plain(*store_, IoKind::read, kMiB - 4096, 8192), EINVAL);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write, kMiB, 512), EINVAL);
  EXPECT_EQ(shard_.plain(*store_, IoKind::discard, UINT64_MAX - 100, 4096), EINVAL);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 4096, UINT64_MAX - 100), EINVAL);
  EXPECT_EQ(shard_.plain(*store_, IoKind::read, kMiB, 0), 0);
}

TEST_P(FileStore, ZeroedRangeReadsAsZerosToTheByte) {
  EXPECT_EQ(shard_.write(*store_, 0, 65536, 7), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 4096, 8192), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 20000, 10000), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 40000, 10), 0);
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 7));
  EXPECT_TRUE(shard_.reads(*store_, 4096, 8192, 0));
  EXPECT_TRUE(shard_.reads(*store_, 12288, 7712, 7));
  EXPECT_TRUE(shard_.reads(*store_, 20000, 10000, 0));
  EXPECT_TRUE(shard_.reads(*store_, 30000, 10000, 7));
  EXPECT_TRUE(shard_.reads(*store_, 40000, 10, 0));
  EXPECT_TRUE(shard_.reads(*store_, 40010, 25526, 7));
}

TEST_P(FileStore, DiscardChangesWholeGranulesOnly) {
  const uint64_t unit = store_->geometry().discard_granularity;
  ASSERT_GT(unit, 0U);
  EXPECT_TRUE(store_->geometry().discard_zeroes);
  EXPECT_EQ(shard_.write(*store_, 0, 8 * unit, 7), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::discard, unit - 512, 2 * unit), 0);
  EXPECT_TRUE(shard_.reads(*store_, 0, unit, 7));
  EXPECT_TRUE(shard_.reads(*store_, unit, unit, 0));
  EXPECT_TRUE(shard_.reads(*store_, 2 * unit, 6 * unit, 7));
  EXPECT_EQ(shard_.plain(*store_, IoKind::discard, 4 * unit + 1, unit), 0);  // no whole granule
  EXPECT_TRUE(shard_.reads(*store_, 4 * unit, 4 * unit, 7));
}

TEST_P(FileStore, AllocationStatusTellsHolesFromData) {
  EXPECT_EQ(shard_.write(*store_, 65536, 65536, 1), 0);
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  Io hole(IoKind::allocation_status, 0, kMiB);
  EXPECT_EQ(shard_.run(*store_, hole), 0);
  EXPECT_FALSE(hole.request.mapped);
  EXPECT_EQ(hole.request.extent_length, 65536U);
  Io data(IoKind::allocation_status, 65536, kMiB - 65536);
  EXPECT_EQ(shard_.run(*store_, data), 0);
  EXPECT_TRUE(data.request.mapped);
  EXPECT_EQ(data.request.extent_length, 65536U);
  Io tail(IoKind::allocation_status, 131072, kMiB - 131072);
  EXPECT_EQ(shard_.run(*store_, tail), 0);
  EXPECT_FALSE(tail.request.mapped);
  EXPECT_EQ(tail.request.extent_length, kMiB - 131072);
}

TEST_P(FileStore, ReadOnlyStoreReadsAndRefusesEveryChange) {
  EXPECT_EQ(shard_.write(*store_, 0, 4096, 3), 0);
  store_.reset();
  FileOptions read_only = options(dir_.path("disk"));
  read_only.read_only = true;
  store_ = must(open_file(read_only));
  EXPECT_TRUE(store_->geometry().read_only);
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 3));
  EXPECT_EQ(shard_.write(*store_, 0, 4096, 4), EROFS);
  EXPECT_EQ(shard_.write(*store_, 10, 20, 4), EROFS);
  EXPECT_EQ(shard_.plain(*store_, IoKind::write_zeroes, 0, 4096), EROFS);
  EXPECT_EQ(shard_.plain(*store_, IoKind::discard, 0, 4096), EROFS);
  EXPECT_EQ(shard_.plain(*store_, IoKind::flush), 0);
  EXPECT_TRUE(shard_.reads(*store_, 0, 4096, 3));
  const auto second = open_file(read_only);  // readers share
  EXPECT_TRUE(second.ok());
}

TEST_P(FileStore, SizeThatIsNoMultipleOfTheBlockIsReportedToTheByte) {
  const auto odd = must(open_file(options(dir_.file("odd", 1000001))));
  EXPECT_EQ(odd->size_bytes(), 1000001U);
  EXPECT_EQ(shard_.write(*odd, 999936, 65, 6), 0);
  EXPECT_TRUE(shard_.reads(*odd, 999936, 65, 6));
  EXPECT_EQ(shard_.plain(*odd, IoKind::write, 999936, 66), EINVAL);
  EXPECT_EQ(std::filesystem::file_size(dir_.path("odd")), 1000001U);
}

TEST_P(FileStore, GrownFileIsSeenByRefreshAndAnnounced) {
  uint64_t announced = 0;
  store_->on_resize([&](uint64_t size) { announced = size; });
  std::filesystem::resize_file(dir_.path("disk"), 2 * kMiB);
  const Result<uint64_t> size = store_->refresh_size();
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(*size, 2 * kMiB);
  EXPECT_EQ(store_->size_bytes(), 2 * kMiB);
  EXPECT_EQ(announced, 2 * kMiB);
  EXPECT_EQ(shard_.write(*store_, kMiB, 4096, 1), 0);
}

TEST_P(FileStore, FileCutShortUnderTheStoreIsEioNotZeros) {
  std::filesystem::resize_file(dir_.path("disk"), 65536);
  Io in(IoKind::read, 61440, 8192);
  EXPECT_EQ(shard_.run(*store_, in), EIO);
  EXPECT_EQ(in.request.error_offset, 65536U);
}

TEST_P(FileStore, SecondOpenIsRefusedAndNamesTheHolder) {
  FileOptions again = options(dir_.path("disk"));
  again.busy_wait = std::chrono::milliseconds(0);
  const auto second = open_file(again);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
  EXPECT_NE(second.error().message.find("process " + std::to_string(getpid())), std::string::npos)
      << second.error().message;
}

std::string place_name(const testing::TestParamInfo<std::tuple<Place, bool>>& info) {
  static constexpr const char* kPlaces[] = {"Tmpfs", "Direct", "Buffered"};
  return std::string(kPlaces[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) ? "Uring" : "Threads");
}

INSTANTIATE_TEST_SUITE_P(Places, FileStore,
                         testing::Combine(testing::Values(Place::tmpfs, Place::direct, Place::buffered),
                                          testing::Bool()),
                         place_name);

TEST(FileStoreOpen, BusyFileIsWaitedForUntilItsHolderIsGone) {
  const TempDir dir;
  const std::string path = dir.file("disk", kMiB);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {  // an old daemon that was killed: its lock stands until it is really gone
    const int fd = open(path.c_str(), O_RDWR);
    flock(fd, LOCK_EX);
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  FileOptions at_once{.path = path, .busy_wait = std::chrono::milliseconds(0)};
  EXPECT_EQ(open_file(at_once).error().code, EBUSY);
  std::thread killer([holder] { kill(holder, SIGKILL); });
  const auto store = open_file({.path = path, .busy_wait = std::chrono::seconds(20)});
  EXPECT_TRUE(store.ok());
  killer.join();
  waitpid(holder, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(FileStoreOpen, MissingFileIsAnErrorThatNamesIt) {
  const TempDir dir;
  const auto store = open_file({.path = dir.path("nothing")});
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ENOENT);
  EXPECT_NE(store.error().message.find(dir.path("nothing")), std::string::npos);
}

TEST(FileStoreOpen, DirectoryFifoAndEmptyFileAreRefused) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("dir"));
  mkfifo(dir.path("fifo").c_str(), 0600);
  EXPECT_NE(open_file({.path = dir.path("dir")}).error().message.find("is a directory"), std::string::npos);
  EXPECT_NE(open_file({.path = dir.path("dir"), .read_only = true}).error().message.find("is a directory"),
            std::string::npos);
  EXPECT_NE(open_file({.path = dir.path("fifo")}).error().message.find("not a regular file"), std::string::npos);
  EXPECT_NE(open_file({.path = dir.file("empty", 0)}).error().message.find("is empty"), std::string::npos);
}

TEST(FileStoreOpen, ProvisionCreatesASparseFileAndKeepsAnExistingOne) {
  const TempDir dir;
  const std::string path = dir.path("new");
  {
    const auto store = must(open_file({.path = path, .provision_size = 64 * kMiB}));
    EXPECT_EQ(store->size_bytes(), 64 * kMiB);
  }
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_LT(st.st_blocks, 100);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
  const auto again = must(open_file({.path = path, .provision_size = kMiB}));
  EXPECT_EQ(again->size_bytes(), 64 * kMiB);
}

TEST(FileStoreOpen, ProvisionInAMissingDirectoryIsAnError) {
  const auto store = open_file({.path = "/nonexistent/dir/disk", .provision_size = kMiB});
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ENOENT);
}

TEST(FileStoreWays, TmpfsTransfersAreDoneInPlaceAndNeverReachTheEngine) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm is not writable here";
  const TempDir dir("/dev/shm");
  const auto store = must(open_file({.path = dir.file("disk", kMiB)}));
  MockEngine engine;
  Io out(IoKind::write, 100, 4096);
  Io in(IoKind::read, 100, 4096);
  Io flush(IoKind::flush, 0, 0);
  EXPECT_EQ(store->submit(out.fill(8).fua().request, engine), Submitted::done);
  EXPECT_EQ(store->submit(in.request, engine), Submitted::done);
  EXPECT_EQ(store->submit(flush.request, engine), Submitted::done);
  EXPECT_TRUE(in.holds(8));
  EXPECT_TRUE(engine.calls.empty());
  EXPECT_NE(store->describe().find("in place"), std::string::npos);
}

TEST(FileStoreWays, RangeOperationsNeverRunOnTheShardsThread) {
  const TempDir dir;
  const auto store = must(open_file({.path = dir.file("disk", kMiB)}));
  for (const IoKind kind : {IoKind::write_zeroes, IoKind::discard, IoKind::allocation_status}) {
    MockEngine engine;
    Io io(kind, 0, 65536);
    EXPECT_EQ(store->submit(io.request, engine), Submitted::pending);
    ASSERT_EQ(engine.calls.size(), 1U);
    EXPECT_NE(engine.calls.front().work, nullptr);
    engine.complete();
    EXPECT_EQ(io.request.error, 0);
    EXPECT_TRUE(io.completed);
  }
}

TEST(FileStoreWays, BufferedReadOfWhatIsCachedIsDoneInPlace) {
  const TempDir dir;
  const auto store = must(open_file({.path = dir.file("disk", kMiB), .allow_direct = false}));
  if (store->describe().find("buffered") == std::string::npos) GTEST_SKIP() << "the temporary directory is on tmpfs";
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 65536, 4), 0);
  MockEngine engine;
  Io in(IoKind::read, 4096, 4096);
  if (store->submit(in.request, engine) == Submitted::pending) {
    engine.complete(0);
    GTEST_SKIP() << "this file system does not answer RWF_NOWAIT";
  }
  EXPECT_TRUE(in.holds(4));
}

}  // namespace
}  // namespace zvolt::backing
