// Which volume's newest data is in which journal: what is kept of that, and what follows from it for a volume. Logs are
// files.
#include "target/daemon/journals.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backing/stores.h"
#include "target/daemon/journal_log.h"
#include "target/daemon/journal_slot.h"
#include "target/daemon/state_dir.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

using State = backing::journal::StateKeeper::State;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kLogBytes = uint64_t{16} << 20;

Uuid uuid(uint8_t n) {
  Uuid out{};
  out.fill(n);
  return out;
}

JournalState entry(uint8_t lun, uint8_t journal, uint64_t epoch, State state) {
  return {uuid(lun), uuid(journal), epoch, state};
}

TEST(JournalStateText, RoundTripAndNonsense) {
  for (const State state : {State::attached, State::dirty, State::detached}) {
    const JournalState one = entry(1, 2, 77, state);
    EXPECT_EQ(parse_journal_state(one.lun, journal_state_text(one)), one);
  }
  const std::string good = journal_state_text(entry(1, 2, 77, State::dirty));
  for (const std::string& bad : {std::string(), std::string(","), std::string("a,1,dirty"), good + "x",
                                 good.substr(0, 36) + ",,dirty", good.substr(0, 36) + ",-1,dirty", good.substr(0, 36)})
    EXPECT_FALSE(parse_journal_state(uuid(1), bad)) << bad;
}

class JournalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto state = StateDir::open(temp_.file("state"));
    ASSERT_TRUE(state);
    state_.emplace(std::move(*state));
    restart();
  }
  void restart() {
    journals_.reset();
    journals_ = std::make_unique<Journals>(*state_, backing::Zfs());
  }
  config::Journal log(const std::string& name = "j") const {
    config::Journal out;
    out.name = name;
    out.path = temp_.file(name + ".log");
    out.provision_size = kLogBytes;
    out.memory = kLogBytes;
    return out;
  }
  // A volume over `store` that names a journal (empty: none).
  OpenVolume volume(std::shared_ptr<backing::BlockStore> store, const std::string& journal = "j") const {
    OpenVolume out;
    out.config.name = "v";
    out.config.kind = config::StoreKind::file;
    out.config.journal = journal;
    out.uuid = uuid(1);
    out.store = std::move(store);
    out.health = std::make_shared<VolumeHealth>("v", seconds(300), backing::Presence::present);
    if (!journal.empty()) out.journaled = out.slot = std::make_shared<JournalSlot>(out.store);
    return out;
  }
  static std::shared_ptr<backing::BlockStore> memory() { return *backing::make_memory(1 << 20); }
  static std::string reason(const OpenVolume& volume) { return volume.health->view().reason; }

  test::TempDir temp_;
  std::optional<StateDir> state_;
  std::unique_ptr<Journals> journals_;
};

TEST_F(JournalsTest, KeeperRemembersAcrossRestartsAndRefusesDamage) {
  {
    JournalKeeper first(*state_, backing::Zfs());
    EXPECT_FALSE(first.load(uuid(1))->has_value());
    ASSERT_TRUE(first.save(entry(1, 2, 5, State::dirty)));
    ASSERT_TRUE(first.save(entry(3, 2, 5, State::attached)));
    ASSERT_TRUE(first.save(entry(1, 2, 6, State::detached)));
  }
  JournalKeeper second(*state_, backing::Zfs());
  EXPECT_EQ(**second.load(uuid(1)), entry(1, 2, 6, State::detached));
  EXPECT_EQ(**second.load(uuid(3)), entry(3, 2, 5, State::attached));
  ASSERT_TRUE(state_->replace("journal-state.json", "{ \"luns\": "));
  EXPECT_EQ(second.load(uuid(1)).error().code, EPROTO);
  EXPECT_EQ(second.save(entry(1, 2, 7, State::dirty)).error().code, EPROTO) << "nothing is overwritten";
}

TEST_F(JournalsTest, AttachingRecordsDirtyAndClosingAttached) {
  ASSERT_TRUE(journals_->open({log()}));
  const OpenVolume v = volume(memory());
  journals_->attach(v);
  EXPECT_EQ(reason(v), "");
  ASSERT_NE(v.slot->journaled(), nullptr);
  JournalKeeper kept(*state_, backing::Zfs());
  EXPECT_EQ((*kept.load(uuid(1)))->state, State::dirty);
  const auto closed = journals_->close(seconds(10));
  EXPECT_TRUE(closed.stays.empty());
  EXPECT_EQ((*kept.load(uuid(1)))->state, State::attached);
}

TEST_F(JournalsTest, VolumeWithDataInAMissingJournalIsNotServedUntilItIsGivenUp) {
  JournalKeeper kept(*state_, backing::Zfs());
  ASSERT_TRUE(kept.save(entry(1, 9, 5, State::dirty)));
  config::Journal missing = log();
  missing.provision_size = 0;
  EXPECT_EQ(journals_->open({missing}).error().code, ENOENT);
  const OpenVolume v = volume(memory());
  journals_->attach(v);
  EXPECT_NE(reason(v).find("its newest data is in journal " + uuid_text(uuid(9))), std::string::npos) << reason(v);
  EXPECT_TRUE(v.slot->empty());
  EXPECT_TRUE(journals_->wants_attach(v));
  ASSERT_TRUE(journals_->discard(v));
  journals_->attach(v);
  EXPECT_EQ(reason(v), "");
  EXPECT_EQ((*kept.load(uuid(1)))->state, State::detached);
}

