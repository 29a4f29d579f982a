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
    seen.insert(entry.path().filename().string());
    example(entry.path().filename().string());
  }
  const std::set<std::string> expected = {"quickstart.yaml", "file.yaml", "device.yaml", "several-targets.yaml",
                                          "lab-memory.yaml"};
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

}  // namespace
}  // namespace zvolt::config::test
