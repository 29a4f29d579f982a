// Names, addresses, paths and UUIDs of the configuration: what is well-formed, and one spelling of each. Pure
// functions, thread-safe. iSCSI names: RFC 7143 4.2.7, RFC 3722 (characters).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zvolt::config {

// Each returns why the text is refused, or an empty string.
std::string check_iscsi_name(const std::string& name);
std::string check_initiator_pattern(const std::string& pattern);
std::string check_zvol_name(const std::string& name);
std::string check_volume_name(const std::string& name);
std::string check_snapshot_name(const std::string& name);      // pool/path@snapshot
std::string check_zfs_property_name(const std::string& name);  // "compression", "com.example:owner"

struct Endpoint {
  std::string address;
  uint16_t port = 3260;  // the port that IANA gave to iSCSI
};
// "10.0.0.1:3260", "[::1]:3260", or without a port. `error` says why not.
std::optional<Endpoint> parse_endpoint(const std::string& text, std::string& error);
bool is_loopback(const std::string& address);

// 8-4-4-4-12 hex digits -> lower case. Neither all zeros nor all ones.
std::optional<std::string> parse_uuid(const std::string& text);

// Absolute path without "//", "/./", "/../" and a slash at the end; nothing when it is not absolute.
std::optional<std::string> normal_path(const std::string& text);

}  // namespace zvolt::config
