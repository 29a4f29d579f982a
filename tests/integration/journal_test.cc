// Journals of the real daemon: what is in a log after a crash, a log that is missing or torn, volumes that leave and
// get one by apply, freezes, the offline tools.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/integration/journalled_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kBytes = 4096;

Bytes file_bytes(const std::string& path, uint64_t offset, size_t length) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  Bytes out(length);
  file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(length));
  return out;
}

class JournalTest : public JournalledDaemon {
 protected:
  // Writes durably through a journal whose store takes nothing, and crashes: the log alone has the data.
  void crash_with_data_in_the_log(const Bytes& data) {
    set_journal();
    daemon_.config().luns = {journalled_lun(0, "a", kStalled), file_lun(1, "b")};
    start();
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, data, kFua).good());
    EXPECT_GT(journal_of("a").value("dirty_bytes", 0), 0);
    daemon_.kill();
    daemon_.config().luns[0] = journalled_lun(0, "a");
  }
};

TEST_F(JournalTest, DurableWritesAreThereAfterACrashAndTheStatusSaysWhatGoesOn) {
  const Bytes data = pattern(kBytes, 1);
  crash_with_data_in_the_log(data);
  start();
  EXPECT_EQ(mode_of("a"), "journaled");
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, data);
  EXPECT_TRUE(eventually([&] { return journal_of("a").value("dirty_bytes", -1) == 0; }));
  const auto one = journal();
  EXPECT_EQ(one.at("replayed").at("records"), 1);
  EXPECT_EQ(one.at("problem"), "");
  EXPECT_EQ(one.at("volumes").size(), 1u);
  EXPECT_NE(control({"journal"}).output.find("volume a: journaled"), std::string::npos);
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_EQ(file_bytes(path("a.img"), 0, kBytes), data);
}

TEST_F(JournalTest, CleanEndLeavesNothingInTheLog) {
  set_journal();
  daemon_.config().luns = {journalled_lun(0, "a", ", sync: always")};
  start();
  {
    LibiscsiSession session = opened(0);
    for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(session.write(i * kBytes, pattern(kBytes, i)).good());
  }
  EXPECT_EQ(daemon_.terminate(), 0);
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(file_bytes(path("a.img"), i * kBytes, kBytes), pattern(kBytes, i));
  const auto found = asked({"journal", "inspect", log_path()});
  EXPECT_EQ(found.at("clean"), true);
  EXPECT_EQ(found.at("luns").size(), 0u);
  EXPECT_EQ(control({"journal", "verify", log_path()}).status, 0);
}

TEST_F(JournalTest, LunWithDataInAMissingLogWaitsAndOthersServe) {
  const Bytes data = pattern(kBytes, 2);
  crash_with_data_in_the_log(data);
  std::filesystem::rename(log_path(), path("away"));
  daemon_.config().more_yaml = "journals: { slog: { path: " + log_path() + " } }\n";
  start();
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.command(read10(0, 8), kBytes).sense, "02/04/01");
  session.command_lun(1, test_unit_ready());
  EXPECT_TRUE(session.command_lun(1, read10(0, 8), kBytes).good()) << "the others serve";
  EXPECT_NE(lun("a").value("reason", "").find("its newest data is in journal"), std::string::npos);
  EXPECT_NE(control({"status"}).output.find("volume a: not served"), std::string::npos);
  // It comes up by itself when the log is back.
  std::filesystem::rename(path("away"), log_path());
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_TRUE(eventually([&] { return session.read(0, kBytes).data == data; }));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, DataInAMissingLogCanBeGivenUp) {
  crash_with_data_in_the_log(pattern(kBytes, 3));
  std::filesystem::rename(log_path(), path("away"));
  start();  // makes a new, empty log: not the one that has the data
  EXPECT_EQ(state_of("a"), "waiting");
  EXPECT_EQ(control({"journal", "discard", "--lun", "b"}).status, 0) << "nothing to give up";
  EXPECT_EQ(control({"journal", "discard", "--lun", "a"}).status, 0);
  EXPECT_EQ(state_of("a"), "serving");
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, Bytes(kBytes));
  ASSERT_TRUE(session.write(0, pattern(kBytes, 4), kFua).good());
  EXPECT_EQ(daemon_.terminate(), 0);
  // The old log comes back: what it holds must not be replayed over the newer data.
  std::filesystem::rename(path("away"), log_path());
  start();
  LibiscsiSession after = opened(0);
  const Bytes now = after.read(0, kBytes).data;
  EXPECT_NE(now, pattern(kBytes, 3));
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_EQ(file_bytes(path("a.img"), 0, kBytes), pattern(kBytes, 4));
}

