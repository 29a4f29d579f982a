// `provision`, `limit` and `wait_for_device` of volumes: what they become, and what ZFS or a host could not bear.
#include "config/duration.h"
#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

using Texts = std::vector<std::string>;

Volume volume_of(const std::string& keys) {
  return good(with_volumes("  a: { " + keys + " }\n")).volumes.at(0);
}
// Problems of one volume whose keys start at column 8 of line 3, or are the values of `provision` of zvol t/a.
Texts refused(const std::string& keys) {
  return problems_of(with_volumes("  a: { " + keys + " }\n"));
}
Texts refused_zvol(const std::string& provision) {
  Texts out = problems_of(with_volumes("  a:\n    zvol: t/a\n    provision: { " + provision + " }\n"));
  for (std::string& text : out) text = text.substr(text.find(": ") + 2);
  return out;
}

TEST(Provision, ZvolInFull) {
  const Volume volume = volume_of(
      "zvol: t/a, provision: { size: 1TiB, volblocksize: 64KiB, sparse: true, allow_shrink: true, "
      "properties: { compression: off, \"com.example:owner\": 7, copies: 2 } }, on_remove: keep");
  ASSERT_TRUE(volume.provision);
  EXPECT_EQ(volume.provision->size, uint64_t{1} << 40);
  EXPECT_EQ(volume.provision->volblocksize, 65536u);
  EXPECT_TRUE(volume.provision->sparse);
  EXPECT_TRUE(volume.provision->allow_shrink);
  EXPECT_EQ(volume.provision->properties,
            (std::map<std::string, std::string>{{"compression", "off"}, {"com.example:owner", "7"}, {"copies", "2"}}));
  EXPECT_EQ(volume.provision->where.line, 3);
}

TEST(Provision, DefaultsReserveSpaceAndNeverShrink) {
  const Volume zvol = volume_of("zvol: t/a, provision: { size: 1GiB }");
  EXPECT_FALSE(zvol.provision->sparse);
  EXPECT_FALSE(zvol.provision->allow_shrink);
  EXPECT_EQ(zvol.provision->volblocksize, 0u);
  EXPECT_TRUE(volume_of("file: /a, provision: { size: 1GiB }").provision->sparse);
  EXPECT_FALSE(volume_of("zvol: t/a").provision);
}

TEST(Provision, CloneNeedsNoSizeAndSharesItsBlocks) {
  const Volume volume = volume_of("zvol: t/a, provision: { clone_from: t/gold@v1 }");
  EXPECT_FALSE(volume.provision->size);
  EXPECT_TRUE(volume.provision->sparse);
  EXPECT_EQ(volume.provision->clone_from, "t/gold@v1");
}

TEST(Provision, SizeOrSnapshotIsNeeded) {
  EXPECT_EQ(refused_zvol(""), (Texts{"'provision' needs 'size', or 'clone_from' of a snapshot"}));
  EXPECT_EQ(refused("file: /a, provision: {}"), (Texts{"3:29: 'provision' needs 'size'"}));
}

TEST(Provision, GoesWithZvolsAndFilesOnly) {
  EXPECT_EQ(refused("memory: 1MiB, provision: { size: 1G }"),
            (Texts{"3:22: 'provision' goes with 'zvol' and 'file' only"}));
  EXPECT_EQ(refused("device: /dev/x, provision: { size: 1G }"),
            (Texts{"3:24: 'provision' goes with 'zvol' and 'file' only"}));
}

TEST(Provision, FilesHaveASizeOnly) {
  EXPECT_EQ(refused("file: /a, provision: { size: 1G, sparse: true, volblocksize: 8k, properties: {}, clone_from: x }"),
            (Texts{"3:41: 'sparse' goes with 'zvol' only", "3:55: 'volblocksize' goes with 'zvol' only",
                   "3:73: 'properties' goes with 'zvol' only", "3:89: 'clone_from' goes with 'zvol' only"}));
}

TEST(Provision, VolblocksizeIsAPowerOfTwo) {
  for (const char* good_size : {"512", "4k", "16KiB", "128KiB", "1MiB", "16MiB"})
    EXPECT_EQ(refused_zvol(std::string("size: 1G, volblocksize: ") + good_size), Texts()) << good_size;
  EXPECT_EQ(refused_zvol("size: 1G, volblocksize: 24KiB"),
            (Texts{"'volblocksize' expects a power of two, 512 to 16MiB, found '24KiB'"}));
  EXPECT_EQ(refused_zvol("size: 1G, volblocksize: 32MiB"),
            (Texts{"'volblocksize' expects a size, 512 to 16MiB, found '32MiB'"}));
  EXPECT_EQ(refused_zvol("size: 1G, volblocksize: 256"),
            (Texts{"'volblocksize' expects a size, 512 to 16MiB, found '256'"}));
}

