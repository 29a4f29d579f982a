// iSCSI names (RFC 7143 section 4.2.7, RFC 3722) and UTF-8 checks of what initiators send. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zvolt::iscsi {

inline constexpr size_t kMaxNameLength = 223;   // bytes, RFC 7143 4.2.7.2
inline constexpr size_t kMaxAliasLength = 255;  // bytes, RFC 7143 6.1 (simple-value)

// Well-formed UTF-8 without control characters: safe to log and to show as JSON.
bool is_clean_utf8(std::string_view text);

// The name as it is compared: ASCII letters in lower case. nullopt: no iqn., eui. or naa. name, too long, white space
// or control characters, not UTF-8. Characters that RFC 3722 forbids but that are met in the field ('_') pass.
std::optional<std::string> normalize_name(std::string_view name);

}  // namespace zvolt::iscsi
