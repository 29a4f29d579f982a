// Templates: many volumes and LUNs from one entry, and everything that is no pattern.
#include "config/template.h"

#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

using Texts = std::vector<std::string>;

TEST(Pattern, NumberTakesThePlaceOfItsField) {
  EXPECT_EQ(expand("vm-%d", 7), "vm-7");
  EXPECT_EQ(expand("vm-%03d.x", 7), "vm-007.x");
  EXPECT_EQ(expand("%03d", 1234), "1234");
  EXPECT_EQ(expand("%09d", 0), "000000000");
  EXPECT_EQ(expand("plain", 3), "plain");
}

TEST(Pattern, EverythingElseBehindAPercentSignIsRefused) {
  for (const char* good : {"%d", "a%d", "%01d", "%09d/b"}) EXPECT_EQ(check_pattern(good), "") << good;
  for (const char* bad : {"",    "vm",  "%",    "%%",      "%s",  "%n",  "%3d",  "%0d", "%00d", "%010d", "%-3d", "%+d",
                          "%ld", "%03", "%d%d", "%d-%03d", "%d%", "%%d", "%1$d", "%*d", "% d",  "%x",    "%D"})
    EXPECT_NE(check_pattern(bad), "") << bad;
}

TEST(Templates, OneVolumeEntryMakesMany) {
  const Config config =
      good(with_volumes("  \"vm-%03d\": { count: 500, zvol: \"tank/vm-%03d\", sync: always, provision: { size: 10GiB, "
                        "clone_from: \"tank/gold-%d@a\" } }\n"));
  ASSERT_EQ(config.volumes.size(), 500u);
  EXPECT_EQ(config.volumes[0].name, "vm-001");
  EXPECT_EQ(config.volumes[0].path, "tank/vm-001");
  EXPECT_EQ(config.volumes[499].name, "vm-500");
  EXPECT_EQ(config.volumes[499].provision->clone_from, "tank/gold-500@a");
  EXPECT_EQ(config.volumes[499].provision->size, uint64_t{10} << 30);
  EXPECT_EQ(config.volumes[250].sync, Sync::always);
  EXPECT_EQ(config.volumes[250].where.line, 3);
}

TEST(Templates, FirstIsTheFirstNumber) {
  const Config config = good(with_volumes("  a%d: { count: 2, first: 0, memory: 1MiB }\n"));
  ASSERT_EQ(config.volumes.size(), 2u);
  EXPECT_EQ(config.volumes[0].name, "a0");
  EXPECT_EQ(config.volumes[1].size, uint64_t{1} << 20);
}

TEST(Templates, OneLunEntryMapsMany) {
  const Config config = good(
      "listen: [127.0.0.1]\nvolumes: { \"vm-%03d\": { count: 500, zvol: \"tank/vm-%03d\" } }\n"
      "targets:\n  - { name: \"iqn.2026-11.o:t\", luns: [{ lun: 10, count: 500, volume: \"vm-%03d\", read_only: true "
      "}] }\n");
  const auto& luns = config.targets[0].luns;
  ASSERT_EQ(luns.size(), 500u);
  EXPECT_EQ(luns[0].number, 10);
  EXPECT_EQ(luns[0].volume, "vm-001");
  EXPECT_EQ(luns[499].number, 509);
  EXPECT_EQ(luns[499].volume, "vm-500");
  EXPECT_TRUE(luns[499].read_only);
}

TEST(Templates, OneLunEntryDescribesMany) {
  const Config config =
      good(with_luns("      - { lun: 0, count: 3, name: \"vm-%03d\", zvol: \"tank/x%d\" }\n"
                     "      - { lun: 3, count: 2, first: 7, file: \"/srv/disk%02d.img\", provision: { size: 1GiB } }\n"
                     "      - { lun: 5, count: 2, memory: 1MiB }\n"));
  ASSERT_EQ(config.volumes.size(), 7u);
  std::vector<std::string> names;
  for (const Volume& volume : config.volumes) names.push_back(volume.name + "=" + volume.path);
  EXPECT_EQ(names, (Texts{"vm-001=tank/x1", "vm-002=tank/x2", "vm-003=tank/x3", "disk07.img=/srv/disk07.img",
                          "disk08.img=/srv/disk08.img", "t-lun5=", "t-lun6="}));
  ASSERT_EQ(config.targets[0].luns.size(), 7u);
  EXPECT_EQ(config.targets[0].luns[6].number, 6);
  EXPECT_EQ(config.targets[0].luns[6].volume, "t-lun6");
}

