// Sizes and edit distances.
#include "config/size.h"

#include <gtest/gtest.h>

#include "config/nearest.h"

namespace zvolt::config {
namespace {

uint64_t bytes(std::string_view text) {
  const ParsedSize size = parse_size(text);
  EXPECT_TRUE(size.bytes.has_value()) << text << ": " << size.error;
  return size.bytes.value_or(0);
}

TEST(Size, UnitsArePowersOf1024) {
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("512"), 512u);
  EXPECT_EQ(bytes("512B"), 512u);
  EXPECT_EQ(bytes("1KiB"), 1024u);
  EXPECT_EQ(bytes("1k"), 1024u);
  EXPECT_EQ(bytes("1K"), 1024u);
  EXPECT_EQ(bytes("3MiB"), uint64_t{3} << 20);
  EXPECT_EQ(bytes("10g"), uint64_t{10} << 30);
  EXPECT_EQ(bytes("10 GiB"), uint64_t{10} << 30);
  EXPECT_EQ(bytes("2T"), uint64_t{2} << 40);
  EXPECT_EQ(bytes("1PiB"), uint64_t{1} << 50);
  EXPECT_EQ(bytes("15E"), uint64_t{15} << 60);
}

TEST(Size, FractionIsTakenWhenItIsWholeBytes) {
  EXPECT_EQ(bytes("1.5GiB"), (uint64_t{3} << 30) / 2);
  EXPECT_EQ(bytes("0.5k"), 512u);
  EXPECT_EQ(bytes("512.0"), 512u);
  EXPECT_EQ(parse_size("1.1k").error, "the size is not a whole number of bytes");
  EXPECT_EQ(parse_size("0.5").error, "the size is not a whole number of bytes");
}

TEST(Size, LargestNumberIsTakenAndOneMoreIsRefused) {
  EXPECT_EQ(bytes("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_size("18446744073709551616").error, "the size is too large");
  EXPECT_EQ(parse_size("16E").error, "the size is too large");
  EXPECT_EQ(parse_size("99999999999999999999.999999999E").error, "the size is too large");
  EXPECT_EQ(parse_size("100000000000000000000000").error, "the size is too large");
  EXPECT_EQ(parse_size("1.0000000001k").error, "too many digits after the point");
}

TEST(Size, AmbiguousAndUnknownUnitsAreRefused) {
  EXPECT_EQ(parse_size("10GB").error, "'GB' is ambiguous: write GiB");
  EXPECT_EQ(parse_size("1 mb").error, "'mb' is ambiguous: write MiB");
  EXPECT_EQ(parse_size("10 blocks").error.substr(0, 21), "unknown unit 'blocks'");
  for (const char* text : {"", "GiB", "-1", "+1", "1.", "1.GiB", ".5", "0x10", "1  GiB", "1GiB ", "1e3"})
    EXPECT_FALSE(parse_size(text).bytes.has_value()) << text;
}

TEST(Size, FormatIsTheLargestWholeUnit) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1500), "1500");
  EXPECT_EQ(format_size(4096), "4KiB");
  EXPECT_EQ(format_size(uint64_t{1} << 30), "1GiB");
  EXPECT_EQ(format_size(uint64_t{1} << 63), "8EiB");
}

TEST(Nearest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("listen", "listen"), 0u);
  EXPECT_EQ(edit_distance("lisetn", "listen"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, FarWordsHaveNoNeighbour) {
  const std::vector<std::string_view> words = {"listen", "volumes", "targets", "log"};
  EXPECT_EQ(nearest("volums", words), "volumes");
  EXPECT_EQ(nearest("trgaets", words), "targets");
  EXPECT_EQ(nearest("logs", words), "log");
  EXPECT_EQ(nearest("password", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), words), "");
}

TEST(ReadableSize, IsExactOrSaysThatItIsNot) {
  EXPECT_EQ(readable_size(0), "0 bytes");
  EXPECT_EQ(readable_size(1), "1 byte");
  EXPECT_EQ(readable_size(512), "512 bytes");
  EXPECT_EQ(readable_size(65536), "64 KiB");
  EXPECT_EQ(readable_size(uint64_t{20} << 30), "20 GiB");
  EXPECT_EQ(readable_size((uint64_t{3} << 40) / 2), "1.5 TiB");
  EXPECT_EQ(readable_size(1'500'000'000), "about 1.39 GiB");
  EXPECT_EQ(readable_size((uint64_t{1} << 30) + 1), "about 1 GiB");
  EXPECT_EQ(readable_size(UINT64_MAX), "about 15.99 EiB");
}

}  // namespace
}  // namespace zvolt::config
