// LoginPeer: the initiator's side of a login against a LoginNegotiator, as verbs for tests. Every answer is checked
// against the rules that hold for any Login Response (RFC 7143 11.13) before the test sees it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/login/login.h"
#include "target/login/text.h"

namespace zvolt::iscsi::test {

inline constexpr char kTarget[] = "iqn.2026-11.org.example:disk";
inline constexpr char kInitiator[] = "iqn.1993-08.org.debian:01:abc";

// One target that everybody may use, one that nobody may.
class FakeDirectory : public LoginDirectory {
 public:
  LoginStatus check_target(std::string_view target, std::string_view initiator, uint16_t group) const override;
  std::string target_alias(std::string_view) const override { return alias; }
  std::string alias;
  mutable std::string asked_initiator, asked_target;
  mutable uint16_t asked_group = 0;
};

std::vector<uint8_t> text_of(std::initializer_list<std::string_view> pairs);
std::vector<uint8_t> text_of(const std::vector<std::string>& pairs);

inline constexpr int kStay = -1;  // T=0

class LoginPeer {
 public:
  explicit LoginPeer(LoginLimits limits = {}, uint16_t group = 1) : negotiator(directory, limits, group) {}

  // One Login Request; nsg kStay leaves T=0.
  LoginStep send(uint8_t csg, int nsg, std::span<const uint8_t> text, bool more = false);
  LoginStep send(uint8_t csg, int nsg, std::initializer_list<std::string_view> pairs = {}) {
    return send(csg, nsg, text_of(pairs));
  }
  // Any header, its text.
  LoginStep send_header(const BasicHeaderSegment& header, std::span<const uint8_t> text);
  // Sends, and collects the C=1 parts of the answer with empty requests. The last step is returned, all text in
  // `answers`.
  LoginStep exchange(uint8_t csg, int nsg, std::span<const uint8_t> text);

  BasicHeaderSegment request(uint8_t csg, int nsg, size_t length, bool more = false) const;

  // Value of a key in the text answered last (all parts), nullopt: not there.
  std::optional<std::string> answer(std::string_view key) const;
  size_t count(std::string_view key) const;

  FakeDirectory directory;
  LoginNegotiator negotiator;
  std::vector<KeyValue> answers;
  unsigned parts = 0;  // responses of the last exchange()

  // Fields of the requests.
  uint8_t isid[6] = {0x00, 0x02, 0x3d, 0x00, 0x00, 0x01};
  uint16_t tsih = 0, cid = 0;
  uint32_t task_tag = 0x10, cmd_sn = 1, exp_stat_sn = 0;
  uint8_t version_min = 0, version_max = 0;

 private:
  void check(const BasicHeaderSegment& request, const LoginStep& step);
  std::vector<uint8_t> received_;
};

// "0x0203" and the like, for readable failures.
std::string status_of(const LoginStep& step);

}  // namespace zvolt::iscsi::test
