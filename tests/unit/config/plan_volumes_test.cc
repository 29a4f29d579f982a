// What every edit of a volume becomes: one step, one sentence, and the sessions that see it.
#include "tests/unit/config/plan_support.h"

namespace zvolt::config::test {
namespace {

using PlanVolumes = PlanTest;

TEST_F(PlanVolumes, NoEditIsNoStep) {
  zvol("t/a", kGiB);
  logged_in("iqn.x:esx1");
  const std::string yaml = volumes({"a: { zvol: t/a, provision: { size: 1GiB } }", "m: { memory: 1MiB }"});
  EXPECT_EQ(steps(yaml, yaml), Lines());
  EXPECT_TRUE(plan(yaml, yaml).nothing());
}

TEST_F(PlanVolumes, StartOpensCreatesAndGrows) {
  zvol("t/a", kGiB);
  missing("/dev/zvol/t/b");
  missing("/dev/zvol/t/c");
  missing("/srv/f");
  EXPECT_EQ(
      steps("", volumes({"a: { zvol: t/a, provision: { size: 2GiB } }",
                         "b: { zvol: t/b, provision: { size: 1GiB, volblocksize: 64KiB, sparse: true, properties: "
                         "{ compression: zstd } } }",
                         "c: { zvol: t/c, provision: { size: 1000KiB, volblocksize: 64KiB } }",
                         "f: { file: /srv/f, provision: { size: 1GiB } }", "m: { memory: 1MiB }"})),
      (Lines{"create_store b: zvol t/b is created, 1 GiB, volblocksize 64 KiB, sparse, compression=zstd",
             "create_store c: zvol t/c is created, 1 MiB (rounded up to whole volblocks), volblocksize 64 KiB, "
             "with its space reserved",
             "create_store f: file /srv/f is created, 1 GiB", "open a: zvol t/a is opened, 1 GiB",
             "open b: zvol t/b is opened", "open c: zvol t/c is opened", "open f: file /srv/f is opened",
             "open m: 1 MiB of memory is set up", "grow a: a grows from 1 GiB to 2 GiB",
             "add_portal 127.0.0.1:3260: takes logins, portal group 1",
             "add_target iqn.2026-11.o:t: is offered with 5 LUNs"}));
}

TEST_F(PlanVolumes, CloneIsCreatedFromItsSnapshot) {
  missing("/dev/zvol/t/a");
  EXPECT_EQ(steps("", volumes({"a: { zvol: t/a, provision: { clone_from: t/gold@1, size: 4GiB } }"})).at(0),
            "create_store a: zvol t/a is created as a clone of t/gold@1, 4 GiB");
  EXPECT_EQ(steps("", volumes({"a: { zvol: t/a, provision: { clone_from: t/gold@1 } }"})).at(0),
            "create_store a: zvol t/a is created as a clone of t/gold@1");
}

TEST_F(PlanVolumes, LateDeviceIsWaitedForAndAMissingFileIsRefused) {
  missing("/dev/zvol/t/a");
  missing("/srv/f");
  const Lines lines = steps("", volumes({"a: { zvol: t/a }", "f: { file: /srv/f }"}));
  EXPECT_EQ(lines.at(0),
            "refuse f: there is no file /srv/f; create it, or give 'provision' with the size it is to have");
  EXPECT_EQ(lines.at(1), "open a: zvol t/a is not there yet; hosts are told to wait, and it is opened when it appears");
  EXPECT_TRUE(plan("", volumes({"f: { file: /srv/f }"})).refused());
}

TEST_F(PlanVolumes, StoreThatCouldNotBeAskedIsNeitherCreatedNorResized) {
  EXPECT_EQ(steps("", volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"})).at(0),
            "open a: zvol t/a is opened; its present state could not be asked, so it is neither created nor resized");
  EXPECT_EQ(
      steps(volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}),
            volumes({"a: { zvol: t/a, provision: { size: 2GiB } }"})),
      (Lines{"note a: zvol t/a could not be asked for its size: it keeps its size; apply again when it is back"}));
}

TEST_F(PlanVolumes, AddedAndRemovedVolume) {
  zvol("t/b", kGiB);
  logged_in("iqn.x:esx1");
  const std::string one = volumes({"a: { zvol: t/a }"}), two = volumes({"a: { zvol: t/a }", "b: { zvol: t/b }"});
  EXPECT_EQ(steps(one, two),
            (Lines{"open b: zvol t/b is opened, 1 GiB", "map_lun iqn.2026-11.o:t LUN 1: b is added @iqn.x:esx1"}));
  EXPECT_EQ(steps(two, one),
            (Lines{"unmap_lun iqn.2026-11.o:t LUN 1: b is taken away from its hosts; its store is kept @iqn.x:esx1",
                   "close b: zvol t/b is closed and kept as it is"}));
}

TEST_F(PlanVolumes, RemovedMemoryLosesItsContents) {
  const std::string one = volumes({"a: { zvol: t/a }"}), two = volumes({"a: { zvol: t/a }", "m: { memory: 1MiB }"});
  EXPECT_EQ(steps(two, one).at(1), "close m: 1 MiB of memory is given back and its contents are lost LOSES");
}

TEST_F(PlanVolumes, VolumeThatIsNoLunIsNotOpened) {
  const std::string one = volumes({"a: { zvol: t/a }"});
  EXPECT_EQ(steps(one, one + "include: []\n"), Lines());
  std::string two = one;
  two.insert(two.find("targets"), "  spare: { zvol: t/spare, provision: { size: 1GiB } }\n");
  EXPECT_EQ(steps(one, two), Lines());
}

TEST_F(PlanVolumes, GrowReachesEverySessionOfTheVolume) {
  zvol("t/a", 100 * kGiB);
  logged_in("iqn.x:esx1");
  logged_in("iqn.x:other", "iqn.2026-11.o:elsewhere");
  const auto lines = steps(volumes({"a: { zvol: t/a, provision: { size: 100GiB } }"}),
                           volumes({"a: { zvol: t/a, provision: { size: 200GiB } }"}));
  EXPECT_EQ(lines, (Lines{"grow a: a grows from 100 GiB to 200 GiB @iqn.x:esx1"}));
  const Plan grown = plan(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/a, provision: { size: 200GiB } }"}));
  ASSERT_EQ(grown.steps.size(), 1u);
  EXPECT_EQ(grown.steps[0].size, 200 * kGiB);
  EXPECT_FALSE(grown.destructive());
}

TEST_F(PlanVolumes, GrowIsRoundedUpToVolblocks) {
  zvol("t/a", kGiB, 65536);
  const Plan grown =
      plan(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/a, provision: { size: 1048580KiB } }"}));
  ASSERT_EQ(grown.steps.size(), 1u);
  EXPECT_EQ(grown.steps[0].size, kGiB + 65536);
  EXPECT_NE(grown.steps[0].text.find("(rounded up to whole volblocks)"), std::string::npos);
}

TEST_F(PlanVolumes, SizeThatDiffersByRoundingOnlyIsNoStep) {
  zvol("t/a", kGiB + 65536, 65536);
  const std::string yaml = volumes({"a: { zvol: t/a, provision: { size: 1048580KiB } }"});
  EXPECT_EQ(steps(yaml, yaml), Lines());
}

TEST_F(PlanVolumes, ShrinkWithoutPermissionIsRefused) {
  zvol("t/vm1", 220 * kGiB);
  logged_in("iqn.x:esx1");
  const std::string running = volumes({"vm1: { zvol: t/vm1, provision: { size: 220GiB } }"});
  const std::string wanted = volumes({"vm1: { zvol: t/vm1, provision: { size: 200GiB } }"});
  EXPECT_EQ(steps(running, wanted),
            (Lines{"shrink_refused vm1: vm1 is not made smaller, 220 GiB -> 200 GiB: the last 20 GiB would be lost; if "
                   "that is meant, say 'allow_shrink: true' in 'provision' @iqn.x:esx1"}));
  EXPECT_TRUE(plan(running, wanted).refused());
}

TEST_F(PlanVolumes, ShrinkWithPermissionSaysWhatIsLost) {
  zvol("t/vm1", 220 * kGiB);
  logged_in("iqn.x:esx1");
  const std::string running = volumes({"vm1: { zvol: t/vm1, provision: { size: 220GiB } }"});
  const std::string wanted = volumes({"vm1: { zvol: t/vm1, provision: { size: 200GiB, allow_shrink: true } }"});
  EXPECT_EQ(steps(running, wanted),
            (Lines{"shrink vm1: the last 20 GiB of vm1 are cut off and lost: 220 GiB become 200 "
                   "GiB @iqn.x:esx1 LOSES"}));
  EXPECT_TRUE(plan(running, wanted).destructive());
  EXPECT_FALSE(plan(running, wanted).refused());
  EXPECT_EQ(plan(running, wanted).steps[0].size, 200 * kGiB);
}

TEST_F(PlanVolumes, AllowShrinkAloneIsAnEditThatAsks) {
  zvol("t/a", 2 * kGiB);
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}),
                  volumes({"a: { zvol: t/a, provision: { size: 1GiB, allow_shrink: true } }"}))
                .at(0)
                .substr(0, 8),
            "shrink a");
}

