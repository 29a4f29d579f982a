// `journals:` and `journal:`: values, what is refused, and the plan of edits.
#include "tests/unit/config/plan_support.h"

namespace zvolt::config::test {
namespace {

using Texts = std::vector<std::string>;

TEST(Journals, ValuesAndDefaults) {
  const Config config = good(R"(listen: [127.0.0.1]
journals:
  fast: { path: /dev/disk/by-id/nvme-x-part4 }
  small: { path: /srv/log, provision: { size: 64MiB }, memory: 32MiB, max_dirty_age: 500ms, on_failure: read_only, lun_quota: 25 }
volumes: { a: { zvol: t/a, journal: fast }, b: { file: /b, sync: always, journal: small } }
)");
  ASSERT_EQ(config.journals.size(), 2u);
  const Journal& fast = config.journals[0];
  EXPECT_EQ(fast.name, "fast");
  EXPECT_EQ(fast.path, "/dev/disk/by-id/nvme-x-part4");
  EXPECT_EQ(fast.provision_size, 0u);
  EXPECT_EQ(fast.memory, uint64_t{256} << 20);
  EXPECT_EQ(fast.max_dirty_ms, 2000u);
  EXPECT_EQ(fast.on_failure, OnJournalFailure::write_through);
  EXPECT_EQ(fast.lun_quota, 50u);
  const Journal& small = *config.journal("small");
  EXPECT_EQ(small.provision_size, uint64_t{64} << 20);
  EXPECT_EQ(small.memory, uint64_t{32} << 20);
  EXPECT_EQ(small.max_dirty_ms, 500u);
  EXPECT_EQ(small.on_failure, OnJournalFailure::read_only);
  EXPECT_EQ(small.lun_quota, 25u);
  EXPECT_EQ(config.volume("a")->journal, "fast");
  EXPECT_EQ(config.volume("b")->journal, "small");
}

TEST(Journals, WhatHasNoUseForOneIsRefused) {
  EXPECT_EQ(problems_of(R"(listen: [127.0.0.1]
journals: { slog: { path: /j } }
volumes:
  a: { file: /a, journal: slog, sync: disabled }
  b: { file: /b, journal: slog, read_only: true }
  c: { memory: 1MiB, journal: slog }
  d: { file: /d, journal: slogg }
)"),
            Texts({"4:18: 'journal' beside 'sync: disabled': a journal is for writes that must not be lost",
                   "5:18: 'journal' beside 'read_only: true': nothing is written",
                   "6:22: 'journal' beside a store in memory: there is nothing to keep",
                   "7:27: there is no journal 'slogg', did you mean 'slog'?"}));
}

TEST(Journals, DefaultsThatDisableSyncCountToo) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\ndefaults: { sync: disabled }\njournals: { j: { path: /j } }\n"
                        "volumes: { a: { file: /a, journal: j } }\n"),
            Texts({"4:27: 'journal' beside 'sync: disabled': a journal is for writes that must not be lost"}));
}

