// Identities stay with what is served, whatever else changes in the configuration.
#include "target/daemon/identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

class IdentityTest : public ::testing::Test {
 protected:
  VolumeKey file(const std::string& volume, const std::string& name) {
    const std::string path = temp_.file(name);
    if (!std::filesystem::exists(path)) std::ofstream(path) << "x";
    return gone(volume, name);
  }
  VolumeKey gone(const std::string& volume, const std::string& name) const {
    return {volume, "", "file:" + temp_.file(name), temp_.file(name)};
  }
  static VolumeKey memory(const std::string& volume) { return {volume, "", "", ""}; }

  std::vector<std::string> identities(const std::vector<VolumeKey>& volumes, const std::string& directory = "state") {
    const auto state = StateDir::open(temp_.file(directory));
    EXPECT_TRUE(state);
    const auto uuids = identify(*state, volumes);
    if (!uuids) return {uuids.error().message};
    std::vector<std::string> out;
    for (const Identity& identity : *uuids) out.push_back(identity.uuid ? uuid_text(*identity.uuid) : "unknown");
    return out;
  }

  const test::TempDir temp_;
};

TEST_F(IdentityTest, StayAcrossRestartReorderAndRename) {
  const auto first = identities({file("a", "a.img"), file("b", "b.img"), memory("m")});
  ASSERT_EQ(first.size(), 3u);
  EXPECT_NE(first[0], first[1]);
  const auto second = identities({memory("m"), file("renamed", "b.img"), file("a", "a.img")});
  EXPECT_EQ(second, (std::vector<std::string>{first[2], first[1], first[0]}));
}

TEST_F(IdentityTest, AreRandomVersion4OrDerivedVersion8) {
  const auto uuids = identities({file("a", "a.img"), memory("m")});
  EXPECT_EQ(uuids[0][14], '4');
  EXPECT_EQ(uuids[1][14], '8');
  for (const std::string& uuid : uuids) EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
}

TEST_F(IdentityTest, DifferBetweenStateDirectories) {
  const auto one = identities({file("a", "a.img"), memory("m")}, "one");
  const auto two = identities({file("a", "a.img"), memory("m")}, "two");
  EXPECT_NE(one[0], two[0]);
  EXPECT_NE(one[1], two[1]);
}

TEST_F(IdentityTest, VolumeThatComesBackIsTheSame) {
  const auto first = identities({file("a", "a.img"), file("b", "b.img")});
  identities({file("a", "a.img")});
  EXPECT_EQ(identities({file("b", "b.img")})[0], first[1]);
}

TEST_F(IdentityTest, MovedFileKeepsItsIdentityUnderItsName) {
  const auto first = identities({file("a", "a.img")});
  std::filesystem::rename(temp_.file("a.img"), temp_.file("moved.img"));
  EXPECT_EQ(identities({gone("a", "moved.img")}), first);
  EXPECT_EQ(identities({gone("a", "moved.img")}), first) << "also at the next start";
}

TEST_F(IdentityTest, OtherFileUnderTheSameNameIsAnotherDisk) {
  const auto first = identities({file("a", "a.img")});
  EXPECT_NE(identities({file("a", "other.img")})[0], first[0]) << "a.img still exists";
}

TEST_F(IdentityTest, LinkToTheSameFileIsTheSameDisk) {
  const auto first = identities({file("a", "a.img")});
  std::filesystem::create_symlink(temp_.file("a.img"), temp_.file("link.img"));
  EXPECT_EQ(identities({gone("renamed", "link.img")}), first);
}

TEST_F(IdentityTest, SwappedNamesDoNotSwapDisks) {
  const auto first = identities({file("a", "a.img"), file("b", "b.img")});
  EXPECT_EQ(identities({file("b", "a.img"), file("a", "b.img")}), first);
}

TEST_F(IdentityTest, PinnedUuidCounts) {
  VolumeKey pinned = file("a", "a.img");
  pinned.pinned = "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44";
  EXPECT_EQ(identities({pinned})[0], pinned.pinned);
}

TEST_F(IdentityTest, TwoVolumesWithOneUuidAreRefused) {
  const auto first = identities({file("a", "a.img")});
  VolumeKey copy = file("b", "b.img");
  copy.pinned = first[0];
  const auto refused = identities({file("a", "a.img"), copy});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("volumes a and b have the same UUID " + first[0]), std::string::npos) << refused[0];
}

TEST_F(IdentityTest, DamagedFileIsRefusedAndNotReplaced) {
  for (const char* content :
       {"", "{", "[]", "{\"version\": 2}", "{\"version\": 1, \"instance\": \"x\", \"volumes\": []}",
        "{\"version\": 1, \"instance\": \"5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44\", \"volumes\": [5]}"}) {
    identities({});
    std::ofstream(temp_.file("state/identity.json")) << content;
    const auto refused = identities({file("a", "a.img")});
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_NE(refused[0].find("identity.json is damaged"), std::string::npos) << content << ": " << refused[0];
    std::ifstream after(temp_.file("state/identity.json"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(after), {}), content);
    std::filesystem::remove(temp_.file("state/identity.json"));
  }
}

