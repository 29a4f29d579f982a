// Files that were made to hurt: the loader answers with a problem, in bounded time and memory, and never throws.
#include <chrono>

#include "config/yaml_tree.h"
#include "tests/unit/config/support.h"

namespace zvolt::config::test {
namespace {

std::string only_problem(const std::string& yaml) {
  const auto problems = problems_of(yaml);
  EXPECT_EQ(problems.size(), 1u);
  return problems.empty() ? "" : problems[0];
}

TEST(Hostile, EmptyFile) {
  for (const char* yaml : {"", "\n\n", "# nothing\n", "---\n", "~\n"})
    EXPECT_EQ(only_problem(yaml).substr(only_problem(yaml).find(' ') + 1), "the file is empty") << yaml;
}

TEST(Hostile, TopLevelListOrText) {
  EXPECT_EQ(only_problem("- a\n- b\n"), "1:1: the configuration is a map of keys and values, found a list");
  EXPECT_EQ(only_problem("hello\n"), "1:1: the configuration is a map of keys and values, found 'hello'");
}

TEST(Hostile, DeepNestingIsRefusedAtItsLimit) {
  const std::string deep = "a: " + std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(only_problem(deep), "1:35: more than 32 levels of maps and lists");
  std::string block;
  for (int i = 0; i < 400; ++i) block += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_NE(only_problem(block).find("more than 32 levels"), std::string::npos);
}

TEST(Hostile, AliasBombIsRefused) {
  std::string yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    yaml += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) yaml += (j > 0 ? ", " : "") + before;
    yaml += "]\n";
  }
  EXPECT_NE(only_problem(yaml).find("more than 250000 values (aliases counted)"), std::string::npos);
}

TEST(Hostile, AliasOfItselfAndOfNothing) {
  EXPECT_EQ(only_problem("a: &x [*x]\n"), "1:8: alias of a map or list that contains it");
  EXPECT_NE(only_problem("a: *x\n").find("YAML: "), std::string::npos);
}

TEST(Hostile, NotUtf8) {
  EXPECT_EQ(only_problem("listen: []\nstate_dir: /a\xff\n"), "2:14: not UTF-8");
  EXPECT_EQ(only_problem("a: \xc0\xaf\n"), "1:4: not UTF-8");      // overlong
  EXPECT_EQ(only_problem("a: \xed\xa0\x80\n"), "1:4: not UTF-8");  // surrogate
  EXPECT_EQ(only_problem("\xff\xfel\0i\0"), "1:1: not UTF-8");     // UTF-16
}

TEST(Hostile, ControlCharacters) {
  EXPECT_EQ(only_problem(std::string("a: b\0c\n", 7)), "1:5: control character in the file");
  EXPECT_EQ(only_problem("a: \"x\\0y\"\n"), "1:4: control character in a value");
  EXPECT_EQ(only_problem("a: \"x\\e[2Jy\"\n"), "1:4: control character in a value");
}

TEST(Hostile, TabsForIndentation) {
  EXPECT_NE(only_problem("listen:\n\t- 127.0.0.1\n").find("YAML"), std::string::npos);
}

TEST(Hostile, UnclosedBrackets) {
  for (const char* yaml :
       {"a: [", "a: {", "a: \"b", "a: 'b", "a: ]", "a: b: c\n", "{a", "? [", "!!", "&", "*", "%YAML 9\n"})
    EXPECT_FALSE(load_text(yaml, "f").ok()) << yaml;
}

TEST(Hostile, TwoDocuments) {
  EXPECT_EQ(only_problem("listen: [127.0.0.1]\n---\nlisten: []\n"), "3:1: more than one YAML document in the file");
}

TEST(Hostile, FileLargerThanItsLimit) {
  EXPECT_EQ(only_problem("# " + std::string(kMaxFileBytes, 'x')), "1:1: the file is larger than 1 MiB");
}

TEST(Hostile, ManyProblemsAreCutShort) {
  std::string yaml = "listen: [127.0.0.1]\n";
  for (int i = 0; i < 1000; ++i) yaml += "key" + std::to_string(i) + ": 1\n";
  const auto problems = problems_of(yaml);
  ASSERT_EQ(problems.size(), 201u);
  EXPECT_EQ(problems[0].substr(0, 24), "2:1: unknown key 'key0' ");
  EXPECT_EQ(problems.back(), "201:1: and 800 more");
}

TEST(Hostile, KeysThatAreNoWords) {
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\n? [a, b]\n: c\n"),
            (std::vector<std::string>{"2:3: a key is a word, found a list"}));
  EXPECT_EQ(problems_of("listen: [127.0.0.1]\n<<: { a: b }\n"),
            (std::vector<std::string>{
                "2:1: unknown key '<<' in the configuration: merge keys are not supported, repeat the values"}));
}

TEST(Hostile, LargeFilesLoadInBoundedTime) {
  std::string many = "listen: [127.0.0.1]\nvolumes:\n";
  for (int i = 0; many.size() < kMaxFileBytes - 200; ++i)
    many += "  v" + std::to_string(i) + ": { file: /srv/" + std::to_string(i) + " }\n";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(load_text(many, "f").ok());
  for (const std::string piece : {"[", "{", "? ", "- ", "*a ", "&a ", "a: ", "\"", "[a, ", "{a: "}) {
    std::string text = "a: ";
    while (text.size() + piece.size() < kMaxFileBytes) text += piece;
    EXPECT_FALSE(load_text(text, "f").ok()) << piece;
  }
  // Each takes well below a second; the limit tells a quadratic from a linear loader also with sanitizers on a busy
  // machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(240));
}

}  // namespace
}  // namespace zvolt::config::test