TEST_F(PlanVolumes, StoreGrownByHandIsNeverCutBack) {
  zvol("t/a", 2 * kGiB);
  const std::string allowed = volumes({"a: { zvol: t/a, provision: { size: 1GiB, allow_shrink: true } }"});
  const Lines note = {"note a: a has 2 GiB although the configuration says 1 GiB: it stays as it is"};
  EXPECT_EQ(steps(allowed, allowed), note);
  EXPECT_TRUE(plan(allowed, allowed).nothing());
  const Lines start = steps("", allowed);
  EXPECT_EQ(start.back(), note[0]);
  // A size that is given for the first time says what it is to be at least.
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"})), note);
}

TEST_F(PlanVolumes, StoreThatIsGoneIsNotMadeAnewWhileItIsServed) {
  missing("/dev/zvol/t/a");
  const std::string one = volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"});
  EXPECT_EQ(steps(one, one), Lines());
  EXPECT_EQ(steps(one, volumes({"a: { zvol: t/a, provision: { size: 2GiB } }"})),
            (Lines{"note a: zvol t/a is not there now: it keeps its size; apply again when it is back"}));
}

TEST_F(PlanVolumes, LiveChanges) {
  logged_in("iqn.x:esx1");
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a }"}),
                  volumes({"a: { zvol: t/a, sync: always, read_only: true, limit: { iops: 500, bandwidth: 100MiB }, "
                           "wait_for_device: 1h }"})),
            (Lines{"change a: sync becomes always (was standard) @iqn.x:esx1",
                   "change a: hosts can no longer write @iqn.x:esx1",
                   "change a: limit becomes 500 IOPS, 100 MiB/s, burst 1s (was none) @iqn.x:esx1",
                   "change a: wait_for_device becomes 1h (was 5min)"}));
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, read_only: true, limit: { iops: 500, burst: 2s } }"}),
                  volumes({"a: { zvol: t/a, sync: disabled, limit: { iops: 500 } }"})),
            (Lines{"change a: sync becomes disabled (was standard); writes that were acknowledged are lost at a power "
                   "cut @iqn.x:esx1",
                   "change a: hosts can write again @iqn.x:esx1",
                   "change a: limit becomes 500 IOPS, burst 1s (was 500 IOPS, burst 2s) @iqn.x:esx1"}));
  const Plan limited = plan(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/a, limit: { iops: 500 } }"}));
  EXPECT_EQ(limited.steps.at(0).what, "limit");
  EXPECT_EQ(limited.steps.at(0).from, "none");
}

