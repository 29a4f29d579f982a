// LoginPeer: see login_peer.h.
#include "tests/unit/target/login_peer.h"

#include <algorithm>
#include <cstring>

namespace zvolt::iscsi::test {

LoginStatus FakeDirectory::check_target(std::string_view target, std::string_view initiator, uint16_t group) const {
  asked_target = target;
  asked_initiator = initiator;
  asked_group = group;
  if (target == "iqn.2026-11.org.example:private") return LoginStatus::authorization_failure;
  return target == kTarget ? LoginStatus::success : LoginStatus::not_found;
}

std::vector<uint8_t> text_of(std::initializer_list<std::string_view> pairs) {
  std::vector<uint8_t> text;
  for (const std::string_view pair : pairs) {
    text.insert(text.end(), pair.begin(), pair.end());
    text.push_back(0);
  }
  return text;
}

std::vector<uint8_t> text_of(const std::vector<std::string>& pairs) {
  std::vector<uint8_t> text;
  for (const std::string& pair : pairs) text.insert(text.end(), pair.c_str(), pair.c_str() + pair.size() + 1);
  return text;
}

BasicHeaderSegment LoginPeer::request(uint8_t csg, int nsg, size_t length, bool more) const {
  BasicHeaderSegment header{};
  auto& r = as<LoginRequest>(header);
  r.opcode_byte = static_cast<uint8_t>(Opcode::login_request) | kImmediate;
  r.flags = static_cast<uint8_t>((nsg == kStay ? 0 : LoginRequest::kTransit | nsg) | (csg << 2) |
                                 (more ? LoginRequest::kContinue : 0));
  r.version_max = version_max;
  r.version_min = version_min;
  r.data_segment_length = static_cast<uint32_t>(length);
  std::memcpy(r.isid, isid, sizeof isid);
  r.tsih = tsih;
  r.initiator_task_tag = task_tag;
  r.cid = cid;
  r.cmd_sn = cmd_sn;
  r.exp_stat_sn = exp_stat_sn;
  return header;
}

LoginStep LoginPeer::send(uint8_t csg, int nsg, std::span<const uint8_t> text, bool more) {
  return send_header(request(csg, nsg, text.size(), more), text);
}

LoginStep LoginPeer::send_header(const BasicHeaderSegment& header, std::span<const uint8_t> text) {
  LoginStep step = negotiator.receive(header, text);
  check(header, step);
  if (step.close) {  // what came before a refusal is void
    received_.clear();
    answers.clear();
    return step;
  }
  received_.insert(received_.end(), step.text.begin(), step.text.end());
  if ((step.header.flags & LoginRequest::kContinue) == 0) {
    const auto pairs = parse_text(received_);
    EXPECT_TRUE(pairs.has_value()) << "the answer is no legal text";
    answers = pairs.value_or(std::vector<KeyValue>());
    received_.clear();
  }
  return step;
}

LoginStep LoginPeer::exchange(uint8_t csg, int nsg, std::span<const uint8_t> text) {
  constexpr size_t kPart = LoginNegotiator::kMaxLoginSegment;
  for (; text.size() > kPart; text = text.subspan(kPart)) {
    LoginStep step = send(csg, kStay, text.first(kPart), true);
    if (step.close) return step;
  }
  LoginStep step = send(csg, nsg, text);
  for (parts = 1; (step.header.flags & LoginRequest::kContinue) != 0 && parts < 100; ++parts) step = send(csg, nsg);
  return step;
}

std::optional<std::string> LoginPeer::answer(std::string_view key) const {
  const auto found = std::ranges::find(answers, key, &KeyValue::key);
  if (found == answers.end()) return std::nullopt;
  return found->value;
}

size_t LoginPeer::count(std::string_view key) const {
  return static_cast<size_t>(std::ranges::count(answers, key, &KeyValue::key));
}

void LoginPeer::check(const BasicHeaderSegment& header, const LoginStep& step) {
  if (step.drop) return;
  const auto& response = as<LoginResponse>(step.header);
  EXPECT_EQ(response.opcode_byte, 0x23);
  EXPECT_EQ(response.version_max, 0);
  EXPECT_EQ(response.version_active, 0);
  EXPECT_EQ(response.total_ahs_length, 0);
  EXPECT_EQ(response.data_segment_length.value(), step.text.size());
  EXPECT_LE(step.text.size(), LoginNegotiator::kMaxLoginSegment);
  EXPECT_EQ(response.flags & 0x30, 0) << "reserved bits";
  EXPECT_EQ(response.status_class << 8 | response.status_detail, static_cast<int>(step.status));
  if (step.status != LoginStatus::success) {
    EXPECT_EQ(response.flags, 0) << "T, C, CSG and NSG are reserved in a refusal";
    EXPECT_TRUE(step.text.empty());
    EXPECT_TRUE(step.close);
    EXPECT_FALSE(step.ready);
    return;
  }
  const auto& request = as<LoginRequest>(header);
  const bool transit = (response.flags & LoginRequest::kTransit) != 0;
  const bool more = (response.flags & LoginRequest::kContinue) != 0;
  EXPECT_FALSE(step.close);
  EXPECT_EQ(std::memcmp(response.isid, request.isid, sizeof request.isid), 0);
  EXPECT_EQ(response.initiator_task_tag.value(), request.initiator_task_tag.value());
  EXPECT_EQ((response.flags >> 2) & 3, request.csg());
  EXPECT_FALSE(transit && more);
  EXPECT_FALSE(transit && !request.transit()) << "T without being asked";
  EXPECT_EQ(response.flags & 3, transit ? request.nsg() : 0);
  EXPECT_EQ(step.ready, transit && request.nsg() == 3);
  EXPECT_TRUE(!request.more() || step.text.empty()) << "6.2: C=1 is answered without a data segment";
}

std::string status_of(const LoginStep& step) {
  if (step.drop) return "dropped";
  char text[8];
  std::snprintf(text, sizeof text, "0x%04x", static_cast<unsigned>(step.status));
  return text;
}

}  // namespace zvolt::iscsi::test