TEST(Templates, WhatHasNoPatternIsRefused) {
  const std::string form = ": %d, or %03d for 001";
  EXPECT_EQ(problems_of(with_volumes("  vm: { count: 2, zvol: tank/vm }\n")),
            (Texts{"3:3: 'vm' beside 'count': it needs a place for the number" + form,
                   "3:25: 'zvol' beside 'count': it needs a place for the number" + form}));
  EXPECT_EQ(problems_of(with_luns("      - { lun: 0, count: 2, volume: vm }\n")),
            (Texts{"5:37: 'volume' beside 'count': it needs a place for the number" + form}));
  EXPECT_EQ(
      problems_of(with_volumes("  \"vm%s\": { count: 2, device: \"/dev/x%d%d\" }\n")),
      (Texts{"3:3: 'vm%s' beside 'count': the place of the number is written %d, or %01d to %09d; nothing else may "
             "follow a '%'",
             "3:31: 'device' beside 'count': it has more than one '%'"}));
}

TEST(Templates, PatternWithoutCountAndFirstWithoutCount) {
  EXPECT_EQ(problems_of(with_volumes("  \"vm-%d\": { first: 3, zvol: tank/vm }\n")),
            (Texts{"3:3: 'vm-%d' is a pattern, which needs 'count' beside it", "3:14: 'first' goes with 'count'"}));
}

TEST(Templates, FileMayHaveAPercentSignWithoutCount) {
  EXPECT_EQ(good(with_volumes("  a: { file: \"/srv/100%d\" }\n")).volumes[0].path, "/srv/100%d");
}

TEST(Templates, OneUuidForManyIsRefused) {
  EXPECT_EQ(
      problems_of(with_volumes("  \"a%d\": { count: 2, memory: 1MiB, uuid: 5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44 }\n")),
      (Texts{"3:36: 'uuid' beside 'count': every volume has its own"}));
}

TEST(Templates, LunNumbersEndAtTheHighest) {
  EXPECT_EQ(problems_of(with_luns("      - { lun: 16383, count: 2, name: \"a%d\", memory: 1MiB }\n")),
            (Texts{"5:16: LUN 16383 and 'count' 2 go beyond the highest LUN, 16383"}));
  EXPECT_EQ(good(with_luns("      - { lun: 16382, count: 2, name: \"a%d\", memory: 1MiB }\n")).volumes.size(), 2u);
}

TEST(Templates, AllTemplatesTogetherAreBounded) {
  EXPECT_EQ(good(with_volumes("  \"a%d\": { count: 16384, memory: 1MiB }\n")).volumes.size(), 16384u);
  EXPECT_EQ(problems_of(with_volumes("  \"a%d\": { count: 16385, memory: 1MiB }\n")),
            (Texts{"3:19: 'count' expects a number, 1 to 16384, found '16385'"}));
  EXPECT_EQ(problems_of(with_volumes("  \"a%d\": { count: 10000, memory: 1MiB }\n"
                                     "  \"b%d\": { count: 10000, memory: 1MiB }\n")),
            (Texts{"4:12: 'count': all templates together make at most 16384 entries"}));
}

TEST(Templates, CollisionsAreToldAFewTimesOnly) {
  EXPECT_EQ(problems_of(with_volumes("  \"a%d\": { count: 100, memory: 1MiB }\n"
                                     "  \"a%01d\": { count: 100, memory: 1MiB }\n")),
            (Texts{"4:3: volume name 'a1' is already used at line 3", "4:3: volume name 'a2' is already used at line 3",
                   "4:3: volume name 'a3' is already used at line 3", "4:3: and 97 more of this entry"}));
}

TEST(Templates, LongestNameMustFit) {
  const std::string name(124, 'n');
  EXPECT_EQ(good(with_volumes("  \"" + name + "%d\": { count: 9999, memory: 1MiB }\n")).volumes.size(), 9999u);
  EXPECT_EQ(problems_of(with_volumes("  \"" + name + "%d\": { count: 10000, memory: 1MiB }\n")),
            (Texts{"3:3: a volume name has at most 128 characters"}));
}

}  // namespace
}  // namespace zvolt::config::test
