// Every kind of error, with its exact place and words, and all of one file in one run.
#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

using Texts = std::vector<std::string>;

TEST(Problems, UnknownKeyAtTopWithNearest) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nvolums: {}\n"),
            Texts({"2:1: unknown key 'volums' in the configuration, did you mean 'volumes'?"}));
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\npassword: x\n"),
            Texts({"2:1: unknown key 'password' in the configuration"}));
}

TEST(Problems, UnknownKeyInEveryMapping) {
  EXPECT_EQ(
      problems_of(R"(listen: [{ adress: 127.0.0.1 }]
admin: { sockt: /a }
log: { levle: info }
defaults: { block: 512 }
volumes:
  a: { file: /a, provision: { size: 4k, szie: 5 }, snyc: always }
targets:
  - { name: iqn.2026-11.o:t, lunz: [], luns: [{ lum: 0, volume: a }] }
)"),
      Texts({"1:10: a listen address needs the key 'address'",
             "1:12: unknown key 'adress' in a listen address, did you mean 'address'?",
             "2:10: unknown key 'sockt' in 'admin', did you mean 'socket'?",
             "3:8: unknown key 'levle' in 'log', did you mean 'level'?", "4:13: unknown key 'block' in 'defaults'",
             "6:41: unknown key 'szie' in 'provision', did you mean 'size'?",
             "6:52: unknown key 'snyc' in a volume, did you mean 'sync'?",
             "8:30: unknown key 'lunz' in a target, did you mean 'luns'?", "8:47: a LUN needs the key 'lun'",
             "8:49: unknown key 'lum' in a LUN, did you mean 'lun'?"}));
}

TEST(Problems, ListenIsRequired) {
  EXPECT_EQ(problems_of("threads: 1\n"), Texts({"1:1: the configuration needs the key 'listen'"}));
  EXPECT_EQ(problems_of("listen: []\n"), Texts({"1:9: 'listen' is empty: give at least one address"}));
}

TEST(Problems, WrongTypes) {
  EXPECT_EQ(problems_of(R"(listen: [127.0.0.1, [a]]
state_dir: [a]
threads: -1
memory: lots
admin: /run/sock
log: { level: [info], json: yes }
volumes: [a]
targets: { name: t }
)"),
            Texts({"1:21: a listen address is a map of keys and values, found a list",
                   "2:12: 'state_dir' expects text, found a list",
                   "3:10: 'threads' expects 'auto' or a decimal number, found '-1'",
                   "4:9: 'memory': expects a size like 512, 64KiB or 10GiB, found 'lots'",
                   "5:8: 'admin' expects a map, found '/run/sock'",
                   "6:15: 'level' expects trace, debug, info, warning or error, found a list",
                   "6:29: 'json' expects true or false, found 'yes'", "7:10: 'volumes' expects a map, found a list",
                   "8:10: 'targets' expects a list, found a map"}));
}

TEST(Problems, KeyWithoutValue) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nstate_dir:\nthreads: ~\nvolumes:\n  a:\n"),
            Texts({"2:1: 'state_dir' expects text, it has no value",
                   "3:1: 'threads' expects 'auto' or a number, it has no value", "5:3: volume 'a' has no value"}));
}

TEST(Problems, NumbersOutOfRangeOrInQuotes) {
  EXPECT_EQ(problems_of("listen: [{ address: 127.0.0.1, group: 65536 }]\nthreads: 257\nmemory: 1MiB\n"),
            Texts({"1:39: 'group' expects a number, 1 to 65535, found '65536'",
                   "2:10: 'threads' expects 'auto' or a number, 1 to 256, found '257'",
                   "3:9: 'memory' expects a size, 16MiB to 16TiB, found '1MiB'"}));
  EXPECT_EQ(
      problems_of(with_luns("      - { lun: \"0\", memory: 1MiB }\n      - { lun: 010, memory: 1MiB }\n"
                            "      - { lun: 16384, memory: 1MiB }\n")),
      Texts({"5:16: 'lun' expects a decimal number, found \"0\"", "6:16: 'lun' expects a decimal number, found '010'",
             "7:16: 'lun' expects a number, 0 to 16383, found '16384'"}));
}

