// See syntax.h.
#include "config/syntax.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace zvolt::config {
namespace {

constexpr size_t kMaxIscsiName = 223;   // bytes, RFC 7143 4.2.7.2
constexpr size_t kMaxVolumeName = 128;  // bytes; it becomes part of a file name and of a metric's label
constexpr size_t kMaxZvolName = 255;    // bytes, ZFS_MAX_DATASET_NAME_LEN without the final zero

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_alnum(char c) {
  return is_digit(c) || is_lower(c) || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool all_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_hex);
}

// yyyy-mm "." reversed domain name, then nothing or ":" and any text.
std::string check_iqn(std::string_view rest) {
  constexpr const char* kForm = "an iqn has the form iqn.YYYY-MM.reversed.domain:name";
  if (rest.size() < 9 || rest[4] != '-' || rest[7] != '.') return kForm;
  for (const size_t i : {0, 1, 2, 3, 5, 6})
    if (!is_digit(rest[i])) return kForm;
  const int month = (rest[5] - '0') * 10 + (rest[6] - '0');
  if (month < 1 || month > 12) return "the month of an iqn is 01 to 12";
  std::string_view domain = rest.substr(8);
  const size_t colon = domain.find(':');
  if (colon != std::string_view::npos) {
    if (colon + 1 == domain.size()) return "nothing follows the ':' of the iqn";
    domain = domain.substr(0, colon);
  }
  if (domain.empty() || domain.front() == '.' || domain.back() == '.' || domain.find("..") != std::string_view::npos)
    return "the domain name in the iqn has an empty part";
  return {};
}

std::optional<uint16_t> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  unsigned port = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    port = port * 10 + static_cast<unsigned>(c - '0');
  }
  if (port > 65535) return std::nullopt;
  return static_cast<uint16_t>(port);
}

bool is_ipv4(const std::string& text) {
  in_addr out{};
  return inet_pton(AF_INET, text.c_str(), &out) == 1;
}

// A link-local address may name its interface: fe80::1%eth0.
bool is_ipv6(const std::string& text) {
  in6_addr out{};
  return inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &out) == 1;
}

}  // namespace

std::string check_iscsi_name(const std::string& name) {
  if (name.size() > kMaxIscsiName) return "an iSCSI name has at most 223 bytes";
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') return "an iSCSI name is written in lower case";
    if (!is_lower(c) && !is_digit(c) && c != '-' && c != '.' && c != ':')
      return "an iSCSI name consists of a-z, 0-9, '-', '.' and ':'";
  }
  const std::string_view view = name;
  const std::string_view type = view.substr(0, 4), rest = view.size() > 4 ? view.substr(4) : std::string_view();
  if (type == "iqn.") return check_iqn(rest);
  if (type == "eui.") return rest.size() == 16 && all_hex(rest) ? "" : "an eui name has 16 hex digits";
  if (type == "naa.")
    return (rest.size() == 16 || rest.size() == 32) && all_hex(rest) ? "" : "a naa name has 16 or 32 hex digits";
  return "an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'";
}

std::string check_initiator_pattern(const std::string& pattern) {
  if (pattern.empty()) return "the pattern is empty";
  if (pattern.size() > kMaxIscsiName) return "an iSCSI name has at most 223 bytes";
  const size_t star = pattern.find('*');
  if (star != std::string::npos && star + 1 != pattern.size()) return "a '*' stands only at the end of a pattern";
  for (const char c : pattern)
    if (static_cast<unsigned char>(c) <= ' ') return "an iSCSI name has no spaces";
  if (star != std::string::npos) return {};
  const std::string_view type = std::string_view(pattern).substr(0, 4);
  if (type == "iqn." || type == "eui." || type == "naa.") return {};
  return "an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'";
}

