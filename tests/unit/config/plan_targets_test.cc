// What every edit of targets, LUN maps, portals and the daemon's own values becomes, and how a plan is shown.
#include <nlohmann/json.hpp>

#include "tests/unit/config/plan_support.h"

namespace zvolt::config::test {
namespace {

using PlanTargets = PlanTest;

TEST_F(PlanTargets, AddedLunIsSeenBySessionsOfItsTargetOnly) {
  zvol("t/b", kGiB);
  logged_in("iqn.x:esx1");
  logged_in("iqn.x:other", "iqn.2026-11.o:elsewhere");
  EXPECT_EQ(
      steps(luns("{ lun: 0, volume: a }"), luns("{ lun: 0, volume: a }, { lun: 7, volume: b, read_only: true }")),
      (Lines{"open b: zvol t/b is opened, 1 GiB", "map_lun iqn.2026-11.o:t LUN 7: b is added, read-only @iqn.x:esx1"}));
}

TEST_F(PlanTargets, SecondMappingOfAnOpenVolumeOpensNothing) {
  const std::string one = luns("{ lun: 0, volume: a }");
  std::string two = one;
  two.insert(two.find("targets: [") + 10, "{ name: \"iqn.2026-11.o:u\", luns: [{ lun: 5, volume: a }] }, ");
  EXPECT_EQ(steps(one, two), (Lines{"add_target iqn.2026-11.o:u: is offered with 1 LUN"}));
}

TEST_F(PlanTargets, MovedLun) {
  logged_in("iqn.x:esx1");
  const Plan moved = plan(luns("{ lun: 3, volume: a }"), luns("{ lun: 5, volume: a, read_only: true }"));
  ASSERT_EQ(moved.steps.size(), 1u);
  EXPECT_EQ(moved.steps[0].kind, Step::Kind::move_lun);
  EXPECT_EQ(moved.steps[0].subject, "iqn.2026-11.o:t LUN 5");
  EXPECT_EQ(moved.steps[0].text, "a moves here from LUN 3, read-only from now on");
  EXPECT_EQ(moved.steps[0].lun, 5);
  EXPECT_EQ(moved.steps[0].from, "3");
  EXPECT_EQ(moved.steps[0].sessions.size(), 1u);
}

TEST_F(PlanTargets, NumberThatIsGivenToAnotherVolume) {
  zvol("t/b", kGiB);
  logged_in("iqn.x:esx1");
  EXPECT_EQ(
      steps(luns("{ lun: 0, volume: a }"), luns("{ lun: 0, volume: b }")),
      (Lines{"open b: zvol t/b is opened, 1 GiB",
             "replace_lun iqn.2026-11.o:t LUN 0: b takes the place of a; commands that run are ended and hosts see "
             "another disk @iqn.x:esx1",
             "close a: zvol t/a is closed and kept as it is"}));
}

TEST_F(PlanTargets, SwappedLunsAreTwoReplacements) {
  const Plan swapped =
      plan(luns("{ lun: 0, volume: a }, { lun: 1, volume: b }"), luns("{ lun: 0, volume: b }, { lun: 1, volume: a }"));
  ASSERT_EQ(swapped.steps.size(), 2u);
  for (const Step& step : swapped.steps) EXPECT_EQ(step.kind, Step::Kind::replace_lun);
  EXPECT_EQ(swapped.steps[0].from, "a");
  EXPECT_EQ(swapped.steps[0].volume, "b");
}

TEST_F(PlanTargets, DiskWhoseNumberIsTakenByAnotherIsAddedAtItsNewNumber) {
  EXPECT_EQ(
      steps(luns("{ lun: 0, volume: a }, { lun: 1, volume: b }"), luns("{ lun: 0, volume: b }, { lun: 2, volume: a }")),
      (Lines{"map_lun iqn.2026-11.o:t LUN 2: a is added",
             "replace_lun iqn.2026-11.o:t LUN 0: b takes the place of a; commands that run are ended and hosts see "
             "another disk",
             "unmap_lun iqn.2026-11.o:t LUN 1: b is taken away from its hosts; its store is kept"}));
}

TEST_F(PlanTargets, ReadOnlyOfAMappingChangesLive) {
  logged_in("iqn.x:esx1");
  EXPECT_EQ(steps(luns("{ lun: 0, volume: a }"), luns("{ lun: 0, volume: a, read_only: true }")),
            (Lines{"change iqn.2026-11.o:t LUN 0: a is read-only for its hosts from now on @iqn.x:esx1"}));
  EXPECT_EQ(steps(luns("{ lun: 0, volume: a, read_only: true }"), luns("{ lun: 0, volume: a }")),
            (Lines{"change iqn.2026-11.o:t LUN 0: a is writable for its hosts again @iqn.x:esx1"}));
}

TEST_F(PlanTargets, RemovedTargetLogsItsHostsOut) {
  logged_in("iqn.x:esx1");
  const std::string one = luns("{ lun: 0, volume: a }");
  std::string two = one;
  two.replace(two.find(":t\""), 3, ":u\"");
  EXPECT_EQ(steps(one, two),
            (Lines{"add_target iqn.2026-11.o:u: is offered with 1 LUN",
                   "remove_target iqn.2026-11.o:t: is no longer offered; its stores are kept; hosts that "
                   "are logged in are logged out @iqn.x:esx1 ENDS"}));
}

TEST_F(PlanTargets, InitiatorsThatMayNoLongerLogInAreLoggedOut) {
  logged_in("iqn.x:esx1");
  logged_in("iqn.x:esx2");
  logged_in("IQN.y:Host");
  const std::string all = luns("{ lun: 0, volume: a }");
  EXPECT_EQ(steps(all, luns("{ lun: 0, volume: a }", "initiators: [\"iqn.x:esx1\", \"iqn.Y:*\"], ")),
            (Lines{"change_target iqn.2026-11.o:t: initiators becomes iqn.x:esx1, iqn.Y:* (was any); hosts that may no "
                   "longer log in are logged out @iqn.x:esx2 ENDS"}));
  EXPECT_EQ(steps(luns("{ lun: 0, volume: a }", "initiators: [\"iqn.x:esx1\"], "), all),
            (Lines{"change_target iqn.2026-11.o:t: initiators becomes any (was iqn.x:esx1)"}));
}

TEST_F(PlanTargets, GroupsAliasAndAllowAny) {
  logged_in("iqn.x:esx1", "iqn.2026-11.o:t", 1);
  logged_in("iqn.x:esx2", "iqn.2026-11.o:t", 2);
  logged_in("iqn.x:esx3");
  const auto listen = [](std::string yaml) {
    return "listen: [{ address: 127.0.0.1, group: 1 }, { address: \"::1\", group: 2 }]\n" +
           yaml.substr(yaml.find('\n') + 1);
  };
  EXPECT_EQ(
      steps(listen(luns("{ lun: 0, volume: a }", "alias: one, ")),
            listen(luns("{ lun: 0, volume: a }", "groups: [2], allow_any: true, "))),
      (Lines{"change_target iqn.2026-11.o:t: alias becomes empty (was one)",
             "change_target iqn.2026-11.o:t: allow_any becomes true (was false)",
             "change_target iqn.2026-11.o:t: groups becomes 2 (was all); hosts that may no longer log in are logged "
             "out @iqn.x:esx1 ENDS"}));
}

TEST_F(PlanTargets, Portals) {
  logged_in("iqn.x:esx1", "iqn.2026-11.o:t", 1, "127.0.0.1:3260");
  logged_in("iqn.x:esx2", "iqn.2026-11.o:t", 1, "[::1]:3261");
  const std::string one = "listen: [\"127.0.0.1:3260\", \"[::1]:3261\"]\n";
  const std::string two = "listen: [{ address: \"[::1]:3261\", group: 4 }, \"127.0.0.1:3262\"]\n";
  EXPECT_EQ(
      steps(one, two),
      (Lines{"add_portal 127.0.0.1:3262: takes logins, portal group 1",
             "change_portal [::1]:3261: new logins belong to portal group 4 (was 1); sessions stay as they are",
             "remove_portal 127.0.0.1:3260: takes no more logins; sessions that came through it go on @iqn.x:esx1"}));
}

TEST_F(PlanTargets, WhatOnlyAStartReadsIsToldUntilThen) {
  const std::string running = "listen: [127.0.0.1]\n";
  const std::string wanted =
      "listen: [127.0.0.1]\nthreads: 4\nmemory: 1GiB\nstate_dir: /srv/s\nadmin: { socket: /run/z.sock }\n"
      "log: { level: debug, json: true }\n";
  EXPECT_EQ(steps(running, wanted),
            (Lines{"change log.level: becomes debug (was info)",
                   "restart log.json: becomes true (was false) at the next start",
                   "restart threads: becomes 4 (was auto) at the next start",
                   "restart memory: becomes 1 GiB (was auto) at the next start",
                   "restart state_dir: becomes /srv/s (was /var/lib/zvolt) at the next start",
                   "restart admin.socket: becomes /run/z.sock (was /run/zvolt/admin.sock) at the "
                   "next start"}));
  const Config after = after_apply(good(running), good(wanted));
  EXPECT_EQ(after.log_level, "debug");
  EXPECT_EQ(make_plan(after, good(wanted), facts_).steps.size(), 5u);
  EXPECT_EQ(after_apply(Config(), good(wanted)).threads, 4u);
}

TEST_F(PlanTargets, StepsComeInASafeOrder) {
  zvol("t/c", kGiB);
  zvol("t/a", 4 * kGiB);
  const std::string running =
      "listen: [\"127.0.0.1:1\"]\nvolumes: { a: { zvol: t/a, provision: { size: 4GiB } }, b: { zvol: t/b } }\n"
      "targets: [{ name: \"iqn.2026-11.o:t\", luns: [{ lun: 0, volume: a }, { lun: 1, volume: b }] }]\n";
  const std::string wanted =
      "listen: [\"127.0.0.1:2\"]\nvolumes: { a: { zvol: t/a, sync: always, provision: { size: 1GiB, allow_shrink: true "
      "} "
      "}, c: { zvol: t/c } }\n"
      "targets: [{ name: \"iqn.2026-11.o:t\", luns: [{ lun: 0, volume: a }, { lun: 2, volume: c }] }]\n";
  std::vector<std::string> kinds;
  for (const Step& step : plan(running, wanted).steps) kinds.push_back(kind_name(step.kind));
  EXPECT_EQ(kinds, (Lines{"open", "change", "add_portal", "map_lun", "unmap_lun", "remove_portal", "shrink", "close"}));
}

TEST_F(PlanTargets, FiveHundredLunsAndAOneLineEdit) {
  const std::string head = "listen: [127.0.0.1]\nvolumes: { \"vm-%03d\": { count: 500, zvol: \"t/vm-%03d\"";
  const std::string tail =
      " } }\ntargets: [{ name: \"iqn.2026-11.o:t\", luns: [{ lun: 0, count: 500, volume: \"vm-%03d\" }] }]\n";
  for (int i = 1; i <= 20; ++i) logged_in("iqn.x:esx" + std::to_string(i));
  EXPECT_TRUE(plan(head + tail, head + tail).nothing());
  const Plan limited = plan(head + tail, head + ", limit: { iops: 1000 }" + tail);
  EXPECT_EQ(limited.steps.size(), 500u);
  EXPECT_EQ(limited.sessions().size(), 20u);
}

TEST_F(PlanTargets, TextNamesTheSessionsOnceAndSumsUp) {
  zvol("t/a", kGiB);
  logged_in("iqn.x:esx1");
  const std::string running = luns("{ lun: 0, volume: a }"), wanted = luns(
                                                                 "{ lun: 0, volume: a }, { lun: 1, volume: b }, "
                                                                 "{ lun: 2, volume: c }");
  EXPECT_EQ(plan_text(plan(running, wanted)),
            "+ b: zvol t/b is opened; its present state could not be asked\n"
            "+ c: zvol t/c is opened; its present state could not be asked\n"
            "+ iqn.2026-11.o:t LUN 1: b is added\n"
            "    seen by iqn.x:esx1 (10.0.0.5:4000) on iqn.2026-11.o:t\n"
            "+ iqn.2026-11.o:t LUN 2: c is added\n"
            "4 steps; 1 session sees it\n");
  EXPECT_EQ(plan_text(plan(running, running)), "nothing to do\n");
}

TEST_F(PlanTargets, TextOfWhatIsRefusedAndWhatLosesData) {
  zvol("t/a", 2 * kGiB);
  const std::string running = volumes({"a: { zvol: t/a, provision: { size: 2GiB } }"});
  EXPECT_EQ(plan_text(plan(running, volumes({"a: { zvol: t/a, provision: { size: 1GiB } }"}))),
            "! a: refused: a is not made smaller, 2 GiB -> 1 GiB: the last 1 GiB would be lost; if that is meant, say "
            "'allow_shrink: true' in 'provision'\n"
            "refused: nothing of this can be applied before the lines above marked 'refused' are mended\n");
  EXPECT_EQ(plan_text(plan(running, volumes({"a: { zvol: t/a, provision: { size: 1GiB, allow_shrink: true } }"}))),
            "! a: the last 1 GiB of a are cut off and lost: 2 GiB become 1 GiB\n"
            "1 step; no session notices; DATA IS LOST, see the lines marked '!'\n");
}

TEST_F(PlanTargets, JsonHasEverythingOfAStep) {
  logged_in("iqn.x:esx1", "iqn.2026-11.o:t", 3, "127.0.0.1:3260");
  const auto json =
      nlohmann::json::parse(plan_json(plan(luns("{ lun: 3, volume: a }"), luns("{ lun: 5, volume: a }"))));
  EXPECT_EQ(json["refused"], false);
  EXPECT_EQ(json["nothing"], false);
  ASSERT_EQ(json["steps"].size(), 1u);
  const auto& step = json["steps"][0];
  EXPECT_EQ(step["kind"], "move_lun");
  EXPECT_EQ(step["lun"], 5);
  EXPECT_EQ(step["volume"], "a");
  EXPECT_EQ(step["from"], "3");
  EXPECT_EQ(step["target"], "iqn.2026-11.o:t");
  const nlohmann::json session = {{"initiator", "iqn.x:esx1"},
                                  {"target", "iqn.2026-11.o:t"},
                                  {"tsih", 1},
                                  {"address", "10.0.0.5:4000"},
                                  {"group", 3},
                                  {"portal", "127.0.0.1:3260"}};
  EXPECT_EQ(step["sessions"], nlohmann::json::array({session}));
  EXPECT_EQ(json["sessions"], nlohmann::json::array({session}));
}

}  // namespace
}  // namespace zvolt::config::test
