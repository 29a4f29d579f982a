// iSCSI names (target/login/names.h).
#include "target/login/names.h"

#include <gtest/gtest.h>

namespace zvolt::iscsi {
namespace {

TEST(Names, UpperCaseIsFolded) {
  EXPECT_EQ(normalize_name("iqn.1991-05.com.Microsoft:WIN-ABC"), "iqn.1991-05.com.microsoft:win-abc");
  EXPECT_EQ(normalize_name("eui.02004567A425678D"), "eui.02004567a425678d");
}

TEST(Names, FormsOfTheRfcPass) {
  EXPECT_TRUE(normalize_name("iqn.2001-04.com.example:storage:diskarrays-sn-a8675309"));
  EXPECT_TRUE(normalize_name("iqn.2001-04.com.example"));
  EXPECT_TRUE(normalize_name("naa.52004567BA64678D"));
  EXPECT_TRUE(normalize_name("naa.62004567BA64678D0123456789ABCDEF"));
  EXPECT_TRUE(
      normalize_name("iqn.2001-04.com.example:stra\xc3\x9f"
                     "e"));
}

TEST(Names, OtherFormsAreRefused) {
  for (const char* name :
       {"", "iqn", "iqn.", "disk1", "eui.0200", "eui.02004567A425678G", "naa.52004567BA64678D0", "wwn.02004567A425678D",
        "iqn.2001-04.com.example:a b", "iqn.2001-04.com.example:\n", "iqn.2001-04.com.example:\x7f"}) {
    EXPECT_FALSE(normalize_name(name)) << name;
  }
}

TEST(Names, Of223BytesPassAndOf224AreRefused) {
  const std::string prefix = "iqn.2001-04.com.example:";
  EXPECT_TRUE(normalize_name(prefix + std::string(223 - prefix.size(), 'x')));
  EXPECT_FALSE(normalize_name(prefix + std::string(224 - prefix.size(), 'x')));
}

TEST(Names, MalformedUtf8IsRefused) {
  for (const char* bytes : {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                            "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xc2\x85"}) {
    EXPECT_FALSE(is_clean_utf8(bytes)) << bytes;
    EXPECT_FALSE(normalize_name(std::string("iqn.2001-04.com.example:") + bytes)) << bytes;
  }
  EXPECT_TRUE(is_clean_utf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\xbe"));
}

}  // namespace
}  // namespace zvolt::iscsi