TEST_F(JournalTest, TornTailIsReported) {
  set_journal();
  daemon_.config().luns = {journalled_lun(0, "a", kStalled)};
  start();
  {
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, pattern(kBytes, 5), kFua).good());
    ASSERT_TRUE(session.write(kBytes, pattern(kBytes, 6), kFua).good());
  }
  daemon_.kill();
  const auto found = asked({"journal", "inspect", log_path()});
  const auto head = found.at("head_position").get<uint64_t>();
  {
    std::fstream log(log_path(), std::ios::in | std::ios::out | std::ios::binary);
    log.seekp(static_cast<std::streamoff>(131072 + head - 100));  // in the payload of the last record
    log << "torn";
  }
  EXPECT_EQ(control({"journal", "verify", log_path()}).status, 0) << "the last group may be torn";
  daemon_.config().luns = {journalled_lun(0, "a")};
  start();
  EXPECT_EQ(journal().at("replayed").at("torn"), true);
  EXPECT_NE(control({"status"}).output.find("journal slog: "), std::string::npos);
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, pattern(kBytes, 5));
  EXPECT_EQ(session.read(kBytes, kBytes).data, Bytes(kBytes));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, LeavingByApplyDrainsUnderAHost) {
  set_journal(", max_dirty_age: 600s");
  daemon_.config().luns = {journalled_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(session.write(i * 8192 + 512, pattern(512, i)).good());
  daemon_.config().luns = {file_lun(0, "a")};
  daemon_.config().more_yaml = "";
  const auto applied = apply();
  EXPECT_EQ(applied.value("outcome", ""), "done") << applied.dump(1);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(file_bytes(path("a.img"), i * 8192 + 512, 512), pattern(512, i));
  EXPECT_EQ(asked({"journal"}).size(), 0u);
  ASSERT_TRUE(session.write(0, pattern(512, 99), kFua).good()) << "the session goes on";
  EXPECT_EQ(file_bytes(path("a.img"), 0, 512), pattern(512, 99));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, GettingOneByApplyWaitsForTheHostsToLeave) {
  daemon_.config().luns = {file_lun(0, "a")};
  start();
  {
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, pattern(kBytes, 7)).good());
    set_journal();
    daemon_.config().luns = {journalled_lun(0, "a")};
    EXPECT_EQ(apply(1).value("outcome", ""), "refused");
    EXPECT_TRUE(session.logout());
  }
  EXPECT_TRUE(eventually([&] { return asked({"sessions"}).empty(); }));
  EXPECT_EQ(apply().value("outcome", ""), "done");
  EXPECT_EQ(mode_of("a"), "journaled");
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, pattern(kBytes, 7));
  ASSERT_TRUE(session.write(0, pattern(kBytes, 8), kFua).good());
  EXPECT_EQ(daemon_.terminate(), 0);
  EXPECT_EQ(file_bytes(path("a.img"), 0, kBytes), pattern(kBytes, 8));
}