TEST(Provision, LargeVolblocksAndRoundedSizesAreWarnings) {
  const auto warnings =
      warnings_of(with_volumes("  a: { zvol: t/a, provision: { size: 1000KiB, volblocksize: 64KiB } }\n"
                               "  b: { zvol: t/b, provision: { size: 1GiB, volblocksize: 256KiB } }\n"));
  EXPECT_NE(std::find(warnings.begin(), warnings.end(),
                      "3:38: size 1000KiB: ZFS rounds it up to whole blocks of 64KiB, 1MiB"),
            warnings.end());
  EXPECT_NE(std::find(warnings.begin(), warnings.end(),
                      "4:58: volblocksize 256KiB: more than 128KiB needs the pool feature large_blocks"),
            warnings.end());
}

TEST(Provision, PropertiesWithKeysOfTheirOwnAreRefused) {
  EXPECT_EQ(refused_zvol("size: 1G, properties: { volsize: 2G, volblocksize: 8k, readonly: on, type: volume }"),
            (Texts{"properties: 'volsize' has a key of its own: 'size'",
                   "properties: 'volblocksize' has a key of its own: 'volblocksize'",
                   "properties: 'readonly' would make the zvol unwritable for zvolt too: use 'read_only' of the volume",
                   "properties: 'type' is not to be set: it is a volume"}));
  EXPECT_EQ(refused_zvol("size: 1G, properties: { \"org.zvolt:uuid\": x }"),
            (Texts{"properties: 'org.zvolt:uuid' belongs to zvolt, which keeps a volume's identity there"}));
  EXPECT_EQ(refused_zvol("size: 1G, sparse: true, properties: { refreservation: 1G }"),
            (Texts{"properties: 'refreservation' contradicts 'sparse: true', which reserves nothing"}));
  EXPECT_EQ(refused_zvol("size: 1G, properties: { refreservation: 1G }"), Texts());
  EXPECT_EQ(refused_zvol("size: 1G, properties: { volmode: none }"),
            (Texts{"properties: 'volmode' must not be 'none': the zvol would have no device"}));
}

TEST(Provision, ZfsSyncDisabledUnderADurableVolumeIsRefused) {
  EXPECT_EQ(
      refused_zvol("size: 1G, properties: { sync: disabled }"),
      (Texts{"properties: 'sync' must not be 'disabled': ZFS would lose writes that were acknowledged as durable"}));
  EXPECT_EQ(refused("zvol: t/a, sync: disabled, provision: { size: 1G, properties: { sync: disabled } }"), Texts());
  EXPECT_EQ(refused_zvol("size: 1G, properties: { sync: always }"), Texts());
}

TEST(Provision, PropertiesAreNamesAndValues) {
  EXPECT_EQ(refused_zvol("size: 1G, properties: { Compression: on, \"a b\": c, -o: x, copies: [2], checksum: }"),
            (Texts{"properties: the name of a ZFS property consists of a-z, 0-9 and _ - . : +",
                   "properties: the name of a ZFS property consists of a-z, 0-9 and _ - . : +",
                   "properties: the name of a ZFS property does not start with '-'",
                   "'properties' pairs names of ZFS properties with values, found a list",
                   "'properties' pairs names of ZFS properties with values, found nothing"}));
  EXPECT_EQ(refused_zvol("size: 1G, properties: { copies: 1, copies: 2 }"),
            (Texts{"properties: 'copies' is given twice"}));
  EXPECT_EQ(refused_zvol("size: 1G, properties: [a]"), (Texts{"'properties' expects a map, found a list"}));
}

TEST(Provision, CloneIsOfASnapshotInTheSamePool) {
  const Texts form = {"'clone_from': expects a snapshot, pool/path@name"};
  for (const char* bad : {"t/b", "t/b@", "@x", "t@x", "/t/b@x", "t/../b@x"})
    EXPECT_EQ(refused_zvol(std::string("clone_from: \"") + bad + "\""), form) << bad;
  EXPECT_EQ(refused_zvol("clone_from: other/b@x"),
            (Texts{"'clone_from': a clone is in the pool of its snapshot, 'other'"}));
  EXPECT_EQ(refused_zvol("clone_from: t/b@x%d"), (Texts{"'clone_from': a '%' has no place in a ZFS name"}));
  EXPECT_EQ(refused_zvol("clone_from: t/b@x, volblocksize: 8k, sparse: true"),
            (Texts{"'volblocksize' beside 'clone_from': a clone shares the blocks of its snapshot",
                   "'sparse' beside 'clone_from': a clone shares the blocks of its snapshot"}));
}

