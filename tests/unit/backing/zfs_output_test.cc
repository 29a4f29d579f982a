// Reading what zfs and zpool write, on recorded output and on output that nobody should ever write.
#include "backing/zfs/zfs_output.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>
#include <sstream>

#include "tests/unit/backing/fake_pool.h"

namespace zvolt::backing {
namespace {

using test::recorded;

std::vector<ZvolProperties> parsed(const std::string& text) {
  Result<std::vector<ZvolProperties>> all = parse_properties(text);
  EXPECT_TRUE(all.ok()) << all.error().message;
  return all.ok() ? std::move(*all) : std::vector<ZvolProperties>();
}

// The first volume of the sample with one value replaced.
std::string sample_with(const std::string& property, const std::string& value) {
  std::istringstream lines(recorded("get-three-volumes.manual"));
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("tank/vm/a\t", 0) != 0) break;
    const bool this_one = line.rfind("tank/vm/a\t" + property + "\t", 0) == 0;
    all += this_one ? "tank/vm/a\t" + property + "\t" + value + "\tlocal" : line;
    all += '\n';
  }
  return all;
}

TEST(ZfsOutput, PropertiesOfAVolumeAreRead) {
  const auto all = parsed(recorded("get-three-volumes.manual"));
  ASSERT_EQ(all.size(), 3u);
  const ZvolProperties& a = all[0];
  EXPECT_EQ(a.name, "tank/vm/a");
  EXPECT_EQ(a.problem, "");
  EXPECT_EQ(a.guid, 9382716055412038811u);
  EXPECT_EQ(a.volsize, 268435456u);
  EXPECT_EQ(a.volblocksize, 16384u);
  EXPECT_EQ(a.available, 3892314112u);
  EXPECT_EQ(a.used, 57344u);
  EXPECT_EQ(a.referenced, 57344u);
  EXPECT_EQ(a.refreservation, 0u);
  EXPECT_EQ(a.sync, "standard");
  EXPECT_EQ(a.logbias, "latency");
  EXPECT_EQ(a.compression, "on");
  EXPECT_EQ(a.volmode, "default");
  EXPECT_EQ(a.snapdev, "hidden");
  EXPECT_EQ(a.origin, "");
  EXPECT_FALSE(a.read_only);
  EXPECT_FALSE(a.key_missing);
}

TEST(ZfsOutput, ANameMayHaveBlanks) {
  EXPECT_EQ(parsed(recorded("get-three-volumes.manual"))[1].name, "tank/vm/my disk");
}

TEST(ZfsOutput, AUuidCountsWhereItIsSetOrReceivedNotWhereItIsInherited) {
  const auto all = parsed(recorded("get-three-volumes.manual"));
  EXPECT_EQ(all[0].uuid, "0b2c7d1e-5a77-4a0e-9a51-3a0f6e2b9c11");
  EXPECT_EQ(all[1].uuid, "");
  EXPECT_EQ(all[2].uuid, "7d3a1a55-2f4c-4e8e-b7d0-6f6f5a1c3b22");
}

TEST(ZfsOutput, ACloneReadOnlyWithoutItsKeyIsTold) {
  const ZvolProperties clone = parsed(recorded("get-three-volumes.manual"))[2];
  EXPECT_EQ(clone.origin, "tank/vm/a@gold");
  EXPECT_TRUE(clone.read_only);
  EXPECT_TRUE(clone.key_missing);
  EXPECT_EQ(clone.sync, "disabled");
  EXPECT_EQ(clone.volmode, "none");
}

TEST(ZfsOutput, AFileSystemIsNoVolume) {
  const auto all = parsed(recorded("get-filesystem.recorded"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].problem, "is a filesystem, not a volume");
  EXPECT_EQ(all[0].available, 3821920256u);
}

TEST(ZfsOutput, ASnapshotIsNoVolumeButHasItsSize) {
  const auto all = parsed(recorded("get-snapshot.recorded"));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].problem, "is a snapshot, not a volume");
  EXPECT_EQ(all[0].volsize, 67108864u);
  EXPECT_EQ(all[0].volblocksize, 0u);  // ZFS tells it for the volume only
  EXPECT_EQ(all[0].uuid, "");          // that of its volume, inherited
}

