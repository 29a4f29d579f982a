// Every example of config/examples loads, and means what its comments say.
#include <filesystem>
#include <set>

#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

Config example(const std::string& name) {
  const Loaded loaded = load_file(std::string(ZVOLT_EXAMPLES_DIR) + "/" + name);
  EXPECT_EQ(texts(loaded.problems), std::vector<std::string>()) << name;
  return loaded.config;
}

TEST(Examples, EveryFileLoads) {
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(ZVOLT_EXAMPLES_DIR)) {
    if (entry.is_directory()) continue;
    seen.insert(entry.path().filename().string());
    example(entry.path().filename().string());
  }
  const std::set<std::string> expected = {
      "quickstart.yaml",     "file.yaml",           "device.yaml",  "several-targets.yaml", "lab-memory.yaml",
      "esxi-datastore.yaml", "hyperv-cluster.yaml", "proxmox.yaml", "windows-games.yaml",   "split.yaml"};
  EXPECT_EQ(seen, expected);
}

TEST(Examples, QuickstartIsOneFileOnLoopback) {
  const Config config = example("quickstart.yaml");
  ASSERT_EQ(config.listen.size(), 1u);
  EXPECT_EQ(config.listen[0].address, "127.0.0.1");
  ASSERT_EQ(config.volumes.size(), 1u);
  EXPECT_EQ(config.volumes[0].kind, StoreKind::file);
  ASSERT_TRUE(config.volumes[0].provision);
  EXPECT_EQ(config.volumes[0].provision->size, uint64_t{1} << 30);
  EXPECT_EQ(config.volumes[0].name, "quickstart.img");
  ASSERT_EQ(config.targets.size(), 1u);
  EXPECT_EQ(config.targets[0].luns[0].volume, "quickstart.img");
}

TEST(Examples, FileImageIsReadOnly) {
  const Config config = example("file.yaml");
  EXPECT_EQ(config.volume("data")->sync, Sync::always);
  EXPECT_TRUE(config.volume("iso")->read_only);
  EXPECT_FALSE(config.volume("data")->read_only);
}

TEST(Examples, DevicesAreZvolsAndAPinnedDisk) {
  const Config config = example("device.yaml");
  EXPECT_EQ(config.volume("vm1")->kind, StoreKind::zvol);
  EXPECT_EQ(config.volume("vm1")->path, "tank/vm/vm1");
  EXPECT_EQ(config.volume("scratch")->kind, StoreKind::device);
  EXPECT_EQ(config.volume("scratch")->block_size, 4096u);
  EXPECT_EQ(config.volume("scratch")->uuid, "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
}

TEST(Examples, SeveralTargetsShareVolumes) {
  const Config config = example("several-targets.yaml");
  EXPECT_EQ(config.volumes.size(), 2u);
  ASSERT_EQ(config.targets.size(), 2u);
  EXPECT_EQ(config.targets[1].groups, std::vector<uint16_t>{2});
  EXPECT_TRUE(config.targets[1].luns[0].read_only);
  EXPECT_FALSE(config.targets[0].luns[0].read_only);
  EXPECT_EQ(config.memory, uint64_t{512} << 20);
  EXPECT_TRUE(config.log_json);
}

TEST(Examples, EsxiDatastoresAreThinZvolsThatHostsWaitFor) {
  const Config config = example("esxi-datastore.yaml");
  const Volume& volume = *config.volume("vmfs2");
  ASSERT_TRUE(volume.provision);
  EXPECT_EQ(volume.provision->size, uint64_t{2} << 40);
  EXPECT_EQ(volume.provision->volblocksize, 65536u);
  EXPECT_TRUE(volume.provision->sparse);
  EXPECT_EQ(volume.provision->properties.at("volmode"), "dev");
  EXPECT_EQ(volume.limit.iops, 20000u);
  EXPECT_EQ(volume.limit.bandwidth, uint64_t{500} << 20);
  EXPECT_EQ(volume.not_ready_seconds, 1800u);
  EXPECT_EQ(config.volume("vmfs1")->limit, Limit());
}

TEST(Examples, HyperVVolumesReserveTheirSpace) {
  const Config config = example("hyperv-cluster.yaml");
  EXPECT_FALSE(config.volume("csv1")->provision->sparse);
  EXPECT_EQ(config.volume("csv1")->sync, Sync::always);
  EXPECT_EQ(config.targets[0].luns.size(), 3u);
}

TEST(Examples, ProxmoxHasTwoHundredDisksFromOneEntryAndAClone) {
  const Config config = example("proxmox.yaml");
  ASSERT_EQ(config.volumes.size(), 201u);
  EXPECT_EQ(config.volumes[0].name, "vm-100");
  EXPECT_EQ(config.volumes[199].path, "rpool/proxmox/vm-299");
  ASSERT_EQ(config.targets[0].luns.size(), 201u);
  EXPECT_EQ(config.targets[0].luns[200].number, 200);
  EXPECT_EQ(config.targets[0].luns[200].volume, "vm-299");
  EXPECT_EQ(config.volume("database")->provision->clone_from, "rpool/proxmox/debian12@gold");
  EXPECT_EQ(config.volume("database")->limit.burst_ms, 10'000u);
}

TEST(Examples, GamesAreOneLargeThinZvol) {
  const Config config = example("windows-games.yaml");
  EXPECT_EQ(config.volume("games")->provision->properties.at("compression"), "zstd");
  EXPECT_EQ(config.volume("saves")->provision->properties.at("copies"), "2");
}

TEST(Examples, LabHasMembersFromOneEntry) {
  const Config config = example("lab-memory.yaml");
  EXPECT_EQ(config.volume("member8")->size, uint64_t{64} << 20);
  EXPECT_EQ(config.targets[0].luns.back().number, 17);
  EXPECT_EQ(config.volume("slow")->limit.burst_ms, 100u);
}

TEST(Examples, SplitFilesAreOneConfiguration) {
  const Config config = example("split.yaml");
  ASSERT_EQ(config.files.size(), 3u);
  EXPECT_TRUE(config.files[1].ends_with("split/accounting.yaml"));
  EXPECT_TRUE(config.files[2].ends_with("split/build.yaml"));
  EXPECT_EQ(config.volumes.size(), 51u);
  EXPECT_EQ(config.targets.size(), 2u);
  EXPECT_EQ(config.volume("ledger")->sync, Sync::always);  // the main file's default
  EXPECT_EQ(config.volume("builder-50")->sync, Sync::standard);
}

}  // namespace
}  // namespace zvolt::config::test