TEST(Limits, IopsBandwidthAndBurst) {
  const Limit limit = volume_of("zvol: t/a, limit: { iops: 500, bandwidth: 100MiB/s, burst: 10s }").limit;
  EXPECT_EQ(limit.iops, 500u);
  EXPECT_EQ(limit.bandwidth, uint64_t{100} << 20);
  EXPECT_EQ(limit.burst_ms, 10'000u);
  const Limit plain = volume_of("zvol: t/a, limit: { bandwidth: 1GiB }").limit;
  EXPECT_EQ(plain.bandwidth, uint64_t{1} << 30);
  EXPECT_EQ(plain.iops, 0u);
  EXPECT_EQ(plain.burst_ms, 1000u);
  EXPECT_TRUE(volume_of("zvol: t/a").limit.unlimited());
}

TEST(Limits, WhatHostsCouldNotBearIsRefused) {
  EXPECT_EQ(refused("zvol: t/a, limit: { iops: 5, bandwidth: 1000, burst: 2h }"),
            (Texts{"3:34: 'iops' expects a number, 10 to 1000000000, found '5'",
                   "3:48: 'bandwidth' expects a size, 1MiB to 16TiB, found '1000'",
                   "3:61: 'burst' expects a time, 0s to 1h, found '2h'"}));
  EXPECT_EQ(refused("zvol: t/a, limit: { burst: 1s }"), (Texts{"3:19: 'limit' needs 'iops' or 'bandwidth'"}));
  EXPECT_EQ(refused("zvol: t/a, limit: 500"), (Texts{"3:26: 'limit' expects a map, found '500'"}));
}

TEST(Wait, OfVolumesAndAsADefault) {
  EXPECT_EQ(volume_of("zvol: t/a").not_ready_seconds, 300u);
  EXPECT_EQ(volume_of("zvol: t/a, wait_for_device: 2min").not_ready_seconds, 120u);
  EXPECT_EQ(volume_of("zvol: t/a, wait_for_device: 1500ms").not_ready_seconds, 2u);
  EXPECT_EQ(volume_of("device: /dev/x, wait_for_device: 0").not_ready_seconds, 0u);
  const Config config = good(
      "listen: [127.0.0.1]\ndefaults: { wait_for_device: 1h }\nvolumes: { a: { zvol: t/a }, b: { zvol: "
      "t/b, wait_for_device: 10 } }\n");
  EXPECT_EQ(config.volume("a")->not_ready_seconds, 3600u);
  EXPECT_EQ(config.volume("b")->not_ready_seconds, 10u);
}

TEST(Wait, IsBoundedAndOnlyForWhatCanBeLate) {
  EXPECT_EQ(refused("file: /a, wait_for_device: 1min"),
            (Texts{"3:18: 'wait_for_device' goes with 'zvol' and 'device' only"}));
  EXPECT_EQ(refused("zvol: t/a, wait_for_device: 8d"),
            (Texts{"3:36: 'wait_for_device' expects a time, 0s to 7d, found '8d'"}));
  EXPECT_EQ(refused("zvol: t/a, wait_for_device: forever"),
            (Texts{"3:36: 'wait_for_device' expects a time like 500ms, 30s, 5min or 1h, found 'forever'"}));
}

TEST(OnRemove, StoresAreAlwaysKept) {
  EXPECT_EQ(refused("zvol: t/a, on_remove: destroy"), (Texts{"3:30: 'on_remove' expects keep, found 'destroy'"}));
}

TEST(Duration, UnitsAndBounds) {
  EXPECT_EQ(parse_duration("500ms"), 500u);
  EXPECT_EQ(parse_duration("30"), 30'000u);
  EXPECT_EQ(parse_duration("30 s"), 30'000u);
  EXPECT_EQ(parse_duration("5m"), 300'000u);
  EXPECT_EQ(parse_duration("5min"), 300'000u);
  EXPECT_EQ(parse_duration("2h"), 7'200'000u);
  EXPECT_EQ(parse_duration("7d"), 604'800'000u);
  for (const char* bad : {"", "s", "-1s", "1.5s", "1x", "1 ", "1  s", "1s ", "9999999999999s", "0x10", "5M"})
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
}

TEST(Duration, IsWrittenInItsLargestWholeUnit) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(1500), "1500ms");
  EXPECT_EQ(format_duration(90'000), "90s");
  EXPECT_EQ(format_duration(300'000), "5min");
  EXPECT_EQ(format_duration(86'400'000), "1d");
}

}  // namespace
}  // namespace zvolt::config::test