class ZvolIdentityTest : public IdentityTest {
 protected:
  static VolumeKey zvol(const std::string& name, const std::string& property, uint64_t guid) {
    VolumeKey key = late(name);
    key.sight = ZvolSight::seen;
    key.property = property;
    key.guid = guid;
    return key;
  }
  static VolumeKey late(const std::string& name) {
    VolumeKey key;
    key.name = name;
    key.backing = "zvol:tank/" + name;
    key.path = "/dev/zvol/tank/" + name;
    key.dataset = "tank/" + name;
    key.sight = ZvolSight::unseen;
    return key;
  }
  std::vector<Identity> whole(const std::vector<VolumeKey>& volumes) {
    const auto state = StateDir::open(temp_.file("state"));
    const auto out = identify(*state, volumes);
    EXPECT_TRUE(out) << out.error().message;
    return out ? *out : std::vector<Identity>(volumes.size());
  }
  static constexpr const char* kA = "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44";
  static constexpr const char* kB = "6d1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e55";
};

TEST_F(ZvolIdentityTest, PropertyCounts) {
  const auto out = whole({zvol("a", kA, 1)});
  EXPECT_EQ(uuid_text(*out[0].uuid), kA);
}

TEST_F(ZvolIdentityTest, FirstUseMakesOne) {
  const auto out = whole({zvol("a", "", 1)});
  ASSERT_TRUE(out[0].uuid);
  EXPECT_EQ(*whole({zvol("a", "", 1)})[0].uuid, *out[0].uuid) << "the property could not be written: it stays";
}

TEST_F(ZvolIdentityTest, LateZvolHasWhatIsRemembered) {
  whole({zvol("a", kA, 1)});
  const auto out = whole({late("a")});
  ASSERT_TRUE(out[0].uuid);
  EXPECT_EQ(uuid_text(*out[0].uuid), kA);
  EXPECT_EQ(out[0].guid, 1u) << "tells whether what comes is the same zvol";
}

TEST_F(ZvolIdentityTest, NothingIsInventedForOneThatWasNeverSeen) {
  EXPECT_FALSE(whole({late("a")})[0].uuid);
  EXPECT_EQ(uuid_text(*whole({zvol("a", kA, 1)})[0].uuid), kA) << "and its own counts when it comes";
}

TEST_F(ZvolIdentityTest, PropertyCountsOverWhatIsRemembered) {
  whole({zvol("a", kA, 1)});
  EXPECT_EQ(uuid_text(*whole({zvol("a", kB, 2)})[0].uuid), kB);
  EXPECT_EQ(uuid_text(*whole({late("a")})[0].uuid), kB) << "and is remembered from then on";
}

TEST_F(ZvolIdentityTest, AnotherZvolUnderTheNameIsAnotherDisk) {
  const auto first = whole({zvol("a", "", 1)});
  const auto second = whole({zvol("a", "", 2)});
  EXPECT_NE(*second[0].uuid, *first[0].uuid);
  VolumeKey fresh = late("a");
  fresh.sight = ZvolSight::fresh;
  const auto third = whole({fresh});
  EXPECT_NE(*third[0].uuid, *second[0].uuid);
}

TEST_F(ZvolIdentityTest, RenamedZvolWithoutItsPropertyIsFoundByItsGuid) {
  const auto first = whole({zvol("a", "", 77)});
  EXPECT_EQ(*whole({zvol("b", "", 77)})[0].uuid, *first[0].uuid);
}

TEST_F(ZvolIdentityTest, CopyIsRefusedWithBothNamesAndTheCure) {
  const auto refused = identities({zvol("a", kA, 1), zvol("b", kA, 2)});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("volumes a (tank/a) and b (tank/b) have the same UUID " + std::string(kA)),
            std::string::npos)
      << refused[0];
  EXPECT_NE(refused[0].find("zfs set org.zvolt:uuid="), std::string::npos) << refused[0];
}

TEST_F(ZvolIdentityTest, CopyWhosePropertyWasRemovedGetsItsOwn) {
  whole({zvol("b", kA, 2)});  // was served alone once
  const auto out = whole({zvol("a", kA, 1), zvol("b", "", 2)});
  EXPECT_EQ(uuid_text(*out[0].uuid), kA);
  EXPECT_NE(uuid_text(*out[1].uuid), kA);
}

TEST_F(ZvolIdentityTest, PropertyThatIsNoUuidIsRefusedWithTheDataset) {
  const auto refused = identities({zvol("a", "hello", 1)});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("org.zvolt:uuid of tank/a is 'hello'"), std::string::npos) << refused[0];
}

TEST_F(ZvolIdentityTest, LookingOnlyWritesNothing) {
  const auto state = StateDir::open(temp_.file("state"));
  ASSERT_TRUE(identify(*state, {zvol("a", "", 1)}, true));
  EXPECT_FALSE(std::filesystem::exists(temp_.file("state/identity.json")));
}

TEST(Uuid, TextAndBack) {
  const auto uuid = parse_uuid("5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  ASSERT_TRUE(uuid);
  EXPECT_EQ(uuid_text(*uuid), "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  for (const char* bad : {"", "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e4", "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e444",
                          "5C1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44", "5c1f6bd27b66-4f5f-9d0c-3a8f3a1d2e4411"})
    EXPECT_FALSE(parse_uuid(bad)) << bad;
}

}  // namespace
}  // namespace zvolt::daemon
