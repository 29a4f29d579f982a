// Zvols with a journal, on the fake zfs command over loop devices (root only): what is kept in the ZFS property,
// rollback under records that are not written back, snapshots by zvoltctl, sync=disabled under way.
#include <fstream>

#include "tests/integration/journalled_zvols.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kBytes = 4096;

TEST_F(JournalledZvols, RecordsAreReplayedAndThePropertySaysWhereTheDataIs) {
  const Bytes data = pattern(kBytes, 1);
  crash_with(data);
  serve();
  EXPECT_TRUE(becomes("a", "serving")) << reason();
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, data);
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_TRUE(value("tank/a", "org.zvolt:journal").ends_with(",attached"));
}

TEST_F(JournalledZvols, PropertyTravelsWithThePool) {
  crash_with(pattern(kBytes, 2));
  // Another head: its own state directory, and no journal.
  ASSERT_TRUE(std::filesystem::remove(path("state/journal-state.json")));
  daemon_.config().more_yaml = "";
  daemon_.config().luns = {zvol_lun(0, "a")};
  start();
  EXPECT_TRUE(eventually([&] { return reason().find("the configuration names none") != std::string::npos; }))
      << reason();
  EXPECT_NE(state_of("a"), "serving");
}

TEST_F(JournalledZvols, RollbackIsNotReplayedOver) {
  zfs({"snapshot", "tank/a@before"});
  crash_with(pattern(kBytes, 3));
  zfs({"rollback", "tank/a@before"});
  serve();
  EXPECT_TRUE(eventually([&] { return reason().find("it was rolled back at") != std::string::npos; })) << reason();
  EXPECT_EQ(state_of("a"), "waiting");
  const size_t asked_once = commands_like("history");
  EXPECT_EQ(control({"journal", "discard", "--lun", "a"}).status, 0);
  EXPECT_TRUE(becomes("a", "serving")) << reason();
  EXPECT_EQ(commands_like("history"), asked_once);
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, Bytes(kBytes));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalledZvols, RollbackBeforeTheRecordsIsNoReason) {
  zfs({"snapshot", "tank/a@before"});
  zfs({"rollback", "tank/a@before"});
  const Bytes data = pattern(kBytes, 4);
  crash_with(data);
  serve();
  EXPECT_TRUE(becomes("a", "serving")) << reason();
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, data);
}

TEST_F(JournalledZvols, SnapshotHasWhatTheJournalHeld) {
  set_journal(", max_dirty_age: 600s");
  zfs({"create", "-s", "-V", "32M", "tank/b"});
  daemon_.config().luns = {zvol_lun(0, "a", "journal: slog"), zvol_lun(1, "b")};
  start();
  ASSERT_TRUE(becomes("a", "serving"));
  ASSERT_TRUE(becomes("b", "serving"));
  LibiscsiSession a = opened(0), b = opened(1, 2);
  ASSERT_TRUE(a.write(512, pattern(512, 5)).good());
  ASSERT_TRUE(b.write(0, pattern(kBytes, 6)).good());
  const CommandResult taken = control_with_zfs({"snapshot", "a", "b@now"});
  ASSERT_EQ(taken.status, 0) << taken.output;
  EXPECT_EQ(commands_like(R"("snapshot", "tank/a@now", "tank/b@now")"), 1u) << "one command: one instant";
  EXPECT_EQ(in_pool("a@now", 512, 512), pattern(512, 5));
  EXPECT_EQ(in_pool("b@now", 0, kBytes), pattern(kBytes, 6));
  EXPECT_NE(control_with_zfs({"snapshot", "a", "b@now"}).status, 0) << "it exists";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalledZvols, WhereSyncIsDisabledTheTailWaitsForATransactionGroup) {
  serve();
  ASSERT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(commands_like(R"("zpool", "sync")"), 0u);
  LibiscsiSession session = opened(0);
  ASSERT_TRUE(session.write(0, pattern(kBytes, 7), kFua).good());
  zfs({"set", "sync=disabled", "tank/a"});
  session.write(kBytes, pattern(kBytes, 8), kFua);  // served or not: see what becomes of what was taken before
  EXPECT_TRUE(eventually([&] { return lun("a").at("journal").value("dirty_bytes", -1) == 0; }));
  EXPECT_GE(commands_like(R"("zpool", "sync")"), 1u);
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