TEST_F(PlanVolumes, BlockSizesOfADiskInUseAreRefused) {
  const std::string running = volumes({"a: { zvol: t/a }"});
  const std::string wanted = volumes({"a: { zvol: t/a, block_size: 4096, physical_block_size: volblocksize }"});
  EXPECT_EQ(
      steps(running, wanted),
      (Lines{"replace_unit a: block_size 512 -> 4096: the disk is taken down and comes back changed; no host uses it",
             "replace_unit a: physical_block_size auto -> volblocksize: the disk is taken down and comes back "
             "changed; no host uses it"}));
  logged_in("iqn.x:esx1");
  EXPECT_EQ(
      steps(running, wanted).at(0),
      "refuse a: block_size 512 -> 4096 while hosts use the disk would damage what they have on it; log them out, "
      "then apply again @iqn.x:esx1");
  EXPECT_TRUE(plan(running, wanted).refused());
}

TEST_F(PlanVolumes, MemoryOfAnotherSizeLosesItsContents) {
  const std::string running = volumes({"m: { memory: 1MiB }"}), wanted = volumes({"m: { memory: 2MiB }"});
  EXPECT_EQ(steps(running, wanted),
            (Lines{"replace_unit m: memory 1 MiB -> 2 MiB: the disk is taken down and comes back "
                   "changed; no host uses it; its contents are lost LOSES"}));
  logged_in("iqn.x:esx1");
  EXPECT_TRUE(plan(running, wanted).refused());
  EXPECT_FALSE(plan(running, wanted).destructive());
}

