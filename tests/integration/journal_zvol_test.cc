// Zvols with a journal, on the fake zfs command over loop devices (root only): what is kept in the ZFS property,
// rollback under records that are not written back, snapshots by zvoltctl, sync=disabled under way.
#include <fstream>
#include <sstream>

#include "tests/integration/zvol_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kBytes = 4096;
constexpr const char* kStalled = "faults: [ { op: write, action: stall } ]";

class JournalledZvols : public Zvols {
 protected:
  void SetUp() override {
    Zvols::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    set_journal();
    zfs({"create", "-s", "-V", "32M", "tank/a"});
  }
  void set_journal(const std::string& more = "") {
    daemon_.config().more_yaml = "journals: { slog: { path: " + path("slog.log") +
                                 ", provision: { size: 32MiB }, memory: 16MiB" + more + " } }\n";
  }
  void serve(const std::string& more = "") {
    daemon_.config().luns = {zvol_lun(0, "a", "journal: slog" + (more.empty() ? more : ", " + more))};
    start();
  }
  // The journal alone has `data` at the beginning of the volume, and the daemon is dead.
  void crash_with(const Bytes& data) {
    serve(kStalled);
    ASSERT_TRUE(becomes("a", "serving"));
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, data, kFua).good());
    EXPECT_TRUE(value("tank/a", "org.zvolt:journal").ends_with(",dirty"));
    daemon_.kill();
  }
  CommandResult control_with_zfs(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"env"};
    all.insert(all.end(), daemon_.config().environment.begin(), daemon_.config().environment.end());
    all.insert(all.end(), {program("zvoltctl"), "--socket", daemon_.admin_socket()});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_command(all);
  }
  size_t commands_like(const std::string& text) const {
    std::ifstream log(path("zfs/log"));
    size_t count = 0;
    for (std::string line; std::getline(log, line);)
      if (line.find(text) != std::string::npos) ++count;
    return count;
  }
  std::string reason() const { return lun("a").value("reason", ""); }
};

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
  const auto in_snapshot = [&](const std::string& name, uint64_t offset, size_t length) {
    std::ifstream file(path("zfs/files/tank/" + name), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    Bytes out(length);
    file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(length));
    return out;
  };
  EXPECT_EQ(in_snapshot("a@now", 512, 512), pattern(512, 5));
  EXPECT_EQ(in_snapshot("b@now", 0, kBytes), pattern(kBytes, 6));
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