TEST(Problems, DuplicateKeysThatYamlParsersKeepSilently) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nthreads: 1\nthreads: 2\nlog: { json: true, json: false }\n"),
            Texts({"3:1: key 'threads' is already given at line 2", "4:20: key 'json' is already given at line 4"}));
  EXPECT_EQ(problems_of(with_volumes("  a: { zvol: t/a }\n  a: { zvol: t/b }\n")),
            Texts({"4:3: volume name 'a' is already used at line 3"}));
}

TEST(Problems, UnsupportedKeysTellTheReason) {
  const auto problems = problems_of(R"(listen: [127.0.0.1]
admin: { http: "127.0.0.1:9326" }
volumes:
  a: { file: /a, profile: esxi }
targets:
  - { name: iqn.2026-11.o:t, auth: { chap: { user: a, secret_file: /s } }, limit: { iops: 50 }, luns: [] }
)");
  const std::vector<std::string> starts = {
      "2:10: 'http' is not supported yet: ", "4:18: 'profile' is not supported yet: ",
      "6:30: 'auth' is not supported yet: ", "6:76: 'limit' is not supported yet: give the volumes a 'limit'"};
  ASSERT_EQ(problems.size(), starts.size());
  for (size_t i = 0; i < starts.size(); ++i) EXPECT_EQ(problems[i].substr(0, starts[i].size()), starts[i]);
  for (const std::string& p : problems) EXPECT_EQ(p.find("secret"), std::string::npos) << p;
}

TEST(Problems, ListenAddresses) {
  EXPECT_EQ(problems_of("listen:\n  - localhost:3260\n  - 127.0.0.1:70000\n  - { address: \"[::1\" }\n  - 127.0.0.1\n"
                        "  - 127.0.0.1:3260\n"),
            Texts({"2:5: listen address: 'localhost' is no IP address (names are not looked up)",
                   "3:5: listen address: '70000' is no port, 0 to 65535",
                   "4:16: listen address: an IPv6 address with a port is written [address]:port",
                   "6:5: address '127.0.0.1:3260' is already used at line 5"}));
}

TEST(Problems, PathsAreAbsoluteAndBounded) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nstate_dir: var\nadmin: { socket: run/x }\n"),
            Texts({"2:12: 'state_dir' expects an absolute path, found 'var'",
                   "3:18: 'socket' expects an absolute path, found 'run/x'"}));
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nadmin: { socket: /" + std::string(107, 'x') + " }\n"),
            Texts({"2:18: the path of a Unix socket has at most 107 bytes"}));
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nadmin: { socket: /" + std::string(106, 'x') + " }\n"), Texts());
}

TEST(Problems, VolumesNeedExactlyOneStore) {
  EXPECT_EQ(
      problems_of(
          with_volumes("  a: { sync: always }\n  b: { file: /b, zvol: t/b }\n  c: { file: c }\n  d: { zvol: t }\n")),
      Texts({"3:6: the volume has no store: give one of 'zvol', 'device', 'file', 'memory' or 'null'",
             "4:8: 'file' beside 'zvol': a volume has one store", "5:14: 'file' expects an absolute path, found 'c'",
             "6:14: 'zvol': expects pool/path, without /dev/zvol"}));
  EXPECT_EQ(
      problems_of(with_luns("      - { lun: 0 }\n")),
      Texts({"5:9: the LUN has no store: give 'volume: NAME' or one of 'zvol', 'device', 'file', 'memory' or 'null'"}));
}

