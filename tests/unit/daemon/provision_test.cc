// Files that are made and removed again: never half, never somebody else's.
#include "target/daemon/provision.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

class ProvisionTest : public ::testing::Test {
 protected:
  MadeFile make(const std::string& name, uint64_t size = 1 << 20) {
    std::vector<MadeFile> made;
    const auto result = provision_file(temp_.file(name), size, made);
    EXPECT_TRUE(result && *result);
    return made.empty() ? MadeFile() : made.front();
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(temp_.file(name)); }
  const test::TempDir temp_;
};

TEST_F(ProvisionTest, MakesASparseFileForItsOwnerOnly) {
  const MadeFile made = make("a.img", 1ull << 40);
  EXPECT_EQ(made.path, temp_.file("a.img"));
  EXPECT_EQ(std::filesystem::file_size(made.path), 1ull << 40);
  EXPECT_EQ(std::filesystem::status(made.path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_TRUE(sync_directories({made}));
}

TEST_F(ProvisionTest, LeavesNothingElseBehind) {
  make("a.img");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp_.path()), {}), 1);
}

TEST_F(ProvisionTest, WhatIsThereKeepsItsSize) {
  std::ofstream(temp_.file("a.img")) << "precious";
  std::vector<MadeFile> made;
  const auto result = provision_file(temp_.file("a.img"), 1 << 20, made);
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result);
  EXPECT_TRUE(made.empty());
  EXPECT_EQ(std::filesystem::file_size(temp_.file("a.img")), 8u);
}

TEST_F(ProvisionTest, MissingDirectoryIsNamed) {
  std::vector<MadeFile> made;
  const auto result = provision_file(temp_.file("no/a.img"), 1 << 20, made);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("no/a.img"), std::string::npos) << result.error().message;
}

TEST_F(ProvisionTest, UntouchedFileIsRemoved) {
  remove_untouched(make("a.img"));
  EXPECT_FALSE(exists("a.img"));
}

TEST_F(ProvisionTest, WrittenFileStays) {
  const MadeFile made = make("a.img");
  std::fstream(made.path, std::ios::in | std::ios::out) << "x";
  remove_untouched(made);
  EXPECT_TRUE(exists("a.img"));
}

TEST_F(ProvisionTest, AnotherFileInItsPlaceStays) {
  const MadeFile made = make("a.img");
  const MadeFile other = make("b.img");
  std::filesystem::rename(other.path, made.path);
  remove_untouched(made);
  EXPECT_TRUE(exists("a.img"));
}

TEST_F(ProvisionTest, FileGrowsAndShrinks) {
  const MadeFile made = make("a.img");
  ASSERT_TRUE(resize_file(made.path, 2 << 20));
  EXPECT_EQ(std::filesystem::file_size(made.path), 2u << 20);
  ASSERT_TRUE(resize_file(made.path, 1 << 19));
  EXPECT_EQ(std::filesystem::file_size(made.path), 1u << 19);
  EXPECT_FALSE(resize_file(temp_.file("missing"), 5));
  EXPECT_FALSE(exists("missing"));
}

TEST(Provision, ZvolIsMadeWithItsIdentity) {
  config::Volume volume;
  volume.path = "tank/a";
  volume.provision = config::Provision{.size = 1 << 30, .volblocksize = 65536, .sparse = true};
  volume.provision->properties["compression"] = "zstd";
  const auto spec = create_spec(volume, "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  EXPECT_EQ(spec.name, "tank/a");
  EXPECT_EQ(spec.size, 1u << 30);
  EXPECT_EQ(spec.volblocksize, 65536u);
  EXPECT_TRUE(spec.sparse);
  EXPECT_EQ(spec.properties, (std::map<std::string, std::string>{
                                 {"compression", "zstd"}, {"org.zvolt:uuid", "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44"}}));
}

TEST(Provision, ErrorSaysThatZvolsStay) {
  EXPECT_EQ(what_stays({}), "");
  EXPECT_EQ(what_stays({{}, {"tank/a"}}).substr(0, 33), "zvol tank/a was made and stays (n");
  EXPECT_EQ(what_stays({{}, {"tank/a", "tank/b"}}).substr(0, 40), "zvols tank/a, tank/b were made and stay ");
}

}  // namespace
}  // namespace zvolt::daemon