TEST(ZfsOutput, RealVolumesAreRead) {
  const auto all = parsed(recorded("get-many.recorded"));
  ASSERT_EQ(all.size(), 6u);
  const auto named = [&](const std::string& name) {
    for (const ZvolProperties& one : all) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << name;
    return ZvolProperties();
  };
  for (const ZvolProperties& one : all) EXPECT_EQ(one.problem, "") << one.name;
  EXPECT_EQ(named("tank/a").guid, 5058366469915160891u);
  EXPECT_EQ(named("tank/a").uuid, "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  EXPECT_EQ(named("tank/b").volblocksize, 65536u);
  EXPECT_EQ(named("tank/b").refreservation, 69206016u);
  EXPECT_EQ(named("tank/b").available, 3891068928u);
  EXPECT_TRUE(named("tank/b").read_only);
  EXPECT_EQ(named("tank/b").uuid, "");
  EXPECT_EQ(named("tank/clone").origin, "tank/a@s1");
  EXPECT_EQ(named("tank/clone").uuid, "");
  EXPECT_EQ(named("tank/dir/inherits").uuid, "");
  EXPECT_EQ(named("tank/received").uuid, "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  EXPECT_EQ(named("tank/q/z").available, 8232960u);
}

TEST(ZfsOutput, RealNamesWithBlanksAndColonsAreRead) {
  const auto all = parsed(recorded("get-odd-names.recorded"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "tank/odd-name_1.2:3");
  EXPECT_EQ(all[0].guid, 17131099690119925664u);  // above 2^63
  EXPECT_EQ(all[1].name, "tank/with space");
}

TEST(ZfsOutput, RealOutputWithAMissingVolumeHasTheOthers) {
  EXPECT_EQ(parsed(recorded("get-some-missing.recorded")).size(), 2u);
  EXPECT_TRUE(errors_but_missing(recorded("get-some-missing.err.recorded")).empty());
}

TEST(ZfsOutput, PropertiesThatWereNotAskedForArePassedOver) {
  const auto all = parsed(recorded("get-three-volumes.manual") + "tank/vm/z\tencryption\taes-256-gcm\t-\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].problem, "");
}

TEST(ZfsOutput, NothingIsNothing) {
  EXPECT_TRUE(parsed("").empty());
}

TEST(ZfsOutput, WhatIsNoSuchOutputIsRefused) {
  const std::string whole = recorded("get-filesystem.recorded");
  const std::string good = whole.substr(0, whole.rfind("tank/dir\t"));  // what follows the user property is its value's
  for (const std::string& text : {std::string("hello\n"), std::string("\n"), std::string("tank/a\tguid\t7\t-\n"),
                                  std::string("tank/a\tname\ttank/b\t-\n"), good + "tank/dir\tsync\n",
                                  good + "tank/other\tguid\t7\t-\n", good + "\tsync\tstandard\tlocal\n",
                                  good.substr(0, good.size() - 1), good + good, std::string(100000, 'x') + "\n"}) {
    const auto all = parse_properties(text);
    ASSERT_FALSE(all.ok()) << text.substr(0, 100);
    EXPECT_EQ(all.error().code, EPROTO);
    EXPECT_LT(all.error().message.size(), 400u);
  }
}

TEST(ZfsOutput, AValueThatIsNoNumberIsAProblemOfThatVolumeOnly) {
  for (const char* value : {"16K", "-1", "99999999999999999999999", "0x10", "", " 7", "7 "}) {
    const auto all = parsed(sample_with("volsize", value) + recorded("get-filesystem.recorded"));
    ASSERT_EQ(all.size(), 2u);
    EXPECT_NE(all[0].problem.find("volsize"), std::string::npos) << value << ": " << all[0].problem;
  }
}

TEST(ZfsOutput, AVolumeWithoutSizeCannotBeServed) {
  EXPECT_NE(parsed(sample_with("volsize", "0"))[0].problem, "");
  EXPECT_NE(parsed(sample_with("volblocksize", "-"))[0].problem, "");
  EXPECT_NE(parsed("t/a\tname\tt/a\t-\nt/a\ttype\tvolume\t-\n")[0].problem, "");
  EXPECT_NE(parsed(sample_with("type", "-"))[0].problem, "");
}

TEST(ZfsOutput, ATabOrLineFeedInTheUuidSpoilsOnlyItsVolume) {
  for (const char* value : {"a\tb", "a\nb", "a\nb\tc\td\te\nf", "a\n\n"}) {
    const auto all = parsed(sample_with(kUuidProperty, value) + recorded("get-filesystem.recorded"));
    ASSERT_EQ(all.size(), 2u) << value;
    EXPECT_NE(all[0].problem, "") << value;
    EXPECT_EQ(all[1].name, "tank/dir");
    EXPECT_EQ(all[1].available, 3821920256u);
  }
}

TEST(ZfsOutput, BytesThatAreNoTextDoNotGetThrough) {
  const auto all = parsed(sample_with(kUuidProperty, "\xff\xfe\x1b[31m"));
  EXPECT_EQ(all[0].uuid, "???[31m");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable(std::string(5000, 'a')).size(), 1000u);
}

TEST(ZfsOutput, EveryKnownMessageHasItsErrno) {
  const std::map<std::string, int> errors = {
      {"ENOENT", ENOENT}, {"EEXIST", EEXIST}, {"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EBUSY", EBUSY},
      {"ENOSPC", ENOSPC}, {"EAGAIN", EAGAIN}, {"EINVAL", EINVAL}, {"EROFS", EROFS},   {"EIO", EIO}};
  size_t seen = 0;
  for (const char* file : {"errors.manual", "errors.recorded"}) {
    std::istringstream lines(recorded(file));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t tab = line.find('\t');
      std::string text = line.substr(tab + 1);
      for (size_t at; (at = text.find("\\n")) != std::string::npos;) text.replace(at, 2, "\n");
      ASSERT_TRUE(errors.contains(line.substr(0, tab))) << line;
      EXPECT_EQ(command_error("do it", 1, text).code, errors.at(line.substr(0, tab))) << line;
      ++seen;
    }
  }
  EXPECT_GE(seen, 20u);
}

TEST(ZfsOutput, AnErrorSaysWhatWasTriedAndWhatZfsSaid) {
  const Error error = command_error("create 'tank/a'", 1, "cannot create 'tank/a': out of space\n");
  EXPECT_EQ(error.message, "cannot create 'tank/a': cannot create 'tank/a': out of space");
  EXPECT_EQ(command_error("create 'tank/a'", 139, "").message,
            "cannot create 'tank/a': the command ended with status 139 and no message");
}

TEST(ZfsOutput, MissingDatasetsAndWarningsAreNoErrors) {
  EXPECT_TRUE(errors_but_missing("cannot open 'tank/a': dataset does not exist\nWarning: something\n").empty());
  const auto rest =
      errors_but_missing("cannot open 'a/b': dataset does not exist\ncannot open 'a/c': permission denied\n");
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(meaning_of(rest[0]), EPERM);
}

// --- zpool history -i ---

std::optional<std::string> history_of(const std::string& value, const std::string& name, const std::string& text,
                                      size_t piece = 1000) {
  HistoryScan scan("org.zvolt:journal", value);
  for (size_t at = 0; at < text.size(); at += piece) scan.take(std::string_view(text).substr(at, piece));
  return scan.replaced(name);
}

TEST(History, RollbackAndReceiveAreFoundUnderThePresentName) {
  const std::string text = recorded("history.recorded");
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100000}}) {
    EXPECT_EQ(history_of("aaaa,7,dirty", "tank/d/c", text, piece), "it was rolled back at 2026-12-01.00:05:43");
    EXPECT_EQ(history_of("aaaa,8,dirty", "tank/d/c", text, piece), "it was rolled back at 2026-12-01.00:05:43");
    EXPECT_EQ(history_of("bbbb,7,dirty", "tank/b", text, piece), "it was received anew at 2026-12-01.00:05:39");
  }
  EXPECT_EQ(history_of("aaaa,7,dirty", "tank/a", text), std::nullopt) << "it has another name now";
  EXPECT_EQ(history_of("aaaa,9,dirty", "tank/d/c", text), std::nullopt);
}

