// What a good configuration becomes.
#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

TEST(Loader, DefaultsAreThoseOfTheDesign) {
  const Config config = good("listen: [\"10.0.0.1\"]\n");
  EXPECT_EQ(config.file, "test.yaml");
  EXPECT_EQ(config.state_dir, "/var/lib/zvolt");
  EXPECT_EQ(config.admin_socket, "/run/zvolt/admin.sock");
  EXPECT_EQ(config.threads, 0u);
  EXPECT_EQ(config.memory, 0u);
  EXPECT_EQ(config.log_level, "info");
  EXPECT_FALSE(config.log_json);
  ASSERT_EQ(config.listen.size(), 1u);
  EXPECT_EQ(config.listen[0].port, 3260);
  EXPECT_EQ(config.listen[0].group, 1);
}

TEST(Loader, EveryTopLevelKey) {
  const Config config = good(R"(listen:
  - { address: "0.0.0.0:3260", group: 7 }
  - "[::]:3260"
state_dir: /srv//state/
threads: 12
memory: 1GiB
admin: { socket: /tmp/a.sock }
log: { level: debug, json: true }
)");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[0].group, 7);
  EXPECT_EQ(config.listen[1].address, "::");
  EXPECT_EQ(config.state_dir, "/srv/state");
  EXPECT_EQ(config.threads, 12u);
  EXPECT_EQ(config.memory, uint64_t{1} << 30);
  EXPECT_EQ(config.admin_socket, "/tmp/a.sock");
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_TRUE(config.log_json);
}

TEST(Loader, AutoIsAWordForThreadsAndMemory) {
  const Config config = good("listen: [127.0.0.1]\nthreads: auto\nmemory: auto\n");
  EXPECT_EQ(config.threads, 0u);
  EXPECT_EQ(config.memory, 0u);
}

TEST(Loader, VolumesTakeDefaultsUnlessTheySayOtherwise) {
  const Config config = good(R"(listen: [127.0.0.1]
defaults: { block_size: 4096, sync: always, physical_block_size: volblocksize }
volumes:
  a: { zvol: tank/a }
  b: { device: /dev/sdz, block_size: 512, sync: disabled, physical_block_size: auto, read_only: true, force: true }
)");
  const Volume& a = *config.volume("a");
  EXPECT_EQ(a.block_size, 4096u);
  EXPECT_EQ(a.sync, Sync::always);
  EXPECT_EQ(a.physical_block_size, UINT32_MAX);
  EXPECT_FALSE(a.force);
  const Volume& b = *config.volume("b");
  EXPECT_EQ(b.block_size, 512u);
  EXPECT_EQ(b.sync, Sync::disabled);
  EXPECT_EQ(b.physical_block_size, 0u);
  EXPECT_TRUE(b.read_only);
  EXPECT_TRUE(b.force);
}

TEST(Loader, InLineVolumesGetNames) {
  const Config config = good(with_luns(R"(      - { lun: 0, zvol: tank/a }
      - { lun: 1, file: /srv/x/disk.img, read_only: true }
      - { lun: 2, device: /dev/disk/by-id/abc }
      - { lun: 3, memory: 1GiB }
      - { lun: 4, null: 2GiB }
      - { lun: 5, name: scratch, memory: 64MiB }
)"));
  ASSERT_EQ(config.volumes.size(), 6u);
  std::vector<std::string> names;
  for (const Volume& v : config.volumes) names.push_back(v.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tank/a", "disk.img", "abc", "t-lun3", "t-lun4", "scratch"}));
  EXPECT_TRUE(config.volumes[1].read_only);
  EXPECT_EQ(config.volumes[4].kind, StoreKind::null);
  EXPECT_EQ(config.volumes[4].size, uint64_t{2} << 30);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(config.targets[0].luns[i].volume, names[i]);
}

TEST(Loader, TargetsInFull) {
  const Config config = good(R"(listen: [{ address: "10.0.0.1", group: 1 }, { address: "10.0.0.2", group: 2 }]
volumes: { a: { zvol: tank/a } }
targets:
  - name: iqn.2026-11.org.example:t
    alias: "a target"
    groups: [1, 2]
    initiators: ["iqn.1998-01.com.vmware:*", "*"]
    luns: [{ lun: 16383, volume: a, read_only: true }]
  - { name: iqn.2026-11.org.example:u, allow_any: true, luns: [{ lun: 0, volume: a }] }
)");
  ASSERT_EQ(config.targets.size(), 2u);
  const Target& t = config.targets[0];
  EXPECT_EQ(t.alias, "a target");
  EXPECT_EQ(t.groups, (std::vector<uint16_t>{1, 2}));
  EXPECT_EQ(t.initiators, (std::vector<std::string>{"iqn.1998-01.com.vmware:*", "*"}));
  EXPECT_EQ(t.luns[0].number, 16383);
  EXPECT_TRUE(t.luns[0].read_only);
  EXPECT_TRUE(config.targets[1].allow_any);
}

TEST(Loader, AnchorsAndAliases) {
  const Config config = good(R"(listen: [127.0.0.1]
volumes:
  a: { zvol: tank/a, sync: &s always }
  b: { zvol: tank/b, sync: *s }
targets:
  - { name: "iqn.2026-11.org.example:t", luns: &l [{ lun: 0, volume: a }, { lun: 1, volume: b }] }
  - { name: "iqn.2026-11.org.example:u", luns: *l }
)");
  EXPECT_EQ(config.volume("b")->sync, Sync::always);
  ASSERT_EQ(config.targets.size(), 2u);
  EXPECT_EQ(config.targets[1].luns.size(), 2u);
}

TEST(Loader, FaultsOnlyWithTestStores) {
  const std::string yaml = with_volumes(
      "  a: { memory: 1MiB, faults: [{ op: write, action: error, offset: 4k, length: 8k, after: 2, count: 1, error: 28 "
      "},"
      " { action: short, bytes: 512, delay_us: 7 }] }\n");
  const Config config = good(yaml, {.test_stores = true});
  ASSERT_EQ(config.volumes[0].faults.size(), 2u);
  const FaultRule& rule = config.volumes[0].faults[0];
  EXPECT_EQ(rule.op, "write");
  EXPECT_EQ(rule.action, "error");
  EXPECT_EQ(rule.offset, 4096u);
  EXPECT_EQ(rule.length, 8192u);
  EXPECT_EQ(rule.after, 2u);
  EXPECT_EQ(rule.count, 1u);
  EXPECT_EQ(rule.error, 28);
  EXPECT_EQ(config.volumes[0].faults[1].op, "any");
  EXPECT_EQ(config.volumes[0].faults[1].bytes, 512u);
  EXPECT_EQ(config.volumes[0].faults[1].delay_us, 7u);
  EXPECT_EQ(problems_of(yaml),
            (std::vector<std::string>{"3:22: 'faults' makes a test store, which needs zvoltd --test-stores"}));
}

TEST(Loader, FileThatIsMissingIsAProblem) {
  const Loaded loaded = load_file("/nonexistent/zvolt.yaml");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].text(), "/nonexistent/zvolt.yaml:1:1: cannot read the file: No such file or directory");
}

TEST(Loader, DirectoryAndEndlessDeviceAreProblems) {
  EXPECT_FALSE(load_file("/tmp").ok());
  EXPECT_FALSE(load_file("/dev/zero").ok());
}

}  // namespace
}  // namespace zvolt::config::test