TEST_F(PlanVolumes, PinningTheIdentityThatItHasIsNoStep) {
  const std::string uuid = "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44";
  facts_.open["a"] = {.store = "/dev/zvol/t/a", .uuid = uuid};
  const std::string running = volumes({"a: { zvol: t/a }"});
  EXPECT_EQ(steps(running, volumes({"a: { zvol: t/a, uuid: " + uuid + " }"})), Lines());
  const std::string other = volumes({"a: { zvol: t/a, uuid: 5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e45 }"});
  EXPECT_EQ(steps(running, other).at(0).substr(0, 14), "replace_unit a");
  logged_in("iqn.x:esx1");
  EXPECT_TRUE(plan(running, other).refused());
}

TEST_F(PlanVolumes, TestFaultsAreChangedWhileNobodyUsesTheDisk) {
  Config running = good(volumes({"m: { memory: 1MiB }"})), wanted = running;
  wanted.volumes[0].faults.push_back({.action = "error"});
  EXPECT_EQ(make_plan(running, wanted, facts_).steps.at(0).kind, Step::Kind::replace_unit);
}

TEST_F(PlanVolumes, RenamedVolumeIsTheSameDisk) {
  logged_in("iqn.x:esx1");
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a }"}), volumes({"disk: { zvol: t/a }"})),
            (Lines{"rename_volume disk: volume 'a' is called 'disk' from now on"}));
}

TEST_F(PlanVolumes, SwappedNamesAreTwoRenames) {
  const auto lines =
      steps(luns("{ lun: 0, volume: a }, { lun: 1, volume: b }"),
            "listen: [127.0.0.1]\nvolumes: { b: { zvol: t/a }, a: { zvol: t/b } }\n"
            "targets: [{ name: \"iqn.2026-11.o:t\", luns: [{ lun: 0, volume: b }, { lun: 1, volume: a }] }]\n");
  EXPECT_EQ(lines, (Lines{"rename_volume b: volume 'a' is called 'b' from now on",
                          "rename_volume a: volume 'b' is called 'a' from now on"}));
}

TEST_F(PlanVolumes, PathOfAnotherStoreIsAnotherDisk) {
  zvol("t/b", kGiB);
  logged_in("iqn.x:esx1");
  EXPECT_EQ(
      steps(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/b }"})),
      (Lines{"open a: zvol t/b is opened, 1 GiB",
             "replace_lun iqn.2026-11.o:t LUN 0: a is another store now; commands that run are ended and hosts see "
             "another disk @iqn.x:esx1",
             "close a: zvol t/a is closed and kept as it is"}));
}

