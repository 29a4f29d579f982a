// See size.h.
#include "config/size.h"

#include <array>
#include <cctype>

namespace zvolt::config {
namespace {

constexpr std::string_view kPrefixes = "kmgtpe";
constexpr std::array<const char*, 7> kUnitNames = {"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

ParsedSize refuse(std::string why) {
  return {std::nullopt, std::move(why)};
}

// Power of two that a unit stands for, or the reason why it stands for none.
struct Unit {
  unsigned shift = 0;
  std::string error;
};

Unit parse_unit(std::string_view unit) {
  std::string lower;
  for (const char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return {};
  const size_t prefix = kPrefixes.find(lower[0]);
  if (prefix != std::string_view::npos) {
    const auto shift = static_cast<unsigned>(prefix + 1) * 10;
    const std::string_view rest = std::string_view(lower).substr(1);
    if (rest.empty() || rest == "ib") return {shift, {}};
    if (rest == "b") return {0, "'" + std::string(unit) + "' is ambiguous: write " + kUnitNames[prefix + 1]};
  }
  return {0, "unknown unit '" + std::string(unit) + "', known are KiB MiB GiB TiB PiB and k M G T P"};
}

}  // namespace

// The value is digits / 10^fraction_digits * 2^shift, computed in 128 bits so that nothing is rounded.
ParsedSize parse_size(std::string_view text) {
  using Wide = unsigned __int128;
  constexpr size_t kMaxDigits = 20;   // a 64-bit number
  constexpr size_t kMaxFraction = 9;  // digits after the point
  size_t at = 0, whole = 0, fraction = 0;
  Wide digits = 0, divisor = 1;
  const auto digit = [&] { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (; digit(); ++at, ++whole) {
    if (whole == kMaxDigits) return refuse("the size is too large");
    digits = digits * 10 + static_cast<unsigned>(text[at] - '0');
  }
  if (whole == 0) return refuse("expects a size like 512, 64KiB or 10GiB");
  if (at < text.size() && text[at] == '.') {
    ++at;
    for (; digit(); ++at, ++fraction, divisor *= 10) {
      if (fraction == kMaxFraction) return refuse("too many digits after the point");
      digits = digits * 10 + static_cast<unsigned>(text[at] - '0');
    }
    if (fraction == 0) return refuse("expects a size like 512, 64KiB or 1.5GiB");
  }
  if (at < text.size() && text[at] == ' ') ++at;
  const Unit unit = parse_unit(text.substr(at));
  if (!unit.error.empty()) return refuse(unit.error);
  if (unit.shift != 0 && digits > (Wide(UINT64_MAX) * divisor >> unit.shift)) return refuse("the size is too large");
  const Wide scaled = digits << unit.shift;
  if (scaled / divisor > UINT64_MAX) return refuse("the size is too large");
  if (scaled % divisor != 0) return refuse("the size is not a whole number of bytes");
  return {static_cast<uint64_t>(scaled / divisor), {}};
}

std::string format_size(uint64_t bytes) {
  unsigned unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnitNames.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnitNames[unit];
}

std::string readable_size(uint64_t bytes) {
  unsigned unit = 0;
  while (unit + 1 < kUnitNames.size() && bytes >> (10 * (unit + 1)) != 0) ++unit;
  if (unit == 0) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  using Wide = unsigned __int128;
  const Wide hundredths = Wide(bytes) * 100 >> (10 * unit);
  const bool exact = hundredths << (10 * unit) == Wide(bytes) * 100;
  std::string text = std::to_string(static_cast<uint64_t>(hundredths / 100));
  const auto rest = static_cast<unsigned>(hundredths % 100);
  if (rest != 0) text += "." + std::to_string(rest / 10) + (rest % 10 == 0 ? "" : std::to_string(rest % 10));
  return (exact ? "" : "about ") + text + " " + kUnitNames[unit];
}

}  // namespace zvolt::config