std::string check_zvol_name(const std::string& name) {
  if (name.size() > kMaxZvolName) return "a ZFS name has at most 255 bytes";
  if (name.find('@') != std::string::npos) return "a snapshot cannot be served, name a volume";
  if (name.find('/') == std::string::npos) return "expects pool/path, without /dev/zvol";
  if (name.front() == '/' || name.back() == '/' || name.find("//") != std::string::npos)
    return "expects pool/path, without /dev/zvol";
  size_t start = 0;
  while (start < name.size()) {
    const size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = std::string_view(name).substr(start, slash - start);
    if (part == "." || part == "..") return "a part of a ZFS name is not '.' or '..'";
    for (const char c : part)
      if (!is_alnum(c) && std::string_view("_-.: ").find(c) == std::string_view::npos)
        return "a ZFS name consists of letters, digits, '_', '-', '.', ':' and spaces";
    start = slash + 1;
  }
  return {};
}

std::string check_snapshot_name(const std::string& name) {
  constexpr const char* kForm = "expects a snapshot, pool/path@name";
  const size_t at = name.find('@');
  if (at == std::string::npos || at + 1 == name.size()) return kForm;
  if (name.size() > kMaxZvolName) return "a ZFS name has at most 255 bytes";
  for (const char c : name.substr(at + 1))
    if (!is_alnum(c) && std::string_view("_-.: ").find(c) == std::string_view::npos)
      return "the name of a snapshot consists of letters, digits, '_', '-', '.', ':' and spaces";
  return check_zvol_name(name.substr(0, at)).empty() ? "" : kForm;
}

std::string check_zfs_property_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxZvolName) return "the name of a ZFS property has 1 to 255 bytes";
  if (name[0] == '-') return "the name of a ZFS property does not start with '-'";
  for (const char c : name)
    if (!is_lower(c) && !is_digit(c) && std::string_view("_-.:+").find(c) == std::string_view::npos)
      return "the name of a ZFS property consists of a-z, 0-9 and _ - . : +";
  return {};
}

std::string check_volume_name(const std::string& name) {
  if (name.empty()) return "the name is empty";
  if (name.size() > kMaxVolumeName) return "a volume name has at most 128 characters";
  for (const char c : name)
    if (!is_alnum(c) && std::string_view("_-.:/+@").find(c) == std::string_view::npos)
      return "a volume name consists of letters, digits and _ - . : / + @";
  return {};
}

std::optional<Endpoint> parse_endpoint(const std::string& text, std::string& error) {
  Endpoint out;
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text[0] == '[') {
    const size_t end = text.find(']');
    if (end == std::string::npos || (end + 1 < text.size() && text[end + 1] != ':')) {
      error = "an IPv6 address with a port is written [address]:port";
      return std::nullopt;
    }
    out.address = text.substr(1, end - 1);
    has_port = end + 1 < text.size();
    if (has_port) port = std::string_view(text).substr(end + 2);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    const size_t colon = text.find(':');
    out.address = text.substr(0, colon);
    has_port = true;
    port = std::string_view(text).substr(colon + 1);
  } else {
    out.address = text;
  }
  const bool bracket = !text.empty() && text[0] == '[';
  if (bracket ? !is_ipv6(out.address) : !is_ipv4(out.address) && !is_ipv6(out.address)) {
    error = "'" + out.address + "' is no IP address (names are not looked up)";
    return std::nullopt;
  }
  if (!has_port) return out;
  const auto parsed = parse_port(port);
  if (!parsed) {
    error = "'" + std::string(port) + "' is no port, 0 to 65535";
    return std::nullopt;
  }
  out.port = *parsed;
  return out;
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
}

std::optional<std::string> parse_uuid(const std::string& text) {
  if (text.size() != 36) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return std::nullopt;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
  }
  if (out.find_first_not_of("0-") == std::string::npos || out.find_first_not_of("f-") == std::string::npos)
    return std::nullopt;
  return out;
}

std::optional<std::string> normal_path(const std::string& text) {
  if (text.empty() || text[0] != '/') return std::nullopt;
  std::string out = std::filesystem::path(text).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace zvolt::config
