// `include:`: where files are found, in which order they count, what is refused, and that a problem names its file.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/include.h"
#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

using Texts = std::vector<std::string>;

class Include : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "zvolt-include-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // The main file: `include` and what follows.
  void main(const std::string& include, const std::string& rest = "") {
    write("zvolt.yaml", "listen: [127.0.0.1]\ninclude: [" + include + "]\n" + rest);
  }
  Loaded load() const { return load_file(folder_ + "/zvolt.yaml"); }
  Config good_load() const {
    const Loaded loaded = load();
    EXPECT_EQ(texts(loaded.problems), Texts());
    return loaded.config;
  }
  // "file:line:column: message", the file relative to the folder.
  Texts problems() const {
    Texts out;
    for (const Problem& problem : load().problems) out.push_back(shorten(problem.text()));
    return out;
  }
  std::string shorten(std::string text) const {
    for (size_t at = text.find(folder_ + "/"); at != std::string::npos; at = text.find(folder_ + "/"))
      text.erase(at, folder_.size() + 1);
    return text;
  }
  Texts files(const Config& config) const {
    Texts out;
    for (const std::string& file : config.files) out.push_back(shorten(file));
    return out;
  }

  std::string folder_;
};

std::string target(const std::string& name, const std::string& volume) {
  return "targets: [{ name: \"iqn.2026-11.o:" + name + "\", luns: [{ lun: 0, volume: " + volume + " }] }]\n";
}

TEST_F(Include, VolumesAndTargetsOfAllFilesAreOneConfiguration) {
  main("a.yaml, more/b.yaml", "volumes: { m: { zvol: t/m } }\n" + target("m", "b"));
  write("a.yaml", "volumes: { a: { zvol: t/a } }\n" + target("a", "m"));
  write("more/b.yaml", "volumes: { b: { zvol: t/b } }\n");
  const Config config = good_load();
  EXPECT_EQ(files(config), (Texts{"zvolt.yaml", "a.yaml", "more/b.yaml"}));
  ASSERT_EQ(config.volumes.size(), 3u);
  EXPECT_EQ(config.volumes[0].name, "m");
  EXPECT_EQ(config.volumes[2].name, "b");
  ASSERT_EQ(config.targets.size(), 2u);
  EXPECT_EQ(config.targets[1].name, "iqn.2026-11.o:a");
  EXPECT_EQ(shorten(config.volumes[2].where.file), "more/b.yaml");
}

TEST_F(Include, PathsAreRelativeToTheFileThatNamesThem) {
  main("more/b.yaml");
  write("more/b.yaml", "include: [c.yaml, ../d.yaml, " + folder_ + "/e.yaml]\n");
  write("more/c.yaml", "volumes: { c: { zvol: t/c } }\n");
  write("d.yaml", "volumes: { d: { zvol: t/d } }\n");
  write("e.yaml", "volumes: { e: { zvol: t/e } }\n");
  EXPECT_EQ(files(good_load()), (Texts{"zvolt.yaml", "more/b.yaml", "more/c.yaml", "d.yaml", "e.yaml"}));
}

TEST_F(Include, PatternsAreReadInTheOrderOfTheirNames) {
  main("\"vms/*.yaml\"");
  for (const char* name : {"10", "9", "b", "A"}) write(std::string("vms/") + name + ".yaml", "");
  write("vms/other.txt", "nonsense: [");
  EXPECT_EQ(files(good_load()), (Texts{"zvolt.yaml", "vms/10.yaml", "vms/9.yaml", "vms/A.yaml", "vms/b.yaml"}));
}

TEST_F(Include, PatternPassesOverTheFileItStandsInAndOnesNamedBefore) {
  main("b.yaml, \"*.yaml\"");
  write("a.yaml", "");
  write("b.yaml", "");
  EXPECT_EQ(files(good_load()), (Texts{"zvolt.yaml", "b.yaml", "a.yaml"}));
}

TEST_F(Include, FolderWithPatternCharactersIsTakenAsItIsWritten) {
  write("odd[1]/zvolt.yaml", "listen: [127.0.0.1]\ninclude: [\"*.inc\"]\n");
  write("odd[1]/a.inc", "volumes: { a: { zvol: t/a } }\n");
  EXPECT_NE(load_file(folder_ + "/odd[1]/zvolt.yaml").config.volume("a"), nullptr);
}

TEST_F(Include, PatternThatMatchesNothingIsAWarning) {
  main("\"vms/*.yaml\"");
  const Loaded loaded = load();
  EXPECT_TRUE(loaded.ok());
  EXPECT_EQ(texts(loaded.warnings).at(1), "2:11: include: no file matches 'vms/*.yaml'");
}