TEST_F(PlanVolumes, ZvolThatWasRenamedInZfsIsFollowed) {
  logged_in("iqn.x:esx1");
  facts_.open["a"] = {.store = "/dev/zvol/t/new", .uuid = ""};
  const std::string running = volumes({"a: { zvol: t/a }"});
  EXPECT_EQ(steps(running, volumes({"a: { zvol: t/new }"})),
            (Lines{"change a: zvol t/new is followed under its new name, it was t/a"}));
  EXPECT_EQ(
      steps(running, running),
      (Lines{"note a: what is open as zvol t/a is called t/new by now; write that name into the configuration, or "
             "it is not found at the next start"}));
}

TEST_F(PlanVolumes, ZvolInThePlaceOfARenamedOneIsAnotherDisk) {
  zvol("t/a", kGiB);
  facts_.open["a"] = {.store = "/dev/zvol/t/old", .uuid = ""};
  EXPECT_EQ(
      steps(volumes({"a: { zvol: t/a }"}), volumes({"a: { zvol: t/old }", "n: { zvol: t/a }"})),
      (Lines{"open n: zvol t/a is opened, 1 GiB", "change a: zvol t/old is followed under its new name, it was t/a",
             "map_lun iqn.2026-11.o:t LUN 1: n is added"}));
}

TEST_F(PlanVolumes, OtherSpellingOfOneDeviceAndForceCountAtTheNextStart) {
  const std::string running = volumes({"a: { device: /dev/zvol/t/a }"});
  const std::string wanted = volumes({"a: { zvol: t/a, force: true }"});
  EXPECT_EQ(
      steps(running, wanted),
      (Lines{"restart a: zvol becomes zvol t/a (was device /dev/zvol/t/a) when the store is opened at the next start",
             "restart a: force becomes true (was false) when the store is opened at the next start"}));
  const Config after = after_apply(good(running), good(wanted));
  EXPECT_EQ(after.volumes[0].kind, StoreKind::device);
  EXPECT_FALSE(after.volumes[0].force);
  EXPECT_EQ(make_plan(after, good(wanted), facts_).steps.size(), 2u);
}

TEST_F(PlanVolumes, ZfsPropertiesFollowTheirEdits) {
  zvol("t/a", kGiB);
  logged_in("iqn.x:esx1");
  const std::string running =
      volumes({"a: { zvol: t/a, provision: { size: 1GiB, properties: { compression: lz4, copies: 2 } } }"});
  EXPECT_EQ(steps(running, volumes({"a: { zvol: t/a, provision: { size: 1GiB, sparse: true, properties: { compression: "
                                    "zstd, logbias: latency } } }"})),
            (Lines{"change a: ZFS property compression of t/a becomes zstd (was lz4)",
                   "change a: ZFS property logbias of t/a becomes latency",
                   "change a: t/a gives the space back that it has reserved in the pool",
                   "note a: ZFS property copies of t/a is no longer named; it stays 2"}));
  const Plan changed =
      plan(running, volumes({"a: { zvol: t/a, provision: { size: 1GiB, properties: { compression: zstd, "
                             "copies: 2 } } }"}));
  EXPECT_EQ(changed.steps.at(0).what, "provision.properties.compression");
  EXPECT_EQ(changed.steps.at(0).to, "zstd");
}

TEST_F(PlanVolumes, WhatZfsDecidesAtCreationIsToldAndKept) {
  zvol("t/a", kGiB, 16384);
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}),
                  volumes({"a: { zvol: t/a, provision: { size: 1GiB, volblocksize: 64KiB } }"})),
            (Lines{"note a: volblocksize of an existing zvol cannot change: 64 KiB counts for a new one only"}));
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}),
                  volumes({"a: { zvol: t/a, provision: { size: 1GiB, volblocksize: 16KiB } }"})),
            Lines());
  EXPECT_EQ(steps(volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}),
                  volumes({"a: { zvol: t/a, provision: { size: 1GiB, clone_from: t/g@1 } }"})),
            (Lines{"note a: clone_from counts when a zvol is created; t/a stays what it is"}));
}

}  // namespace
}  // namespace zvolt::config::test
