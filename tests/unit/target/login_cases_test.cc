// Logins that have broken other targets, by public report: unknown keys and their lengths (CVE-2013-2850), PDUs other
// than Login Requests before the login is finished (a port scanner crashed one).
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/target/login_peer.h"

namespace zvolt::iscsi::test {
namespace {

constexpr uint8_t kSecurity = 0, kOperational = 1;
constexpr int kFull = 3;

std::vector<uint8_t> login_text(const std::string& raw) {
  std::vector<uint8_t> text = text_of({std::string("InitiatorName=") + kInitiator, std::string("TargetName=") + kTarget,
                                       std::string("SessionType=Normal")});
  text.insert(text.end(), raw.begin(), raw.end());
  return text;
}
std::string pair(const std::string& key, const std::string& value) {
  return key + "=" + value + '\0';
}

TEST(LoginUnknownKeys, AreAnsweredByTheirExactName) {
  const std::string longest(63, 'K');
  for (const std::string& key :
       {std::string("X-com.example.test"), std::string("Foo"), longest, std::string("RDMAExtensions")}) {
    LoginPeer peer;
    EXPECT_TRUE(peer.send(kOperational, kFull, login_text(pair(key, "1"))).ready) << key;
    EXPECT_EQ(peer.answer(key), "NotUnderstood") << key;
  }
}

TEST(LoginUnknownKeys, NamesOver63BytesAreRefused) {
  for (const size_t length : {size_t{64}, size_t{255}, size_t{7000}}) {
    LoginPeer peer;
    EXPECT_EQ(status_of(peer.send(kOperational, kFull, login_text(pair(std::string(length, 'K'), "1")))), "0x0200")
        << length;
  }
}

TEST(LoginUnknownKeys, LongValueIsNotEchoed) {
  LoginPeer peer;
  const std::string key(63, 'K');
  EXPECT_TRUE(peer.send(kOperational, kFull, login_text(pair(key, std::string(8000, 'v')))).ready);
  EXPECT_EQ(peer.answer(key), "NotUnderstood");
}

TEST(LoginUnknownKeys, TwoHundredAreAllAnswered) {
  LoginPeer peer;
  std::string raw;
  const auto key = [](int i) { return "X-com.example.key" + std::string(i % 12, 'k') + std::to_string(i); };
  for (int i = 0; i < 200; ++i) raw += pair(key(i), "1");
  ASSERT_LE(login_text(raw).size(), LoginNegotiator::kMaxLoginSegment);
  EXPECT_TRUE(peer.exchange(kOperational, kFull, login_text(raw)).ready);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(peer.answer(key(i)), "NotUnderstood");
}

TEST(LoginUnknownKeys, TextThatIsNoListIsRefused) {
  for (const std::string& raw : {std::string("NoEquals\0", 9), std::string("=value\0", 7), std::string("Last=1")}) {
    LoginPeer peer;
    EXPECT_EQ(status_of(peer.send(kOperational, kFull, login_text(raw))), "0x0200") << raw;
  }
}

std::vector<BasicHeaderSegment> other_pdus() {
  std::vector<BasicHeaderSegment> pdus;
  for (const int opcode : {0x40, 0x00, 0x01, 0x04, 0x06, 0x46, 0x05, 0x02, 0x10, 0x20, 0x23, 0x3f}) {
    BasicHeaderSegment header{};
    header.opcode_byte = static_cast<uint8_t>(opcode);
    header.flags = kFinal;
    pdus.push_back(header);
  }
  for (const char* bytes :
       {"GET / HTTP/1.0\r\nHost: example.org\r\nAccept: */*\r\n\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 an opening of TLS, random bytes follow here 12345"}) {
    BasicHeaderSegment header{};
    std::memcpy(&header, bytes, sizeof header);
    pdus.push_back(header);
  }
  return pdus;
}

TEST(LoginOtherPdus, AsTheFirstAreDropped) {
  for (const BasicHeaderSegment& header : other_pdus()) {
    LoginPeer peer;
    const LoginStep step = peer.send_header(header, {});
    EXPECT_TRUE(step.drop) << int{header.opcode_byte};
    EXPECT_TRUE(step.text.empty());
  }
}

TEST(LoginOtherPdus, AfterALoginRequestAreRefusedAndClose) {
  for (const BasicHeaderSegment& header : other_pdus()) {
    LoginPeer peer;
    peer.task_tag = 0x77;
    ASSERT_EQ(peer.send(kSecurity, kOperational, login_text("")).header.flags, 0x81);
    const LoginStep step = peer.send_header(header, {});
    EXPECT_EQ(status_of(step), "0x020b") << int{header.opcode_byte};
    EXPECT_EQ(as<LoginResponse>(step.header).initiator_task_tag.value(), 0x77u) << "the login's tag";
    EXPECT_TRUE(peer.send_header(header, {}).drop);
  }
}

}  // namespace
}  // namespace zvolt::iscsi::test