TEST(History, WhatWasBeforeThePropertyDoesNotCount) {
  const std::string text = recorded("history.recorded");
  const size_t rename = text.find("[txg:33] rename");  // the first rollback of tank/a was before aaaa,8
  EXPECT_EQ(history_of("aaaa,8,dirty", "tank/a", text.substr(0, text.rfind('\n', rename) + 1)), "");
  EXPECT_EQ(history_of("aaaa,7,dirty", "tank/a", text.substr(0, text.rfind('\n', rename) + 1)),
            "it was rolled back at 2026-12-01.00:05:35");
}

TEST(History, LastTimeThatItWasSetCountsAndOthersLinesDoNot) {
  const std::string set = "2026-12-01.00:00:01 [txg:1] set tank/my disk (76) org.zvolt:journal=v\n";
  const std::string swap = "2026-12-01.00:00:02 [txg:2] clone swap tank/my disk/%rollback (9) parent=my disk\n";
  EXPECT_NE(history_of("v", "tank/my disk", set + swap), "");
  EXPECT_EQ(history_of("v", "tank/my disk", set + swap + set), "");
  EXPECT_EQ(history_of("v", "tank/my disk", set + "2026-12-01.00:00:02 zfs rollback tank/my disk@s\n"), "");
  EXPECT_EQ(history_of("v", "tank/my disk", set + "    " + swap), "") << "an argument of an ioctl";
  EXPECT_EQ(history_of("v", "tank/my disk", set + "2026-12-01.00:00:02 [txg:2] destroy tank/my disk (76)\n"),
            std::nullopt);
  EXPECT_EQ(history_of("v", "tank/my disk", swap + std::string(100000, 'x') + "\n" + set), "");
  EXPECT_EQ(history_of("v", "tank/my disk", set + "2026-12-01.00:00:02 [txg:2] rename tank (5) -> pond\n"),
            std::nullopt);
  EXPECT_EQ(history_of("v", "pond/my disk", set + "2026-12-01.00:00:02 [txg:2] rename tank (5) -> pond\n"), "");
}

}  // namespace
}  // namespace zvolt::backing
