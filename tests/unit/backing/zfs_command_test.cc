// run_child and Zfs against the fake zfs: what is asked, what is made, and commands that hang, flood or are missing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "backing/zfs/child.h"
#include "backing/zfs/zfs.h"
#include "tests/unit/backing/fake_pool.h"

namespace zvolt::backing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakePool;

milliseconds time_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
}

TEST(Child, OutputErrorsAndStatusComeBack) {
  const auto result = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->status, 3);
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
}

TEST(Child, ArgumentsAreNotReadByAShell) {
  const auto result = run_child({"printf", "%s|", "a b", "$HOME;`id`", "*", ""});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out, "a b|$HOME;`id`|*||");
}

TEST(Child, SpeaksEnglishAndReadsNothing) {
  const auto result = run_child({"sh", "-c", "echo $LC_ALL$LANG; cat"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out, "C\n");
}

TEST(Child, InheritsNoDescriptor) {
  const int fd = dup(STDERR_FILENO);  // without O_CLOEXEC
  const auto result = run_child({"sh", "-c", "ls /proc/$$/fd"});
  close(fd);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out.find(std::to_string(fd) + "\n"), std::string::npos) << result->out;
}

TEST(Child, AMissingCommandIsNotInstalled) {
  for (const char* name : {"zvolt-no-such-command", "/no/such/command"}) {
    const auto result = run_child({name});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ENOSYS);
  }
}

TEST(Child, ADeathBySignalIsItsStatus) {
  const auto result = run_child({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->status, 128 + SIGKILL);
}

TEST(Child, AHangIsEndedAtTheDeadline) {
  Result<ChildResult> result = Error{};
  const milliseconds took = time_of([&] { result = run_child({"sleep", "1000"}, {.deadline = milliseconds(100)}); });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ETIMEDOUT);
  EXPECT_LT(took, seconds(10));
  EXPECT_EQ(abandoned_children(), 0u);
}

TEST(Child, WhatACommandLeavesRunningIsNotWaitedFor) {
  Result<ChildResult> result = Error{};
  const milliseconds took = time_of([&] {
    result = run_child({"sh", "-c", "echo done; sleep 20 & exit 0"}, {.deadline = seconds(15)});
  });
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->out, "done\n");
  EXPECT_LT(took, seconds(10));
}

TEST(Child, AFloodIsCutOff) {
  const auto result = run_child({"cat", "/dev/zero"}, {.deadline = seconds(20), .output = 1 << 20});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, EOVERFLOW);
}

TEST(Child, AFloodOfErrorsIsReadAndDropped) {
  const auto result = run_child({"sh", "-c", "head -c 300000 /dev/zero >&2; echo done"}, {.deadline = seconds(20)});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->out, "done\n");
  EXPECT_EQ(result->err.size(), kMaxErrorText);
}

TEST(Child, AnArgumentWithANulByteIsRefused) {
  EXPECT_EQ(run_child({"echo", std::string("a\0b", 3)}).error().code, EINVAL);
}

TEST(DatasetName, OnlyWhatZfsTakesIsTaken) {
  EXPECT_EQ(bad_dataset_name("tank/vm/my disk-1_2.3:4"), "");
  EXPECT_EQ(bad_dataset_name("tank/vm@snap", true), "");
  EXPECT_EQ(bad_dataset_name("tank/" + std::string(250, 'a')), "");
  for (const std::string& name :
       {std::string(), std::string("-o"), std::string("/tank/a"), std::string("tank/"), std::string("tank//a"),
        std::string("tank/a@s"), std::string("tank/a#b"), std::string("tank/.."), std::string("1tank/a"),
        std::string("tank/\xc3\xa4"), std::string("tank/a\n"), std::string("tank/a\tb"),
        std::string("tank/") + std::string(251, 'a'), std::string("tank/a=b"), std::string("tank/$a"),
        std::string("tank/a\0b", 8)}) {
    EXPECT_NE(bad_dataset_name(name), "") << name;
  }
  EXPECT_NE(bad_dataset_name("tank/a", true), "");
  EXPECT_NE(bad_dataset_name("tank/a@b@c", true), "");
}