TEST(Journals, OnePathIsOneJournalAndNobodysDisk) {
  EXPECT_EQ(problems_of(R"(listen: [127.0.0.1]
journals:
  j: { path: /dev/x }
  k: { path: /dev//x }
  l: { path: /srv/a }
  m: { path: /dev/zvol/t/z }
volumes: { a: { file: /srv/a }, z: { zvol: t/z } }
)"),
            Texts({"4:14: journal path '/dev/x' is already used at line 3",
                   "5:14: '/srv/a' is the store of volume 'a' (line 7): a journal needs a device or file of its own",
                   "6:14: '/dev/zvol/t/z' is the store of volume 'z' (line 7): a journal needs a device or file of its "
                   "own"}));
}

TEST(Journals, WrongDescriptions) {
  EXPECT_EQ(problems_of(R"(listen: [127.0.0.1]
journals:
  a: { memory: 64MiB }
  b: { path: log }
  c: { path: /dev/sdx, provision: { size: 1GiB } }
  d: { path: /d, memory: 1MiB, lun_quota: 3 }
  e:
  "no spaces": { path: /f }
  g: { path: /g, faults: [{ action: lose_unflushed }] }
)"),
            Texts({"3:6: a journal needs the key 'path'", "4:14: 'path' expects an absolute path, found 'log'",
                   "5:24: 'provision' goes with a file: devices are not made",
                   "6:26: 'memory' expects a size, 8MiB to 1TiB, found '1MiB'",
                   "6:43: 'lun_quota' expects a number, 5 to 100, found '3'", "7:3: journal 'e' has no value",
                   "8:3: a volume name consists of letters, digits and _ - . : / + @",
                   "9:18: 'faults' makes a test store, which needs zvoltd --test-stores"}));
}

TEST(Journals, SnapshotsOfAJournalledZvolAreWarnedOf) {
  const auto warnings = warnings_of(
      "listen: [127.0.0.1]\njournals: { j: { path: /j }, k: { path: /k } }\n"
      "volumes: { a: { zvol: t/a, journal: j } }\n"
      "targets: [{ name: \"iqn.2026-11.o:t\", luns: [{ lun: 0, volume: a }] }]\n");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "2:30: journal 'k' is not used by any volume");
  EXPECT_NE(warnings[1].find("zvoltctl snapshot"), std::string::npos) << warnings[1];
}

class PlanJournals : public PlanTest {
 protected:
  static constexpr const char* kJ = "journals: { j: { path: /dev/j } }\n";
  void SetUp() override { zvol("t/a", kGiB); }
};

TEST_F(PlanJournals, LeavingIsDoneUnderHosts) {
  logged_in("esx1");
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, journal: j }"}, kJ), volumes({"a: { zvol: t/a }"})),
            (Lines{"change a: leaves journal j: new writes wait until all that it holds is in the store @esx1",
                   "close_journal journal j: /dev/j is closed; everything in it is in the stores by then"}));
}

TEST_F(PlanJournals, GettingOneNeedsADiskThatNobodyUses) {
  const std::string without = volumes({"a: { zvol: t/a }"}), with = volumes({"a: { zvol: t/a, journal: j }"}, kJ);
  EXPECT_EQ(steps(without, with),
            (Lines{"open_journal journal j: /dev/j is opened as a log",
                   "replace_unit a: journal becomes j (was none): the disk is taken down and comes back; no host uses "
                   "it"}));
  logged_in("esx1");
  EXPECT_TRUE(plan(without, with).refused());
}

TEST_F(PlanJournals, PathOfOneInUseIsNotChanged) {
  const auto with = [](const std::string& journal) { return volumes({"a: { zvol: t/a, journal: j }"}, journal); };
  const Plan moved = plan(with(kJ), with("journals: { j: { path: /dev/k } }\n"));
  EXPECT_TRUE(moved.refused());
  EXPECT_EQ(moved.steps[0].what, "path");
  EXPECT_EQ(steps(with(kJ), with("journals: { j: { path: /dev/j, memory: 64MiB, lun_quota: 30 } }\n")),
            (Lines{"restart journal j: memory becomes 64 MiB (was 256 MiB) at the next start",
                   "restart journal j: lun_quota becomes 30 (was 50) at the next start"}));
}

TEST_F(PlanJournals, ValuesThatAStartReadsStayAsTheyAreUntilThen) {
  const Config running = good(volumes({"a: { zvol: t/a, journal: j }"}, kJ));
  const Config wanted =
      good(volumes({"a: { zvol: t/a, journal: j }"}, "journals: { j: { path: /dev/j, memory: 64MiB } }\n"));
  EXPECT_EQ(after_apply(running, wanted).journals[0].memory, uint64_t{256} << 20);
  EXPECT_EQ(after_apply(Config(), wanted).journals[0].memory, uint64_t{64} << 20);
}

TEST_F(PlanJournals, RemovedVolumeIsWrittenBackFirst) {
  const auto closing = steps(volumes({"a: { zvol: t/a, journal: j }"}, kJ), "listen: [127.0.0.1]\ntargets: []\n");
  EXPECT_EQ(closing[1],
            "close a: zvol t/a is closed and kept as it is; what journal j holds for it is written to it first");
}

}  // namespace
}  // namespace zvolt::config::test