TEST_F(JournalsTest, NewLogInPlaceOfTheOneWithTheDataIsNoJournalOfTheVolume) {
  JournalKeeper kept(*state_, backing::Zfs());
  ASSERT_TRUE(kept.save(entry(1, 9, 5, State::dirty)));
  ASSERT_TRUE(journals_->open({log()})) << "made new";
  const OpenVolume v = volume(memory());
  journals_->attach(v);
  EXPECT_NE(reason(v).find("its newest data is in another journal"), std::string::npos) << reason(v);
  EXPECT_TRUE(v.slot->empty());
}

TEST_F(JournalsTest, VolumeThatHasLostItsJournalFromTheConfigurationIsNotServedWhileDirty) {
  JournalKeeper kept(*state_, backing::Zfs());
  ASSERT_TRUE(kept.save(entry(1, 9, 5, State::dirty)));
  const OpenVolume v = volume(memory(), "");
  journals_->attach(v);
  EXPECT_NE(reason(v).find("the configuration names none"), std::string::npos) << reason(v);
  ASSERT_TRUE(kept.save(entry(1, 9, 5, State::attached)));
  journals_->attach(v);
  EXPECT_EQ(reason(v), "");
}

TEST_F(JournalsTest, MissingJournalWithNothingInItFollowsThePolicy) {
  JournalKeeper kept(*state_, backing::Zfs());
  config::Journal missing = log();
  missing.provision_size = 0;
  for (const auto policy : {config::OnJournalFailure::write_through, config::OnJournalFailure::read_only}) {
    restart();
    ASSERT_TRUE(kept.save(entry(1, 9, 5, State::attached)));
    missing.on_failure = policy;
    EXPECT_FALSE(journals_->open({missing}));
    const OpenVolume v = volume(memory());
    journals_->attach(v);
    if (policy == config::OnJournalFailure::write_through) {
      EXPECT_EQ(reason(v), "");
      EXPECT_EQ(v.health->view().notes.size(), 1u);
      EXPECT_EQ((*kept.load(uuid(1)))->state, State::detached) << "before the first write past the journal";
    } else {
      EXPECT_NE(reason(v).find("journal j cannot be used"), std::string::npos) << reason(v);
      EXPECT_EQ((*kept.load(uuid(1)))->state, State::attached);
    }
  }
}

TEST_F(JournalsTest, DetachedVolumeLetsItsStoreGo) {
  ASSERT_TRUE(journals_->open({log()}));
  auto store = memory();
  const std::weak_ptr<backing::BlockStore> watched = store;
  {
    const OpenVolume v = volume(std::move(store));
    journals_->attach(v);
    ASSERT_TRUE(journals_->detach(v, seconds(10)));
    EXPECT_EQ(v.slot->journaled(), nullptr);
  }
  EXPECT_TRUE(watched.expired()) << "the journal keeps it open";
  const OpenVolume again = volume(memory());
  journals_->attach(again);
  EXPECT_EQ(reason(again), "");
}

TEST_F(JournalsTest, EmptySlotServesNothing) {
  const OpenVolume v = volume(memory());
  backing::IoRequest request;
  request.kind = backing::IoKind::flush;
  const auto engine = backing::make_engine({});
  EXPECT_EQ(v.slot->submit(request, *engine), backing::Submitted::done);
  EXPECT_EQ(request.error, ENOMEDIUM);
}

class LogTest : public ::testing::Test {
 protected:
  std::string with_bytes(uint64_t offset, const std::string& bytes) const {
    const std::string path = temp_.file("log");
    std::filesystem::remove(path);
    { std::ofstream make(path); }
    std::filesystem::resize_file(path, kLogBytes);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
    return path;
  }
  test::TempDir temp_;
};

TEST_F(LogTest, ForeignDataIsNeverFormattedOver) {
  struct Case {
    uint64_t offset;
    const char* what;
  };
  // ext4's magic, a GPT header, its copy at the end, an LVM label, a ZFS label's end.
  for (const Case& each : {Case{1080, "\x53\xef"}, Case{512, "EFI PART"}, Case{kLogBytes - 512, "EFI PART"},
                           Case{536, "LVM2 001"}, Case{kLogBytes - 1000, "zfs"}}) {
    const auto opened = open_log(with_bytes(each.offset, each.what), 0);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(*look_at_log(*opened), LogContent::foreign) << each.what;
    EXPECT_EQ(format_log(*opened, false).error().code, EEXIST) << each.what;
    EXPECT_TRUE(format_log(*opened, true)) << each.what;
    EXPECT_EQ(*look_at_log(*opened), LogContent::journal);
  }
}

TEST_F(LogTest, EmptyOneIsFormattedAndAMissingFileIsMadeWhole) {
  {
    const auto opened = open_log(with_bytes(0, ""), 0);
    ASSERT_TRUE(opened);
    EXPECT_EQ(*look_at_log(*opened), LogContent::empty);
    EXPECT_TRUE(format_log(*opened, false));
  }
  EXPECT_EQ(open_log(temp_.file("none"), 0).error().code, ENOENT);
  const auto made = open_log(temp_.file("made"), kLogBytes);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->size_bytes(), kLogBytes);
  EXPECT_FALSE(std::filesystem::exists(temp_.file("made.new")));
  EXPECT_EQ(open_log(temp_.path().string(), 0).error().code, EINVAL) << "a directory";
}

}  // namespace
}  // namespace zvolt::daemon
