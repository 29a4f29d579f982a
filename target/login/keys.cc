// The table of text keys: see keys.h. RFC 7143 section 13 in its order, 12 (AuthMethod) and RFC 7144 at the end.
#include "target/login/keys.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "target/login/names.h"

namespace zvolt::iscsi {
namespace {

using Limits = LoginLimits;
using Parameters = SessionParameters;

// What we support of each list, most wanted first does not matter: the initiator's order decides (RFC 7143 6.2.1).
// The index is what store() gets. CRC32C is added here when the connection can compute it.
constexpr std::string_view kDigests[] = {"None"};
constexpr std::string_view kAuthMethods[] = {"None"};
constexpr std::string_view kTaskReporting[] = {"RFC3720"};

constexpr uint32_t kLengthLow = 512, kLengthHigh = (1u << 24) - 1;  // RFC 7143 13.12 to 13.14
constexpr uint8_t kLeading = kOperationalStage | kLeadingOnly;

template <uint32_t kValue>
uint32_t constant(const Limits&, const Parameters&) {
  return kValue;
}

LoginStatus store_initiator_name(Parameters& p, std::string_view value) {
  const auto name = normalize_name(value);
  if (!name) return LoginStatus::initiator_error;
  p.initiator_name = *name;
  return LoginStatus::success;
}

LoginStatus store_target_name(Parameters& p, std::string_view value) {
  const auto name = normalize_name(value);
  if (!name) return LoginStatus::initiator_error;
  p.target_name = *name;
  return LoginStatus::success;
}

// A display string only: one that cannot be shown safely is dropped, not worth a failed login.
LoginStatus store_initiator_alias(Parameters& p, std::string_view value) {
  p.initiator_alias = value.size() <= kMaxAliasLength && is_clean_utf8(value) ? std::string(value) : std::string();
  return LoginStatus::success;
}

LoginStatus store_session_type(Parameters& p, std::string_view value) {
  if (value != "Normal" && value != "Discovery") return LoginStatus::session_type_not_supported;
  p.discovery = value == "Discovery";
  return LoginStatus::success;
}

LoginStatus ignore_text(Parameters&, std::string_view) {
  return LoginStatus::success;
}
void ignore(Parameters&, uint32_t) {}

constexpr KeyRule kTable[] = {
    {.name = "HeaderDigest",
     .type = KeyType::list,
     .use = kOperationalStage,
     .store = [](Parameters& p, uint32_t v) { p.header_digest = v != 0; },
     .choices = kDigests},
    {.name = "DataDigest",
     .type = KeyType::list,
     .use = kOperationalStage,
     .store = [](Parameters& p, uint32_t v) { p.data_digest = v != 0; },
     .choices = kDigests},
    {.name = "MaxConnections",
     .type = KeyType::number_min,
     .use = kLeading,
     .discovery = false,
     .low = 1,
     .high = 65535,
     .initial = 1,
     .ours = constant<1>,
     .store = [](Parameters& p, uint32_t v) { p.max_connections = static_cast<uint16_t>(v); }},
    {.name = "SendTargets", .type = KeyType::text, .use = kFullFeature, .store_text = ignore_text},
    {.name = "TargetName",
     .type = KeyType::text,
     .use = kAnyStage | kRepeatable,
     .pass = KeyPass::identity,
     .store_text = store_target_name},
    {.name = "InitiatorName",
     .type = KeyType::text,
     .use = kAnyStage | kRepeatable,
     .pass = KeyPass::identity,
     .store_text = store_initiator_name},
    {.name = "TargetAlias", .type = KeyType::text, .use = kTargetOnly},
    {.name = "InitiatorAlias",
     .type = KeyType::text,
     .use = kAnyStage | kFullFeature | kRepeatable,
     .store_text = store_initiator_alias},
    {.name = "TargetAddress", .type = KeyType::text, .use = kTargetOnly},
    {.name = "TargetPortalGroupTag", .type = KeyType::text, .use = kTargetOnly},
    {.name = "InitialR2T",
     .type = KeyType::boolean_or,
     .use = kLeading,
     .discovery = false,
     .initial = 1,
     .ours = constant<0>,
     .store = [](Parameters& p, uint32_t v) { p.initial_r2t = v != 0; }},
    {.name = "ImmediateData",
     .type = KeyType::boolean_and,
     .use = kLeading,
     .discovery = false,
     .initial = 1,
     .ours = constant<1>,
     .store = [](Parameters& p, uint32_t v) { p.immediate_data = v != 0; }},
    {.name = "MaxRecvDataSegmentLength",
     .type = KeyType::number_declared,
     .use = kOperationalStage | kFullFeature,
     .low = kLengthLow,
     .high = kLengthHigh,
     .initial = 8192,
     .ours = [](const Limits& l, const Parameters&) { return l.max_recv_data_segment_length; },
     .store = [](Parameters& p, uint32_t v) { p.initiator_max_recv_data_segment_length = v; }},
    {.name = "MaxBurstLength",
     .type = KeyType::number_min,
     .use = kLeading,
     .discovery = false,
     .low = kLengthLow,
     .high = kLengthHigh,
     .initial = 262144,
     .ours = [](const Limits& l, const Parameters&) { return l.max_burst_length; },
     .store = [](Parameters& p, uint32_t v) { p.max_burst_length = v; }},
    // Answered with a number even where InitialR2T=Yes and ImmediateData=No make it irrelevant: always legal, and
    // independent of which of the three comes first.
    {.name = "FirstBurstLength",
     .type = KeyType::number_min,
     .use = kLeading,
     .pass = KeyPass::dependent,
     .discovery = false,
     .low = kLengthLow,
     .high = kLengthHigh,
     .initial = 65536,
     .ours = [](const Limits& l, const Parameters& p) { return std::min(l.first_burst_length, p.max_burst_length); },
     .store = [](Parameters& p, uint32_t v) { p.first_burst_length = v; }},
    {.name = "DefaultTime2Wait",
     .type = KeyType::number_max,
     .use = kLeading,
     .high = 3600,
     .initial = 2,
     .ours = [](const Limits& l, const Parameters&) { return uint32_t{l.default_time2wait}; },
     .store = [](Parameters& p, uint32_t v) { p.default_time2wait = static_cast<uint16_t>(v); }},
    {.name = "DefaultTime2Retain",
     .type = KeyType::number_min,
     .use = kLeading,
     .high = 3600,
     .initial = 20,
     .ours = [](const Limits& l, const Parameters&) { return uint32_t{l.default_time2retain}; },
     .store = [](Parameters& p, uint32_t v) { p.default_time2retain = static_cast<uint16_t>(v); }},
    {.name = "MaxOutstandingR2T",
     .type = KeyType::number_min,
     .use = kLeading,
     .discovery = false,
     .low = 1,
     .high = 65535,
     .initial = 1,
     .ours = [](const Limits& l, const Parameters&) { return l.max_outstanding_r2t; },
     .store = [](Parameters& p, uint32_t v) { p.max_outstanding_r2t = v; }},
    {.name = "DataPDUInOrder",
     .type = KeyType::boolean_or,
     .use = kLeading,
     .discovery = false,
     .initial = 1,
     .ours = constant<1>,
     .store = [](Parameters& p, uint32_t v) { p.data_pdu_in_order = v != 0; }},
    {.name = "DataSequenceInOrder",
     .type = KeyType::boolean_or,
     .use = kLeading,
     .discovery = false,
     .initial = 1,
     .ours = constant<1>,
     .store = [](Parameters& p, uint32_t v) { p.data_sequence_in_order = v != 0; }},
    {.name = "ErrorRecoveryLevel",
     .type = KeyType::number_min,
     .use = kLeading,
     .high = 2,
     .ours = constant<0>,
     .store = [](Parameters& p, uint32_t v) { p.error_recovery_level = static_cast<uint8_t>(v); }},
    // Leading only by the RFC; tolerated on a joining connection, where it says nothing new.
    {.name = "SessionType",
     .type = KeyType::text,
     .use = kAnyStage | kRepeatable,
     .pass = KeyPass::identity,
     .store_text = store_session_type},
    {.name = "TaskReporting",
     .type = KeyType::list,
     .use = kLeading,
     .discovery = false,
     .store = ignore,
     .choices = kTaskReporting},
    // 13.25: "SHOULD Reject, MAY No". No: open-iscsi and ESXi offer No, and it is what RFC 3720 taught them to expect.
    {.name = "IFMarker", .type = KeyType::refused_no, .use = kOperationalStage},
    {.name = "OFMarker", .type = KeyType::refused_no, .use = kOperationalStage},
    {.name = "IFMarkInt", .type = KeyType::refused, .use = kOperationalStage},
    {.name = "OFMarkInt", .type = KeyType::refused, .use = kOperationalStage},
    {.name = "X#NodeArchitecture", .type = KeyType::text, .use = kOperationalStage, .store_text = ignore_text},
    {.name = "iSCSIProtocolLevel",
     .type = KeyType::number_min,
     .use = kLeading,
     .discovery = false,
     .high = 31,
     .initial = 1,
     .ours = constant<1>,
     .store = ignore},
    {.name = "AuthMethod",
     .type = KeyType::list,
     .use = kSecurityStage,
     .store = ignore,
     .choices = kAuthMethods,
     .no_choice = LoginStatus::authentication_failure},
    {.name = "CHAP_A", .type = KeyType::authentication, .use = kSecurityStage},
    {.name = "CHAP_I", .type = KeyType::authentication, .use = kSecurityStage},
    {.name = "CHAP_C", .type = KeyType::authentication, .use = kSecurityStage},
    {.name = "CHAP_N", .type = KeyType::authentication, .use = kSecurityStage},
    {.name = "CHAP_R", .type = KeyType::authentication, .use = kSecurityStage},
};
static_assert(std::size(kTable) <= kMaxKeyRules);

KeyOutcome answer(std::string_view value) {
  return {LoginStatus::success, std::string(value)};
}

KeyOutcome negotiate_boolean(const KeyRule& rule, std::string_view value, const Limits& limits, Parameters& p) {
  if (value != "Yes" && value != "No") return answer("Reject");
  const bool offered = value == "Yes";
  const bool ours = rule.ours(limits, p) != 0;
  const bool result = rule.type == KeyType::boolean_and ? offered && ours : offered || ours;
  rule.store(p, result);
  // Answered also where the RFC leaves it open (AND with No, OR with Yes): every initiator copes with an answer.
  return answer(result ? "Yes" : "No");
}

KeyOutcome negotiate_number(const KeyRule& rule, std::string_view value, const Limits& limits, Parameters& p) {
  const auto number = parse_number(value);
  if (!number || *number < rule.low || *number > rule.high) return answer("Reject");
  const auto offered = static_cast<uint32_t>(*number);
  if (rule.type == KeyType::number_declared) {
    rule.store(p, offered);
    return {};
  }
  const uint32_t ours = std::clamp(rule.ours(limits, p), rule.low, rule.high);
  const uint32_t result = rule.type == KeyType::number_min ? std::min(offered, ours) : std::max(offered, ours);
  rule.store(p, result);
  return answer(std::to_string(result));
}

KeyOutcome negotiate_list(const KeyRule& rule, std::string_view value, Parameters& p) {
  for (size_t start = 0; start <= value.size();) {
    const size_t comma = std::min(value.find(',', start), value.size());
    const std::string_view offered = value.substr(start, comma - start);
    const auto choice = std::ranges::find(rule.choices, offered);
    if (choice != rule.choices.end()) {
      rule.store(p, static_cast<uint32_t>(choice - rule.choices.begin()));
      return answer(offered);
    }
    start = comma + 1;
  }
  if (rule.no_choice != LoginStatus::success) return {rule.no_choice, std::nullopt};
  return answer("Reject");
}

}  // namespace

std::span<const KeyRule> key_table() {
  return kTable;
}

std::optional<size_t> find_key(std::string_view name) {
  const auto rule = std::ranges::find(kTable, name, &KeyRule::name);
  if (rule == std::end(kTable)) return std::nullopt;
  return static_cast<size_t>(rule - std::begin(kTable));
}

KeyOutcome negotiate_key(const KeyRule& rule, std::string_view value, const LoginLimits& limits,
                         SessionParameters& parameters) {
  if (parameters.discovery && !rule.discovery) return answer("Irrelevant");
  switch (rule.type) {
    case KeyType::boolean_and:
    case KeyType::boolean_or:
      return negotiate_boolean(rule, value, limits, parameters);
    case KeyType::number_min:
    case KeyType::number_max:
    case KeyType::number_declared:
      return negotiate_number(rule, value, limits, parameters);
    case KeyType::list:
      return negotiate_list(rule, value, parameters);
    case KeyType::text:
      if (rule.store_text == nullptr) return {LoginStatus::initiator_error, std::nullopt};
      return {rule.store_text(parameters, value), std::nullopt};
    case KeyType::authentication:
      return {LoginStatus::authentication_failure, std::nullopt};
    case KeyType::refused:
      return answer("Reject");
    case KeyType::refused_no:
      return answer("No");
  }
  return answer("NotUnderstood");
}

void store_key_defaults(SessionParameters& parameters) {
  for (const KeyRule& rule : kTable) {
    if (rule.store != nullptr) rule.store(parameters, rule.initial);
  }
}

bool is_reserved_answer(std::string_view value) {
  return value == "Reject" || value == "Irrelevant" || value == "NotUnderstood";
}

std::optional<uint64_t> parse_number(std::string_view value) {
  const bool hex = value.starts_with("0x") || value.starts_with("0X");
  if (hex) value.remove_prefix(2);
  if (value.empty() || (!hex && value.size() > 1 && value.front() == '0')) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number, hex ? 16 : 10);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

}  // namespace zvolt::iscsi
