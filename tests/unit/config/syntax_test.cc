// Names, addresses, UUIDs and paths. RFC 7143 4.2.7 for iSCSI names.
#include "config/syntax.h"

#include <gtest/gtest.h>

namespace zvolt::config {
namespace {

TEST(IscsiName, FormsOfRfc7143AreAccepted) {
  for (const char* name :
       {"iqn.2001-04.com.example", "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309", "iqn.2026-11.x:1",
        "eui.02004567a425678d", "naa.52004567ba64678d", "naa.62004567ba64678d0123456789abcdef"})
    EXPECT_EQ(check_iscsi_name(name), "") << name;
}

TEST(IscsiName, WrongFormsAreRefused) {
  EXPECT_EQ(check_iscsi_name("disk1"), "an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'");
  EXPECT_EQ(check_iscsi_name(""), "an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'");
  EXPECT_EQ(check_iscsi_name("iqn.2001-13.com.example:a"), "the month of an iqn is 01 to 12");
  EXPECT_EQ(check_iscsi_name("iqn.2001-00.com.example:a"), "the month of an iqn is 01 to 12");
  EXPECT_EQ(check_iscsi_name("iqn.2001-04.com.Example:a"), "an iSCSI name is written in lower case");
  EXPECT_EQ(check_iscsi_name("iqn.2001-04.com.example:a b"), "an iSCSI name consists of a-z, 0-9, '-', '.' and ':'");
  EXPECT_EQ(check_iscsi_name("iqn.2001-04.com..example"), "the domain name in the iqn has an empty part");
  EXPECT_EQ(check_iscsi_name("iqn.2001-04.:a"), "the domain name in the iqn has an empty part");
  EXPECT_EQ(check_iscsi_name("iqn.2001-04.com.example:"), "nothing follows the ':' of the iqn");
  EXPECT_EQ(check_iscsi_name("iqn.01-04.com.example:a"), "an iqn has the form iqn.YYYY-MM.reversed.domain:name");
  EXPECT_EQ(check_iscsi_name("eui.02004567a425678"), "an eui name has 16 hex digits");
  EXPECT_EQ(check_iscsi_name("naa.52004567ba64678g"), "a naa name has 16 or 32 hex digits");
}

TEST(IscsiName, LongestHas223Bytes) {
  const std::string start = "iqn.2001-04.com.example:";
  EXPECT_EQ(check_iscsi_name(start + std::string(223 - start.size(), 'a')), "");
  EXPECT_EQ(check_iscsi_name(start + std::string(224 - start.size(), 'a')), "an iSCSI name has at most 223 bytes");
}

TEST(InitiatorPattern, StarStandsAtTheEnd) {
  EXPECT_EQ(check_initiator_pattern("*"), "");
  EXPECT_EQ(check_initiator_pattern("iqn.1998-01.com.vmware:*"), "");
  EXPECT_EQ(check_initiator_pattern("iqn.1991-05.com.microsoft:HOST1"), "");
  EXPECT_EQ(check_initiator_pattern("iqn.*.com"), "a '*' stands only at the end of a pattern");
  EXPECT_EQ(check_initiator_pattern("**"), "a '*' stands only at the end of a pattern");
  EXPECT_EQ(check_initiator_pattern("host1"), "an iSCSI name starts with 'iqn.', 'eui.' or 'naa.'");
  EXPECT_EQ(check_initiator_pattern(""), "the pattern is empty");
}

struct Parsed {
  std::string address;
  int port;
};
Parsed endpoint(const std::string& text) {
  std::string error;
  const auto out = parse_endpoint(text, error);
  EXPECT_TRUE(out.has_value()) << text << ": " << error;
  return out ? Parsed{out->address, out->port} : Parsed{};
}

TEST(Endpoint, Ipv4AndIpv6WithAndWithoutPort) {
  EXPECT_EQ(endpoint("0.0.0.0:3260").address, "0.0.0.0");
  EXPECT_EQ(endpoint("10.1.2.3").port, 3260);
  EXPECT_EQ(endpoint("10.1.2.3:860").port, 860);
  EXPECT_EQ(endpoint("[::]:3261").address, "::");
  EXPECT_EQ(endpoint("[::]:3261").port, 3261);
  EXPECT_EQ(endpoint("[::1]").port, 3260);
  EXPECT_EQ(endpoint("fe80::1%eth0").address, "fe80::1%eth0");
  EXPECT_EQ(endpoint("1.2.3.4:65535").port, 65535);
}

TEST(Endpoint, NamesAndBadPortsAreRefused) {
  for (const char* text : {"", "localhost:3260", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:080", "[::1]3260",
                           "[::1", "[1.2.3.4]:3260", "1.2.3:3260", ":3260", "[]:1", "1.2.3.4:5:6", "1.2.3.4 "}) {
    std::string error;
    EXPECT_FALSE(parse_endpoint(text, error).has_value()) << text;
    EXPECT_NE(error, "") << text;
  }
}

TEST(Endpoint, Loopback) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.8.9.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("::"));
  EXPECT_FALSE(is_loopback("128.0.0.1"));
}

TEST(ZvolName, PoolAndPath) {
  EXPECT_EQ(check_zvol_name("tank/vm/win2022"), "");
  EXPECT_EQ(check_zvol_name("tank/a-b_c.d:e f"), "");
  EXPECT_EQ(check_zvol_name("tank"), "expects pool/path, without /dev/zvol");
  EXPECT_EQ(check_zvol_name("/dev/zvol/tank/a"), "expects pool/path, without /dev/zvol");
  EXPECT_EQ(check_zvol_name("tank/../sda"), "a part of a ZFS name is not '.' or '..'");
  EXPECT_EQ(check_zvol_name("tank//a"), "expects pool/path, without /dev/zvol");
  EXPECT_EQ(check_zvol_name("tank/a@snap"), "a snapshot cannot be served, name a volume");
  EXPECT_NE(check_zvol_name("tank/a*"), "");
}

TEST(UuidText, CanonicalFormInLowerCase) {
  EXPECT_EQ(parse_uuid("5C1F6BD2-7b66-4f5f-9d0c-3a8f3a1d2e44"), "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44");
  EXPECT_FALSE(parse_uuid("5c1f6bd27b664f5f9d0c3a8f3a1d2e44").has_value());
  EXPECT_FALSE(parse_uuid("{5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44}").has_value());
  EXPECT_FALSE(parse_uuid("5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e4g").has_value());
  EXPECT_FALSE(parse_uuid("00000000-0000-0000-0000-000000000000").has_value());
  EXPECT_FALSE(parse_uuid("FFFFFFFF-ffff-ffff-ffff-ffffffffffff").has_value());
}

TEST(Path, OneSpelling) {
  EXPECT_EQ(normal_path("/srv//a/./b/../c.img"), "/srv/a/c.img");
  EXPECT_EQ(normal_path("/srv/a/"), "/srv/a");
  EXPECT_EQ(normal_path("/../x"), "/x");
  EXPECT_EQ(normal_path("/"), "/");
  EXPECT_FALSE(normal_path("a.img").has_value());
  EXPECT_FALSE(normal_path("").has_value());
}

}  // namespace
}  // namespace zvolt::config
