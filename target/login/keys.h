// The one table of text keys (RFC 7143 sections 12 and 13, RFC 7144) and how a value of one is answered.
// LoginNegotiator and TextSession are driven by it; nothing else knows a key's rules. Pure: no state of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "target/login/login.h"

namespace zvolt::iscsi {

enum class KeyType : uint8_t {
  boolean_and,      // Yes/No, result AND
  boolean_or,       // Yes/No, result OR
  number_min,       // result: the smaller of offer and ours
  number_max,       // result: the larger
  number_declared,  // each side declares its own
  list,             // first offered value that is among `choices`
  text,             // declared; store_text() takes it
  authentication,   // a step of an authentication method that was not chosen
  refused,          // obsolete: always Reject
  refused_no,       // obsolete boolean: always No
};

// Where an initiator may send a key.
enum KeyUse : uint8_t {
  kSecurityStage = 1,
  kOperationalStage = 2,
  kFullFeature = 4,
  kLeadingOnly = 8,  // not on a connection that joins a session ("use: LO")
  kRepeatable = 16,  // the same value again is no error: libiscsi declares the names in both stages
  kTargetOnly = 32,  // declared by the target alone
};
inline constexpr uint8_t kAnyStage = kSecurityStage | kOperationalStage;

// A segment's keys are answered in this order, whatever their order in the text; the answers keep the text's order.
enum class KeyPass : uint8_t {
  identity,  // who, what and which type: decides what the rest means
  plain,
  dependent,  // limited by the result of a plain one
};
inline constexpr KeyPass kKeyPasses[] = {KeyPass::identity, KeyPass::plain, KeyPass::dependent};

struct KeyRule {
  std::string_view name;
  KeyType type;
  uint8_t use;
  KeyPass pass = KeyPass::plain;
  bool discovery = true;  // false: "Irrelevant when: SessionType=Discovery"
  uint32_t low = 0;  // numbers: legal range and the RFC's default; booleans: default only; lists: index of the default
  uint32_t high = 0;
  uint32_t initial = 0;
  uint32_t (*ours)(const LoginLimits&, const SessionParameters&) = nullptr;  // what we would choose
  void (*store)(SessionParameters&, uint32_t) = nullptr;                     // numbers, booleans, index of a choice
  std::span<const std::string_view> choices = {};                            // lists: what we support
  LoginStatus no_choice = LoginStatus::success;                              // lists: ends the login instead of Reject
  LoginStatus (*store_text)(SessionParameters&, std::string_view) = nullptr;
};

std::span<const KeyRule> key_table();
inline constexpr size_t kMaxKeyRules = 64;  // for bit sets indexed like the table

// Index into key_table(), or nullopt: not a key of ours.
std::optional<size_t> find_key(std::string_view name);

struct KeyOutcome {
  LoginStatus status = LoginStatus::success;  // other: the negotiation has failed
  std::optional<std::string> answer;          // nullopt: declared, nothing to say
};
// Answers one value and stores the result. The caller has checked stage and repetition.
KeyOutcome negotiate_key(const KeyRule& rule, std::string_view value, const LoginLimits& limits,
                         SessionParameters& parameters);

// Every negotiated value at the RFC's default (RFC 7143 13: what holds when a key was not exchanged).
void store_key_defaults(SessionParameters& parameters);

// "Reject", "Irrelevant", "NotUnderstood": answers, never proposals (RFC 7143 6.2).
bool is_reserved_answer(std::string_view value);

// numerical-value of RFC 7143 6.1: decimal without leading zeros, or 0x and hexadecimal digits.
std::optional<uint64_t> parse_number(std::string_view value);

}  // namespace zvolt::iscsi
