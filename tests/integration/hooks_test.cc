// tools/hooks: the scripts for sanoid, zrepl and syncoid, called as those call them, against a daemon with a journalled
// zvol (root only: loop devices).
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/integration/journalled_zvols.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kBytes = 4096;

class Hooks : public JournalledZvols {
 protected:
  void SetUp() override {
    JournalledZvols::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    set_journal(", max_dirty_age: 600s");
    serve();
    ASSERT_TRUE(becomes("a", "serving"));
  }
  // A script of tools/hooks, with zvoltctl, and what lies in the test's folder `bin`, in its path.
  CommandResult hook(const std::string& name, const std::vector<std::string>& environment,
                     const std::vector<std::string>& arguments = {}) {
    const std::string programs = std::filesystem::path(program("zvoltctl")).parent_path();
    std::vector<std::string> all = {"env", "PATH=" + path("bin") + ":" + programs + ":/usr/bin:/bin",
                                    "ZVOLT_SOCKET=" + daemon_.admin_socket(), "ZVOLT_HOOK_DIR=" + path("hooks")};
    all.insert(all.end(), daemon_.config().environment.begin(), daemon_.config().environment.end());
    all.insert(all.end(), environment.begin(), environment.end());
    all.push_back(std::string(ZVOLT_HOOKS) + "/" + name);
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_command(all);
  }
  // `before`, a snapshot as the tool makes it, `after`: what was written is in it, what a host sends meanwhile is not.
  void snapshot_between(const std::function<CommandResult()>& before, const std::function<CommandResult()>& after) {
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, pattern(kBytes, 1)).good());
    const CommandResult held = before();
    ASSERT_EQ(held.status, 0) << held.output;
    std::atomic<int> written{0};
    std::thread writing([&] { written = session.write(0, pattern(kBytes, 2)).good() ? 1 : -1; });
    zfs({"snapshot", "tank/a@tool"});
    EXPECT_EQ(written, 0);
    EXPECT_EQ(in_pool("a@tool", 0, kBytes), pattern(kBytes, 1));
    const CommandResult done = after();
    EXPECT_EQ(done.status, 0) << done.output;
    writing.join();
    EXPECT_EQ(written, 1);
    EXPECT_TRUE(std::filesystem::is_empty(path("hooks")));
  }
};

TEST_F(Hooks, SanoidHoldsWritesAroundItsSnapshots) {
  const auto script = [&](const std::string& which) {
    return hook("sanoid", {"SANOID_SCRIPT=" + which, "SANOID_TARGETS=tank/other,tank/a", "SANOID_SNAPNAMES=tool"});
  };
  snapshot_between([&] { return script("pre"); }, [&] { return script("post"); });
  EXPECT_EQ(hook("sanoid", {"SANOID_SCRIPT=prune", "SANOID_TARGETS=tank/a"}).status, 0) << "none of its business";
}

TEST_F(Hooks, ZreplHoldsWritesAroundItsSnapshot) {
  const auto script = [&](const std::string& which) {
    return hook("zrepl", {"ZREPL_HOOKTYPE=" + which, "ZREPL_FS=tank/a", "ZREPL_SNAPNAME=tool", "ZREPL_DRYRUN="});
  };
  snapshot_between([&] { return script("pre_snapshot"); }, [&] { return script("post_snapshot"); });
  EXPECT_EQ(hook("zrepl", {"ZREPL_HOOKTYPE=pre_snapshot", "ZREPL_FS=tank/a", "ZREPL_DRYRUN=true"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(path("hooks"))) << "a dry run holds nothing";
}

TEST_F(Hooks, DatasetsThatAreNotServedAreLetThrough) {
  for (const char* which : {"pre", "post"}) {
    const CommandResult result =
        hook("sanoid", {std::string("SANOID_SCRIPT=") + which, "SANOID_TARGETS=tank/elsewhere"});
    EXPECT_EQ(result.status, 0) << result.output;
  }
}

TEST_F(Hooks, SnapshotThatOutlastsTheHoldIsToldOf) {
  const auto script = [&](const std::string& which) {
    return hook("zrepl", {"ZREPL_HOOKTYPE=" + which, "ZREPL_FS=tank/a", "ZREPL_SNAPNAME=x", "ZVOLT_HOLD_SECONDS=1"});
  };
  ASSERT_EQ(script("pre_snapshot").status, 0);
  LibiscsiSession session = opened(0);
  ASSERT_TRUE(session.write(0, pattern(kBytes, 3)).good()) << "waits for the end of the hold";
  const CommandResult late = script("post_snapshot");
  EXPECT_EQ(late.status, 1);
  EXPECT_NE(late.output.find("snapshot x of tank/a is not consistent"), std::string::npos) << late.output;
  EXPECT_EQ(script("post_snapshot").status, 1) << "nothing was held";
}

TEST_F(Hooks, NoHoldMeansNoSnapshot) {
  ASSERT_EQ(daemon_.terminate(), 0);
  EXPECT_NE(hook("sanoid", {"SANOID_SCRIPT=pre", "SANOID_TARGETS=tank/a"}).status, 0);
  EXPECT_NE(hook("zrepl", {"ZREPL_HOOKTYPE=pre_snapshot", "ZREPL_FS=tank/a"}).status, 0);
  EXPECT_NE(hook("zvolt-syncoid", {}, {"a", "--", "tank/a", "pool/b"}).status, 0);
}

TEST_F(Hooks, SyncoidSendsASnapshotThatIsConsistent) {
  std::filesystem::create_directory(path("bin"));
  write_file(path("bin/syncoid"), "#!/bin/sh\necho \"syncoid got: $*\"\n");
  std::filesystem::permissions(path("bin/syncoid"), std::filesystem::perms::owner_all);
  LibiscsiSession session = opened(0);
  ASSERT_TRUE(session.write(0, pattern(kBytes, 4)).good());
  const CommandResult sent =
      hook("zvolt-syncoid", {"ZVOLT_SNAPSHOT=nightly"}, {"a", "--", "-r", "tank/a", "nas:pool/b"});
  EXPECT_EQ(sent.status, 0) << sent.output;
  EXPECT_NE(sent.output.find("syncoid got: --no-sync-snap -r tank/a nas:pool/b"), std::string::npos) << sent.output;
  EXPECT_EQ(in_pool("a@nightly", 0, kBytes), pattern(kBytes, 4));
  EXPECT_EQ(hook("zvolt-syncoid", {}, {"a"}).status, 2);
  EXPECT_EQ(hook("zvolt-syncoid", {}, {"--", "tank/a"}).status, 2);
}

}  // namespace
}  // namespace zvolt::test
