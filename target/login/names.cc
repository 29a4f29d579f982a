// iSCSI names: see names.h.
#include "target/login/names.h"

#include <algorithm>
#include <cstdint>

namespace zvolt::iscsi {
namespace {

// Length of the UTF-8 sequence at the start of `text` (not empty), 0 if it is malformed: RFC 3629 section 4.
size_t utf8_sequence(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : (lead & 0xf0) == 0xe0        ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = at(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool out_of_range =
      (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);  // surrogates, > U+10FFFF
  return overlong || out_of_range ? 0 : length;
}

bool all_hex(std::string_view digits) {
  return std::ranges::all_of(digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

bool is_clean_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<uint8_t>(text.front());
    const size_t length = utf8_sequence(text);
    if (length == 0 || lead < 0x20 || lead == 0x7f) return false;
    if (lead == 0xc2 && static_cast<uint8_t>(text[1]) < 0xa0) return false;  // C1 control characters
    text.remove_prefix(length);
  }
  return true;
}

std::optional<std::string> normalize_name(std::string_view name) {
  if (name.size() > kMaxNameLength || !is_clean_utf8(name) || name.find(' ') != std::string_view::npos)
    return std::nullopt;
  std::string result(name);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const std::string_view type = std::string_view(result).substr(0, 4);
  const std::string_view rest = std::string_view(result).substr(std::min<size_t>(4, result.size()));
  const bool legal = (type == "iqn." && !rest.empty()) || (type == "eui." && rest.size() == 16 && all_hex(rest)) ||
                     (type == "naa." && (rest.size() == 16 || rest.size() == 32) && all_hex(rest));
  if (!legal) return std::nullopt;
  return result;
}

}  // namespace zvolt::iscsi