TEST_F(Include, ProblemsNameTheirFileAndComeInFileOrder) {
  main("b.yaml, a.yaml", "volums: {}\n");
  write("a.yaml", "volumes: { a: { zvol: t } }\n");
  write("b.yaml", "\n\nvolumes: { b: { zvol: t/b, snyc: x } }\n");
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:3:1: unknown key 'volums' in the configuration, did you mean 'volumes'?",
                               "b.yaml:3:28: unknown key 'snyc' in a volume, did you mean 'sync'?",
                               "a.yaml:1:23: 'zvol': expects pool/path, without /dev/zvol"}));
}

TEST_F(Include, SyntaxErrorOfAnIncludedFileNamesItsPlace) {
  main("a.yaml");
  write("a.yaml", "volumes: {}\nx: [\n");
  const Texts found = problems();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 9), "a.yaml:3:");
}

TEST_F(Include, DoublesAcrossFilesNameTheFirstPlace) {
  main("a.yaml", "volumes: { v: { zvol: t/v } }\n" + target("t", "v"));
  write("a.yaml", "volumes: { v: { zvol: t/w }, x: { zvol: t/v } }\n" + target("t", "v"));
  EXPECT_EQ(problems(),
            (Texts{"a.yaml:1:12: volume name 'v' is already used at zvolt.yaml:3",
                   "a.yaml:1:41: '/dev/zvol/t/v' is already the store of volume 'v' (zvolt.yaml:3): describe it once "
                   "under 'volumes' and map it with 'volume: NAME'",
                   "a.yaml:2:19: target name 'iqn.2026-11.o:t' is already used at zvolt.yaml:4"}));
}

TEST_F(Include, OnlyVolumesAndTargetsStandInIncludedFiles) {
  main("a.yaml");
  write("a.yaml", "listen: [127.0.0.1]\ndefaults: {}\njournals: {}\nvolume: {}\n");
  EXPECT_EQ(problems(), (Texts{"a.yaml:1:1: 'listen' stands in the main file only, not in an included file",
                               "a.yaml:2:1: 'defaults' stands in the main file only, not in an included file",
                               "a.yaml:3:1: 'journals' stands in the main file only, not in an included file",
                               "a.yaml:4:1: unknown key 'volume' in an included file, did you mean 'volumes'?"}));
}

TEST_F(Include, CyclesAreRefused) {
  main("a.yaml, zvolt.yaml");
  write("a.yaml", "include: [b.yaml]\n");
  write("b.yaml", "include: [./x/../a.yaml]\n");
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:19: include: 'zvolt.yaml' includes itself",
                               "b.yaml:1:11: include: 'a.yaml' includes itself"}));
}

TEST_F(Include, CycleThroughALinkIsRefused) {
  main("a.yaml");
  ASSERT_EQ(::symlink("zvolt.yaml", (folder_ + "/a.yaml").c_str()), 0);
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:11: include: 'a.yaml' includes itself"}));
}

TEST_F(Include, FileCountsOnce) {
  main("a.yaml, a.yaml");
  write("a.yaml", "volumes: { a: { zvol: t/a } }\n");
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:19: include: 'a.yaml' is already included"}));
}

TEST_F(Include, WhatIsNoFileIsRefusedAndNotWaitedFor) {
  main("none.yaml, sub, pipe, [x], \"\", /dev/zero");
  write("sub/x", "");
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:11: include: cannot read 'none.yaml': No such file or directory",
                               "zvolt.yaml:2:22: include: cannot read 'sub': Is a directory",
                               "zvolt.yaml:2:27: include: cannot read 'pipe': it is no regular file",
                               "zvolt.yaml:2:33: 'include' lists paths, found a list",
                               "zvolt.yaml:2:38: 'include' lists paths, found \"\"",
                               "zvolt.yaml:2:42: include: cannot read '/dev/zero': it is no regular file"}));
}

TEST_F(Include, DepthIsBounded) {
  main("f1.yaml");
  for (size_t i = 1; i <= kMaxIncludeDepth + 1; ++i)
    write("f" + std::to_string(i) + ".yaml", "include: [f" + std::to_string(i + 1) + ".yaml]\n");
  EXPECT_EQ(problems(), (Texts{"f8.yaml:1:11: include: more than 8 files inside each other"}));
}

TEST_F(Include, SizeOfAllFilesIsBounded) {
  std::string list;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "big" + std::to_string(i) + ".yaml";
    write(name, "# " + std::string(kMaxFileBytes - 2, 'x'));
    list += (i == 0 ? "" : ", ") + name;
  }
  main(list);
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:99: include: the files are larger than 8 MiB together"}));
}

TEST_F(Include, NumberOfFilesIsBounded) {
  main("\"v/*\"");
  for (size_t i = 0; i < kMaxIncludedFiles + 1; ++i) write("v/" + std::to_string(i), "");
  EXPECT_EQ(problems(), (Texts{"zvolt.yaml:2:11: include: more than 2000 files"}));
}

}  // namespace
}  // namespace zvolt::config::test