TEST_F(JournalTest, ForeignLogIsRefusedAndItsVolumesAreNotServedPastIt) {
  write_file(log_path(), "somebody's data" + std::string(32 << 20, 'x'));
  set_journal(", on_failure: read_only");
  daemon_.config().luns = {journalled_lun(0, "a"), file_lun(1, "b")};
  start();
  EXPECT_EQ(state_of("a"), "waiting");
  EXPECT_EQ(state_of("b"), "serving");
  EXPECT_NE(lun("a").value("reason", "").find("not empty and holds no journal"), std::string::npos);
  EXPECT_EQ(read_file(log_path()).substr(0, 15), "somebody's data");
  EXPECT_EQ(control({"journal", "format", log_path()}).status, 1);
  EXPECT_EQ(control({"journal", "format", "--force", log_path()}).status, 0);
  EXPECT_TRUE(becomes("a", "serving"));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, FlushBringsTheStoreUpToDate) {
  set_journal(", max_dirty_age: 600s");
  daemon_.config().luns = {journalled_lun(0, "a")};
  start();
  LibiscsiSession session = opened(0);
  ASSERT_TRUE(session.write(512, pattern(512, 9)).good());
  EXPECT_EQ(control({"flush", std::string(kTargetName) + "/0"}).status, 0);
  EXPECT_EQ(file_bytes(path("a.img"), 512, 512), pattern(512, 9));
  EXPECT_EQ(journal_of("a").value("dirty_bytes", -1), 0);
  EXPECT_EQ(control({"flush", "nobody"}).status, 1);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, FreezeHoldsWritesWithAndWithoutAJournal) {
  set_journal(", max_dirty_age: 600s");
  daemon_.config().luns = {journalled_lun(0, "a"), file_lun(1, "b")};
  start();
  LibiscsiSession a = opened(0), b = opened(1, 2);
  ASSERT_TRUE(a.write(0, pattern(kBytes, 10)).good());
  ASSERT_TRUE(b.write(0, pattern(kBytes, 11)).good());
  const std::string script = "cp " + path("a.img") + " " + path("a.snap") + "; cp " + path("b.img") + " " +
                             path("b.snap") + "; touch " + path("held") + "; while [ ! -e " + path("go") +
                             " ]; do sleep 0.05; done; exit 7";
  CommandResult frozen;
  std::thread freezing([&] { frozen = control({"freeze", "--seconds", "20", "a", "b", "--", "sh", "-c", script}); });
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path("held")); }));
  EXPECT_EQ(file_bytes(path("a.snap"), 0, kBytes), pattern(kBytes, 10));
  EXPECT_EQ(file_bytes(path("b.snap"), 0, kBytes), pattern(kBytes, 11));
  std::atomic<int> written{0};
  std::thread first([&] { written += a.write(0, pattern(kBytes, 12)).good() ? 1 : 100; });
  std::thread second([&] { written += b.write(0, pattern(kBytes, 13)).good() ? 1 : 100; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // that nothing happens has no event
  EXPECT_EQ(written, 0);
  write_file(path("go"), "");
  freezing.join();
  first.join();
  second.join();
  EXPECT_EQ(written, 2);
  EXPECT_EQ(frozen.status, 7) << frozen.output;
  EXPECT_EQ(a.read(0, kBytes).data, pattern(kBytes, 12));
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, FreezeEndsByItself) {
  set_journal();
  daemon_.config().luns = {journalled_lun(0, "a"), file_lun(1, "b")};
  start();
  const CommandResult late = control({"freeze", "--seconds", "1", "a", "b", "--", "sleep", "2"});
  EXPECT_EQ(late.status, 1);
  EXPECT_NE(late.output.find("the hold was over before"), std::string::npos) << late.output;
  EXPECT_EQ(control({"freeze", "a", "--", "true"}).status, 0);
  EXPECT_EQ(control({"freeze", "nobody", "--", "true"}).status, 1);
  EXPECT_EQ(control({"freeze", "--seconds", "60", "a", "--", "true"}).status, 1);
  EXPECT_EQ(control({"freeze", "a"}).status, 2);
  EXPECT_EQ(control({"snapshot", "a@x"}).status, 1) << "no zvol";
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, OfflineReplayWritesTheStore) {
  const Bytes data = pattern(kBytes, 14);
  crash_with_data_in_the_log(data);
  const auto found = asked({"journal", "inspect", log_path(), "--records"});
  ASSERT_EQ(found.at("luns").size(), 1u);
  EXPECT_EQ(found.at("records").at(0).at("kind"), "write");
  const std::string uuid = found.at("luns")[0].at("uuid");
  EXPECT_EQ(control({"journal", "replay", log_path(), "--lun", "x", "--store", path("a.img")}).status, 2);
  const CommandResult replayed = control({"journal", "replay", log_path(), "--lun", uuid, "--store", path("a.img")});
  EXPECT_EQ(replayed.status, 0) << replayed.output;
  EXPECT_EQ(file_bytes(path("a.img"), 0, kBytes), data);
  start();
  EXPECT_EQ(state_of("a"), "serving");
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, data);
  EXPECT_EQ(daemon_.terminate(), 0);
}

TEST_F(JournalTest, OfflineDiscardGivesUp) {
  crash_with_data_in_the_log(pattern(kBytes, 15));
  const std::string uuid = asked({"journal", "inspect", log_path()}).at("luns")[0].at("uuid");
  EXPECT_EQ(control({"journal", "discard", log_path(), "--lun", uuid}).status, 0);
  start();
  LibiscsiSession session = opened(0);
  EXPECT_EQ(session.read(0, kBytes).data, Bytes(kBytes));
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
