// key=value text segments (RFC 7143 section 6.1): parse and build. Pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zvolt::iscsi {

struct KeyValue {
  std::string key;
  std::string value;
};

inline constexpr size_t kMaxKeyLength = 63;      // RFC 7143 6.1
inline constexpr size_t kMaxValueLength = 8192;  // of what we accept (the RFC's 255 is for most keys only)
inline constexpr size_t kMaxKeys = 512;          // in one negotiation step

// nullopt: not a legal key=value list (no '=', empty key, key too long, missing final NUL, too many).
std::optional<std::vector<KeyValue>> parse_text(std::span<const uint8_t> text);
void append_text(std::vector<uint8_t>& text, std::string_view key, std::string_view value);

}  // namespace zvolt::iscsi