class ZfsCommand : public testing::Test {
 protected:
  Zfs zfs{FakePool::options()};
  FakePool pool;

  void create(const std::string& name, uint64_t size = 64 << 20) {
    const auto made = zfs.create({.name = name, .size = size});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
};

TEST_F(ZfsCommand, WhatIsMissingIsLeftOutOfAList) {
  create("tank/a");
  create("tank/b c");
  const auto all = zfs.list({"tank/no", "tank/b c", "nopool/x", "tank/a"});
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].name, "tank/a");
  EXPECT_EQ((*all)[1].name, "tank/b c");
}

TEST_F(ZfsCommand, NothingAskedRunsNothing) {
  const size_t before = pool.commands_run();
  ASSERT_TRUE(zfs.list({}).ok());
  EXPECT_EQ(pool.commands_run(), before);
}

TEST_F(ZfsCommand, FiveHundredNamesTakeThreeCommands) {
  create("tank/v499");
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("tank/v" + std::to_string(i));
  const size_t before = pool.commands_run();
  const auto all = zfs.list(names);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->size(), 1u);
  EXPECT_EQ(pool.commands_run() - before, 3u);
}

TEST_F(ZfsCommand, AFileSystemIsToldInAListAndRefusedByGet) {
  pool.zfs({"create", "tank/fs"});
  const auto all = zfs.list({"tank/fs"});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->at(0).problem, "is a filesystem, not a volume");
  const auto one = zfs.get("tank/fs");
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.error().code, EINVAL);
}

TEST_F(ZfsCommand, AMissingVolumeIsNoError) {
  const auto one = zfs.get("tank/no");
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_FALSE(one->has_value());
}

TEST_F(ZfsCommand, ASnapshotsNameIsRefusedBeforeAnythingRuns) {
  const size_t before = pool.commands_run();
  EXPECT_EQ(zfs.get("tank/a@s").error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "--help", .size = 1 << 20}).error().code, EINVAL);
  EXPECT_EQ(zfs.set("tank/a", "-r", "x").error().code, EINVAL);
  EXPECT_EQ(zfs.pool_state("-v").error().code, EINVAL);
  EXPECT_EQ(pool.commands_run(), before);
}

TEST_F(ZfsCommand, AVolumeIsCreatedWithItsProperties) {
  const auto made = zfs.create({.name = "tank/a",
                                .size = (64 << 20) + 1,
                                .volblocksize = 65536,
                                .properties = {{"sync", "always"}, {"compression", "lz4"}, {kUuidProperty, "u v=w"}}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(*made, (64u << 20) + 65536);
  const auto one = zfs.get("tank/a");
  ASSERT_TRUE(one.ok() && one->has_value());
  EXPECT_EQ((*one)->volsize, *made);
  EXPECT_EQ((*one)->volblocksize, 65536u);
  EXPECT_EQ((*one)->refreservation, 0u);
  EXPECT_EQ((*one)->sync, "always");
  EXPECT_EQ((*one)->compression, "lz4");
  EXPECT_EQ((*one)->uuid, "u v=w");
  struct stat st {};
  ASSERT_EQ(stat(pool.file("files/tank/a").c_str(), &st), 0);
  EXPECT_EQ(static_cast<uint64_t>(st.st_size), *made);
}

TEST_F(ZfsCommand, AVolumeThatIsNotSparseIsReserved) {
  ASSERT_TRUE(zfs.create({.name = "tank/a", .size = 64 << 20, .sparse = false}).ok());
  EXPECT_GE((*zfs.get("tank/a"))->refreservation, 64u << 20);
}

TEST_F(ZfsCommand, CreateSaysWhyNot) {
  create("tank/a");
  EXPECT_EQ(zfs.create({.name = "tank/a", .size = 1 << 20}).error().code, EEXIST);
  EXPECT_EQ(zfs.create({.name = "tank/no/a", .size = 1 << 20}).error().code, ENOENT);
  EXPECT_EQ(zfs.create({.name = "nopool/a", .size = 1 << 20}).error().code, ENOENT);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = uint64_t{8} << 30, .sparse = false}).error().code, ENOSPC);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = 1 << 20, .volblocksize = 1000}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = 0}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = UINT64_MAX}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank", .size = 1 << 20}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = 1 << 20, .properties = {{"volsize", "1G"}}}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = 1 << 20, .properties = {{"a=b", "1"}}}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/b", .size = 1 << 20, .properties = {{"nosuch", "1"}}}).error().code, EINVAL);
}

