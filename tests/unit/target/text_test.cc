// key=value text segments (target/login/text.h).
#include "target/login/text.h"

#include <gtest/gtest.h>

#include <string>

namespace zvolt::iscsi {
namespace {

std::optional<std::vector<KeyValue>> parse(std::string_view text) {
  return parse_text({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}
using namespace std::string_view_literals;

TEST(Text, PairsAreSplitAtNulAndFirstEquals) {
  const auto pairs = parse("A=1\0Key=a=b\0Empty=\0"sv);
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 3u);
  EXPECT_EQ((*pairs)[0].key, "A");
  EXPECT_EQ((*pairs)[0].value, "1");
  EXPECT_EQ((*pairs)[1].value, "a=b");
  EXPECT_EQ((*pairs)[2].value, "");
}

TEST(Text, NothingIsAnEmptyList) {
  const auto pairs = parse("");
  ASSERT_TRUE(pairs);
  EXPECT_TRUE(pairs->empty());
}

TEST(Text, PaddingCountedAsDataIsIgnored) {
  const auto pairs = parse("A=1\0\0\0\0"sv);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->size(), 1u);
}

TEST(Text, MissingFinalNulIsRefused) {
  EXPECT_FALSE(parse("A=1\0B=2"sv));
}
TEST(Text, PairWithoutEqualsIsRefused) {
  EXPECT_FALSE(parse("A=1\0B\0"sv));
}
TEST(Text, EmptyKeyIsRefused) {
  EXPECT_FALSE(parse("=1\0"sv));
}
TEST(Text, ControlCharacterInKeyIsRefused) {
  EXPECT_FALSE(parse("A\nB=1\0"sv));
}
TEST(Text, SpaceInKeyIsRefused) {
  EXPECT_FALSE(parse("A B=1\0"sv));
}

TEST(Text, KeyOf63BytesPassesAndOf64IsRefused) {
  EXPECT_TRUE(parse(std::string(63, 'K') + "=1" + '\0'));
  EXPECT_FALSE(parse(std::string(64, 'K') + "=1" + '\0'));
}

TEST(Text, NumberOfKeysIsBounded) {
  std::string text;
  for (size_t i = 0; i < kMaxKeys; ++i) text += std::string("K=1") + '\0';
  EXPECT_TRUE(parse(text));
  text += std::string("K=1") + '\0';
  EXPECT_FALSE(parse(text));
}

TEST(Text, ValueLengthIsBounded) {
  EXPECT_TRUE(parse("K=" + std::string(kMaxValueLength, 'v') + '\0'));
  EXPECT_FALSE(parse("K=" + std::string(kMaxValueLength + 1, 'v') + '\0'));
}

TEST(Text, AppendedPairsParseBack) {
  std::vector<uint8_t> text;
  append_text(text, "TargetName", "iqn.x:y");
  append_text(text, "Empty", "");
  EXPECT_EQ(std::string(text.begin(), text.end()), "TargetName=iqn.x:y\0Empty=\0"sv);
  EXPECT_EQ(parse_text(text)->size(), 2u);
}

}  // namespace
}  // namespace zvolt::iscsi