TEST(Problems, VolumeValues) {
  EXPECT_EQ(problems_of(with_volumes(R"(  a: { memory: 1000000 }
  b: { memory: 1GB }
  c: { memory: 4608, block_size: 4096 }
  d: { file: /d, provision: { size: 10000 } }
  e: { file: /e, provision: {} }
  f: { device: /f, provision: { size: 1G } }
  g: { zvol: t/g, block_size: 1024 }
  h: { zvol: t/h, block_size: 4096, physical_block_size: 512 }
  i: { zvol: t/i, uuid: 1234 }
  j: { zvol: t/j, sync: never }
)")),
            Texts({"3:16: 'memory': 1000000 is not a multiple of the block size 512",
                   "4:16: 'memory': 'GB' is ambiguous: write GiB, found '1GB'",
                   "5:16: 'memory': 4608 is not a multiple of the block size 4096",
                   "6:37: 'size': 10000 is not a multiple of the block size 512", "7:29: 'provision' needs 'size'",
                   "8:20: 'provision' goes with 'zvol' and 'file' only",
                   "9:31: 'block_size' expects 512 or 4096, found '1024'",
                   "10:58: 'physical_block_size' is less than the block size 4096",
                   "11:25: 'uuid' expects a UUID like 5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44, found '1234'",
                   "12:25: 'sync' expects standard, always or disabled, found 'never'"}));
}

TEST(Problems, VolumeNames) {
  EXPECT_EQ(problems_of(with_volumes("  \"a b\": { zvol: t/a }\n  \"\": { zvol: t/b }\n  [x]: { zvol: t/c }\n")),
            Texts({"3:3: a volume name consists of letters, digits and _ - . : / + @", "4:3: the name is empty",
                   "5:3: a volume's name is a word, found a list"}));
}

TEST(Problems, OneStoreForTwoVolumes) {
  const std::string tail = ": describe it once under 'volumes' and map it with 'volume: NAME'";
  EXPECT_EQ(problems_of(with_volumes("  a: { file: /srv//x }\n  b: { file: /srv/y/../x }\n  c: { zvol: t/c }\n"
                                     "  d: { device: /dev/zvol/t/c }\n")),
            Texts({"4:14: '/srv/x' is already the store of volume 'a' (line 3)" + tail,
                   "6:16: '/dev/zvol/t/c' is already the store of volume 'c' (line 5)" + tail}));
}

TEST(Problems, OneUuidForTwoVolumes) {
  EXPECT_EQ(problems_of(with_volumes("  a: { file: /a, uuid: 5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44 }\n"
                                     "  b: { file: /b, uuid: 5C1F6BD2-7B66-4F5F-9D0C-3A8F3A1D2E44 }\n")),
            Texts({"4:24: UUID '5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44' is already used at line 3"}));
}

TEST(Problems, LunNumbersAndReferences) {
  EXPECT_EQ(problems_of(R"(listen: [127.0.0.1]
volumes: { alpha: { zvol: t/a }, beta: { zvol: t/b } }
targets:
  - name: iqn.2026-11.o:t
    luns:
      - { lun: 0, volume: alpah }
      - { lun: 1, volume: alpha }
      - { lun: 1, volume: beta }
      - { lun: 2, volume: beta, sync: always, name: x }
      - { lun: 3, volume: alpha }
)"),
            Texts({"6:27: there is no volume 'alpah', did you mean 'alpha'?", "8:16: LUN '1' is already used at line 7",
                   "9:27: volume 'beta' is already used at line 8",
                   "9:33: 'sync' beside 'volume': it belongs to the volume itself",
                   "9:47: 'name' beside 'volume': the volume has its name already",
                   "10:27: volume 'alpha' is already used at line 7"}));
}

TEST(Problems, InLineVolumesWithOneName) {
  EXPECT_EQ(problems_of(with_luns("      - { lun: 0, file: /a/disk.img }\n      - { lun: 1, file: /b/disk.img }\n")),
            Texts({"6:9: volume name 'disk.img' is already used at line 5"}));
}

TEST(Problems, TargetNames) {
  EXPECT_EQ(
      problems_of(R"(listen: [127.0.0.1]
targets:
  - { name: disk, luns: [] }
  - { name: iqn.2026-11.o:t, luns: [] }
  - { name: iqn.2026-11.o:t, luns: [] }
  - { luns: [] }
  - { name: iqn.2026-11.o:u }
  - text
)"),
      Texts({"3:13: target name: an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'",
             "5:13: target name 'iqn.2026-11.o:t' is already used at line 4", "6:5: a target needs the key 'name'",
             "7:5: a target needs the key 'luns'", "8:5: a target is a map of keys and values, found 'text'"}));
}

TEST(Problems, TargetOpenToEverybodyIsRefused) {
  const std::string targets = "targets:\n  - { name: iqn.2026-11.o:t, luns: []";
  const std::string problem =
      "every host that reaches 0.0.0.0 could log in to this target: name the 'initiators' that may, or say 'allow_any: "
      "true'";
  EXPECT_EQ(problems_of("listen: [127.0.0.1, 0.0.0.0]\n" + targets + " }\n"), Texts({"3:13: " + problem}));
  EXPECT_EQ(problems_of("listen: [127.0.0.1, \"[::1]\"]\n" + targets + " }\n"), Texts());
  EXPECT_EQ(problems_of("listen: [0.0.0.0]\n" + targets + ", allow_any: true }\n"), Texts());
  EXPECT_EQ(problems_of("listen: [0.0.0.0]\n" + targets + ", allow_any: false }\n"), Texts({"3:13: " + problem}));
  EXPECT_EQ(problems_of("listen: [0.0.0.0]\n" + targets + ", initiators: [\"iqn.a:*\"] }\n"), Texts());
}

TEST(Problems, OnlyTheTargetsOwnPortalGroupsCount) {
  const std::string listen = "listen: [{ address: 127.0.0.1, group: 1 }, { address: 0.0.0.0, group: 2 }]\n";
  const std::string target = "targets: [{ name: iqn.2026-11.o:t, luns: [], groups: ";
  EXPECT_EQ(problems_of(listen + target + "[1] }]\n"), Texts());
  EXPECT_EQ(problems_of(listen + target + "[1, 2] }]\n").size(), 1u);
  EXPECT_EQ(problems_of(listen + target + "[3, x, 0] }]\n").at(0), "2:55: no address of 'listen' is in portal group 3");
  EXPECT_EQ(problems_of(listen + target + "[3, x, 0] }]\n").at(1),
            "2:58: a portal group is a number, 1 to 65535, found 'x'");
}

TEST(Problems, InitiatorPatterns) {
  EXPECT_EQ(
      problems_of(
          "listen: [0.0.0.0]\ntargets:\n  - { name: iqn.2026-11.o:t, luns: [], initiators: [\"*x\", [a], host] }\n"
          "  - { name: iqn.2026-11.o:u, luns: [], initiators: [] }\n"),
      Texts({"3:53: initiators: a '*' stands only at the end of a pattern",
             "3:59: initiators: a pattern is text, found a list",
             "3:64: initiators: an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'",
             "4:52: 'initiators' is empty: name who may log in, or '*'"}));
}

TEST(Problems, FaultRules) {
  const LoadOptions options{.test_stores = true};
  EXPECT_EQ(
      problems_of(with_volumes("  a: { memory: 1MiB, faults: [{ op: erase }, { action: delay, error: 0 }, 5] }\n"),
                  options),
      Texts({"3:31: a fault needs the key 'action'",
             "3:37: 'op' expects any, read, write, flush, write_zeroes or discard, found 'erase'",
             "3:70: 'error' expects a number, 1 to 133, found '0'",
             "3:75: a fault is a map of keys and values, found '5'"}));
}

TEST(Problems, ProblemsOfASharedAnchorAreTold) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\nvolumes:\n  a: &v { zvol: t, snyc: x }\n  b: *v\n"),
            Texts({"3:17: 'zvol': expects pool/path, without /dev/zvol",
                   "3:20: unknown key 'snyc' in a volume, did you mean 'sync'?"}));
}

TEST(Warnings, UnusedVolumesAndHighLuns) {
  EXPECT_EQ(
      warnings_of("listen: [127.0.0.1]\nvolumes:\n  a: { zvol: t/a }\n  b: { zvol: t/b, sync: disabled }\ntargets:\n"
                  "  - { name: iqn.2026-11.o:t, luns: [{ lun: 256, volume: b }, { lun: 255, null: 1M }] }\n"),
      Texts({"3:3: volume 'a' is not a LUN of any target",
             "4:3: volume 'b': sync: disabled loses acknowledged writes at a power cut",
             "6:44: LUN 256: many hosts look at LUNs 0 to 255 only",
             "6:62: volume 't-lun255': a null store keeps nothing that is written"}));
}

TEST(Warnings, NothingToServeAndRandomPort) {
  EXPECT_EQ(warnings_of("listen: [\"127.0.0.1:0\"]\n"),
            Texts({"1:1: there are no targets: nothing is served",
                   "1:10: port 0: the system chooses a port at every start"}));
}

}  // namespace
}  // namespace zvolt::config::test