TEST_F(ZfsCommand, ACloneHasItsOriginsDataAndMayBeLarger) {
  create("tank/gold");
  pool.zfs({"snapshot", "tank/gold@1"});
  const auto same = zfs.create({.name = "tank/c1", .clone_from = "tank/gold@1"});
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(*same, 64u << 20);
  const auto larger =
      zfs.create({.name = "tank/c2", .size = (100 << 20) + 1, .sparse = false, .clone_from = "tank/gold@1"});
  ASSERT_TRUE(larger.ok()) << larger.error().message;
  EXPECT_EQ(*larger, (100u << 20) + 16384);
  const auto one = zfs.get("tank/c2");
  EXPECT_EQ((*one)->origin, "tank/gold@1");
  EXPECT_EQ((*one)->refreservation, *larger);
}

TEST_F(ZfsCommand, ACloneThatCannotBeIsRefusedBeforeItIsMade) {
  create("tank/gold");
  pool.zfs({"snapshot", "tank/gold@1"});
  pool.zfs({"create", "tank/fs"});
  pool.zfs({"snapshot", "tank/fs@1"});
  EXPECT_EQ(zfs.create({.name = "tank/c", .size = 1 << 20, .clone_from = "tank/gold@1"}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/c", .volblocksize = 4096, .clone_from = "tank/gold@1"}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/c", .clone_from = "tank/gold@2"}).error().code, ENOENT);
  EXPECT_EQ(zfs.create({.name = "tank/c", .clone_from = "tank/gold"}).error().code, EINVAL);
  EXPECT_EQ(zfs.create({.name = "tank/c", .clone_from = "tank/fs@1"}).error().code, EINVAL);
  EXPECT_FALSE(zfs.get("tank/c")->has_value());
}

TEST_F(ZfsCommand, ASizeIsRoundedUpToTheBlockSize) {
  create("tank/a");
  const auto size = zfs.set_volsize("tank/a", (64 << 20) + 1);
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(*size, (64u << 20) + 16384);
  EXPECT_EQ((*zfs.get("tank/a"))->volsize, *size);
}

TEST_F(ZfsCommand, TheSameSizeChangesNothing) {
  create("tank/a");
  const size_t before = pool.commands_run();
  ASSERT_TRUE(zfs.set_volsize("tank/a", (64 << 20) - 1).ok());
  EXPECT_EQ(pool.commands_run() - before, 1u);  // it was asked, and not set
}

