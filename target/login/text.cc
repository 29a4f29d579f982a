// key=value text segments (RFC 7143 section 6.1): see text.h.
#include "target/login/text.h"

#include <algorithm>

namespace zvolt::iscsi {
namespace {

// Wider than the RFC's standard-label (which "iSCSIProtocolLevel" and "X#NodeArchitecture" break themselves), but
// nothing that could confuse a log line or an answer.
bool legal_key_name(std::string_view key) {
  return !key.empty() && key.size() <= kMaxKeyLength &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::optional<std::vector<KeyValue>> parse_text(std::span<const uint8_t> text) {
  std::vector<KeyValue> pairs;
  if (text.empty()) return pairs;
  if (text.back() != 0) return std::nullopt;
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(pair.size() + 1);
    if (pair.empty()) continue;  // some initiators count their padding in DataSegmentLength
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || pairs.size() == kMaxKeys) return std::nullopt;
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (!legal_key_name(key) || value.size() > kMaxValueLength) return std::nullopt;
    pairs.push_back({std::string(key), std::string(value)});
  }
  return pairs;
}

void append_text(std::vector<uint8_t>& text, std::string_view key, std::string_view value) {
  text.reserve(text.size() + key.size() + value.size() + 2);
  text.insert(text.end(), key.begin(), key.end());
  text.push_back('=');
  text.insert(text.end(), value.begin(), value.end());
  text.push_back(0);
}

}  // namespace zvolt::iscsi