TEST_F(ZfsCommand, ShrinkingIsRefusedUnlessAllowed) {
  create("tank/a");
  const auto refused = zfs.set_volsize("tank/a", 1 << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ((*zfs.get("tank/a"))->volsize, 64u << 20);
  EXPECT_TRUE(zfs.set_volsize("tank/a", 1 << 20, true).ok());
  EXPECT_EQ((*zfs.get("tank/a"))->volsize, 1u << 20);
}

TEST_F(ZfsCommand, ResizingWhatIsMissingSaysSo) {
  EXPECT_EQ(zfs.set_volsize("tank/no", 1 << 20).error().code, ENOENT);
  EXPECT_EQ(zfs.set_volsize("tank/no", 0).error().code, EINVAL);
  EXPECT_EQ(zfs.set("tank/no", "sync", "always").error().code, ENOENT);
}

TEST_F(ZfsCommand, APropertyIsSetAsItIsWritten) {
  create("tank/a");
  ASSERT_TRUE(zfs.set("tank/a", kUuidProperty, "a=b 'c' $d").ok());
  EXPECT_EQ((*zfs.get("tank/a"))->uuid, "a=b 'c' $d");
  EXPECT_EQ(zfs.set("tank/a", "sync", "perhaps").error().code, EINVAL);
}

TEST_F(ZfsCommand, AReadOnlyVolumeIsNotResized) {
  create("tank/a");
  ASSERT_TRUE(zfs.set("tank/a", "readonly", "on").ok());
  EXPECT_EQ(zfs.set_volsize("tank/a", 128 << 20).error().code, EROFS);
}

TEST_F(ZfsCommand, ThePoolsStateIsTold) {
  EXPECT_EQ(*zfs.pool_state("tank"), "ONLINE");
  pool.zpool({"fake-health", "tank", "SUSPENDED"});
  EXPECT_EQ(*zfs.pool_state("tank"), "SUSPENDED");
  pool.zpool({"export", "tank"});
  EXPECT_EQ(zfs.pool_state("tank").error().code, ENOENT);
  EXPECT_EQ(zfs.pool_state("nopool").error().code, ENOENT);
  EXPECT_EQ(zfs.pool_state("tank/a").error().code, EINVAL);
}

TEST_F(ZfsCommand, WhatAllNamesSufferFromIsAnError) {
  pool.fault(R"({"status": 1, "err": "cannot open 'tank/a': permission denied\n"})");
  EXPECT_EQ(zfs.list({"tank/a"}).error().code, EPERM);
  pool.fault(R"({"status": 1, "err": "The ZFS modules are not loaded.\nTry running '/sbin/modprobe zfs' as root.\n"})");
  EXPECT_EQ(zfs.get("tank/a").error().code, ENOSYS);
  pool.fault(R"({"status": 139})");
  EXPECT_EQ(zfs.get("tank/a").error().code, EIO);
  pool.fault(R"({"status": 0, "out": "what is this\n"})");
  EXPECT_EQ(zfs.get("tank/a").error().code, EPROTO);
  EXPECT_EQ(zfs.pool_state("tank").error().code, EPROTO);
  pool.fault(R"({"status": 0, "out": "tank/other\tname\ttank/other\t-\n"})");
  EXPECT_EQ(zfs.get("tank/a").error().code, EPROTO);
}

TEST_F(ZfsCommand, AHungCommandIsAnErrorInTime) {
  pool.fault(R"({"seconds": 600})");
  const Zfs quick(FakePool::options(milliseconds(200)));
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("tank/v" + std::to_string(i));
  EXPECT_LT(time_of([&] { EXPECT_EQ(quick.list(names).error().code, ETIMEDOUT); }), seconds(10));
  EXPECT_EQ(quick.pool_state("tank").error().code, ETIMEDOUT);
}

TEST_F(ZfsCommand, AMissingBinaryIsToldAsSuch) {
  const Zfs none({.command = "/no/zfs", .zpool_command = "/no/zpool"});
  EXPECT_EQ(none.get("tank/a").error().code, ENOSYS);
  EXPECT_EQ(none.pool_state("tank").error().code, ENOSYS);
}

TEST_F(ZfsCommand, ManyThreadsMayAskAtOnce) {
  create("tank/a");
  std::vector<std::jthread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto one = zfs.get("tank/a");
      if (one && one->has_value()) ++good;
    });
  }
  threads.clear();
  EXPECT_EQ(good, 8);
}

}  // namespace
}  // namespace zvolt::backing
