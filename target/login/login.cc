// LoginNegotiator: see login.h. RFC 7143 6.2 (text negotiation), 6.3 (login phase), 11.12 and 11.13 (PDUs). What a key
// means is in keys.cc; here are the stages, the T and C bits, continuation and the refusals.
#include "target/login/login.h"

#include <algorithm>
#include <bitset>
#include <cstring>

#include "target/login/keys.h"
#include "target/login/text.h"

namespace zvolt::iscsi {
namespace {

enum Stage : uint8_t { kSecurity = 0, kOperational = 1, kFullFeaturePhase = 3 };  // RFC 7143 11.12.3

// Login Requests of one login: 8 parts of 8192 bytes and ten exchanges are ample; an initiator that keeps asking is cut
// off.
constexpr unsigned kMaxLoginRequests = 256;

constexpr uint8_t kOurVersion = 0;  // RFC 7143 11.12.4

bool legal_stage_request(const LoginRequest& request) {
  if (request.csg() != kSecurity && request.csg() != kOperational) return false;
  if (!request.transit()) return true;
  if (request.more()) return false;  // 11.12.2: C=1 excludes T=1
  const bool known = request.nsg() == kOperational || request.nsg() == kFullFeaturePhase;
  return known && request.nsg() > request.csg();
}

bool same_login(const LoginRequest& a, const LoginRequest& b) {
  return std::memcmp(a.isid, b.isid, sizeof a.isid) == 0 && a.tsih.value() == b.tsih.value() &&
         a.cid.value() == b.cid.value() && a.initiator_task_tag.value() == b.initiator_task_tag.value();
}

// A Login Response to `request` without stage bits: right as it stands for refusals (6.3.1: T, CSG, NSG reserved).
LoginStep bare_response(const LoginRequest& request) {
  LoginStep step;
  auto& response = as<LoginResponse>(step.header);
  response.opcode_byte = static_cast<uint8_t>(Opcode::login_response);
  response.version_max = kOurVersion;
  response.version_active = kOurVersion;
  std::memcpy(response.isid, request.isid, sizeof response.isid);
  response.tsih = request.tsih.value();
  response.initiator_task_tag = request.initiator_task_tag.value();
  return step;
}

LoginStep dropped() {
  LoginStep step;
  step.drop = true;
  step.close = true;
  return step;
}

}  // namespace

struct LoginNegotiator::Impl {
  enum class State : uint8_t { start, negotiating, done, failed };

  Impl(const LoginDirectory& login_directory, LoginLimits login_limits, uint16_t group)
      : directory(login_directory), limits(login_limits), portal_group(group) {
    store_key_defaults(parameters);
    parameters.target_max_recv_data_segment_length = kMaxLoginSegment;  // until we declare ours
  }

  LoginStep receive(const BasicHeaderSegment& header, std::span<const uint8_t> text);
  LoginStep refuse(LoginStatus status) const;

  LoginStatus admit(const LoginRequest& request, size_t text_bytes);
  LoginStatus take_text(const LoginRequest& request, std::span<const uint8_t> text);
  LoginStatus negotiate_segment();
  LoginStatus admit_key(const KeyValue& pair, std::optional<size_t> rule, bool& ignored);
  LoginStatus identify();
  void declare();
  LoginStatus check_integrity();
  LoginStep respond(const LoginRequest& request);

  bool answering() const { return sent < outgoing.size(); }

  const LoginDirectory& directory;
  LoginLimits limits;
  uint16_t portal_group;
  SessionParameters parameters;
  State state = State::start;
  uint8_t stage = kSecurity;
  BasicHeaderSegment first{};  // the first Login Request: ISID, TSIH, CID and ITT hold for the whole login
  unsigned requests = 0;
  bool identified = false;  // names and session type are known and accepted
  bool lengths_declared = false;
  std::bitset<kMaxKeyRules> seen;  // keys exchanged so far in this login
  std::vector<uint8_t> incoming;   // C=1 parts so far
  std::vector<uint8_t> outgoing;   // answer under way, sent in parts of kMaxLoginSegment
  size_t sent = 0;                 // of outgoing
};

LoginStep LoginNegotiator::Impl::receive(const BasicHeaderSegment& header, std::span<const uint8_t> text) {
  if (state == State::done || state == State::failed) return dropped();
  if (header.opcode() != Opcode::login_request) {
    if (state == State::start) return dropped();
    state = State::failed;
    return refuse(LoginStatus::invalid_during_login);
  }
  const auto& request = as<LoginRequest>(header);
  LoginStatus status = admit(request, text.size());
  if (status == LoginStatus::success) status = take_text(request, text);
  if (status == LoginStatus::success && !request.more() && !answering()) status = negotiate_segment();
  if (status != LoginStatus::success) {
    state = State::failed;
    return refuse(status);
  }
  return respond(request);
}

// Everything about the header that does not depend on the text.
LoginStatus LoginNegotiator::Impl::admit(const LoginRequest& request, size_t text_bytes) {
  if (state == State::start) {
    first = reinterpret_cast<const BasicHeaderSegment&>(request);
    state = State::negotiating;
    stage = request.csg();
    std::memcpy(parameters.isid.data(), request.isid, sizeof request.isid);
    parameters.cid = request.cid.value();
    if (request.version_min > kOurVersion) return LoginStatus::unsupported_version;
  }
  const bool legal = legal_stage_request(request) && request.csg() == stage &&
                     same_login(request, as<LoginRequest>(first)) && request.total_ahs_length == 0 &&
                     text_bytes <= kMaxLoginSegment && ++requests <= kMaxLoginRequests;
  return legal ? LoginStatus::success : LoginStatus::initiator_error;
}

// Collects the parts of a request. While our own answer is longer than a PDU the initiator has nothing to say (6.2).
LoginStatus LoginNegotiator::Impl::take_text(const LoginRequest& request, std::span<const uint8_t> text) {
  if (answering()) return text.empty() && !request.more() ? LoginStatus::success : LoginStatus::initiator_error;
  if (incoming.size() + text.size() > kMaxLoginText) return LoginStatus::out_of_resources;
  incoming.insert(incoming.end(), text.begin(), text.end());
  return LoginStatus::success;
}

// A whole logical text data segment: answers every key of it into `outgoing`.
LoginStatus LoginNegotiator::Impl::negotiate_segment() {
  const auto pairs = parse_text(incoming);
  incoming.clear();
  outgoing.clear();
  sent = 0;
  if (!pairs) return LoginStatus::initiator_error;

  std::vector<std::optional<std::string>> answers(pairs->size());
  for (const KeyPass pass : kKeyPasses) {
    for (size_t i = 0; i < pairs->size(); ++i) {
      const KeyValue& pair = (*pairs)[i];
      const auto index = find_key(pair.key);
      if ((index ? key_table()[*index].pass : KeyPass::plain) != pass) continue;
      bool ignored = false;
      const LoginStatus admitted = admit_key(pair, index, ignored);
      if (admitted != LoginStatus::success) return admitted;
      if (ignored) continue;
      if (!index) {
        answers[i] = "NotUnderstood";
        continue;
      }
      KeyOutcome outcome = negotiate_key(key_table()[*index], pair.value, limits, parameters);
      if (outcome.status != LoginStatus::success) return outcome.status;
      answers[i] = std::move(outcome.answer);
    }
    if (pass == KeyPass::identity && !identified) {
      const LoginStatus status = identify();
      if (status != LoginStatus::success) return status;
    }
  }
  declare();
  for (size_t i = 0; i < pairs->size(); ++i) {
    if (answers[i]) append_text(outgoing, (*pairs)[i].key, *answers[i]);
  }
  return check_integrity();
}

// May this key be sent now (6.3: by stage, once)? `ignored`: nothing to negotiate, go on with the next.
LoginStatus LoginNegotiator::Impl::admit_key(const KeyValue& pair, std::optional<size_t> index, bool& ignored) {
  if (!index) return is_reserved_answer(pair.value) ? LoginStatus::initiator_error : LoginStatus::success;
  const KeyRule& rule = key_table()[*index];
  if (is_reserved_answer(pair.value)) {
    // 6.2: legal only as the answer to a declaration of ours.
    ignored = (rule.use & kTargetOnly) != 0 || (rule.type == KeyType::number_declared && lengths_declared);
    return ignored ? LoginStatus::success : LoginStatus::initiator_error;
  }
  const uint8_t here = stage == kSecurity ? kSecurityStage : kOperationalStage;
  if ((rule.use & here) == 0) return LoginStatus::initiator_error;
  if ((rule.use & kLeadingOnly) != 0 && as<LoginRequest>(first).tsih.value() != 0) return LoginStatus::initiator_error;
  if (seen.test(*index)) {
    if ((rule.use & kRepeatable) == 0) return LoginStatus::initiator_error;
    SessionParameters again = parameters;
    const LoginStatus status = rule.store_text(again, pair.value);
    const bool same = again.initiator_name == parameters.initiator_name &&
                      again.target_name == parameters.target_name &&
                      again.initiator_alias == parameters.initiator_alias && again.discovery == parameters.discovery;
    ignored = true;
    return status == LoginStatus::success && same ? LoginStatus::success : LoginStatus::initiator_error;
  }
  seen.set(*index);
  return LoginStatus::success;
}

// After the first complete segment: who is it, may it in (6.3: the names belong into the initial Login Request).
LoginStatus LoginNegotiator::Impl::identify() {
  if (parameters.initiator_name.empty()) return LoginStatus::missing_parameter;
  if (parameters.discovery) {
    parameters.target_name.clear();  // a Discovery session is with the network entity, not with a target
  } else {
    if (parameters.target_name.empty()) return LoginStatus::missing_parameter;
    const LoginStatus status = directory.check_target(parameters.target_name, parameters.initiator_name, portal_group);
    if (status != LoginStatus::success) return status;
  }
  identified = true;
  if (!parameters.discovery) {
    const std::string alias = directory.target_alias(parameters.target_name);
    if (!alias.empty()) append_text(outgoing, "TargetAlias", alias);
  }
  append_text(outgoing, "TargetPortalGroupTag", std::to_string(portal_group));  // 6.3.1: all session types
  return LoginStatus::success;
}

// What we declare unasked in the operational stage: once, in its first answer.
void LoginNegotiator::Impl::declare() {
  if (stage != kOperational || lengths_declared) return;
  lengths_declared = true;
  parameters.target_max_recv_data_segment_length = limits.max_recv_data_segment_length;
  append_text(outgoing, "MaxRecvDataSegmentLength", std::to_string(limits.max_recv_data_segment_length));
}

// 13.14: FirstBurstLength must not exceed MaxBurstLength. An agreed value that does is an error of the initiator's
// order of keys; a default one is not worth a refusal and is simply cut (nothing was said that this contradicts).
LoginStatus LoginNegotiator::Impl::check_integrity() {
  if (parameters.first_burst_length <= parameters.max_burst_length) return LoginStatus::success;
  if (seen.test(*find_key("FirstBurstLength"))) return LoginStatus::initiator_error;
  parameters.first_burst_length = parameters.max_burst_length;
  return LoginStatus::success;
}

// The next part of the answer (all of it, mostly). Stage transition only with the last part, and only when asked for
// now.
LoginStep LoginNegotiator::Impl::respond(const LoginRequest& request) {
  LoginStep step = bare_response(request);
  const size_t length = std::min<size_t>(outgoing.size() - sent, kMaxLoginSegment);
  const auto part = outgoing.begin() + static_cast<std::ptrdiff_t>(sent);
  step.text.assign(part, part + static_cast<std::ptrdiff_t>(length));
  sent += length;

  const bool more = answering();
  const bool transit = request.transit() && !more;
  step.header.data_segment_length = static_cast<uint32_t>(length);
  step.header.flags =
      static_cast<uint8_t>((transit ? LoginRequest::kTransit : 0) | (more ? LoginRequest::kContinue : 0) |
                           (stage << 2) | (transit ? request.nsg() : 0));
  if (!transit) return step;
  if (request.nsg() == kFullFeaturePhase) {
    state = State::done;
    step.ready = true;
  } else {
    stage = request.nsg();
  }
  return step;
}

LoginStep LoginNegotiator::Impl::refuse(LoginStatus status) const {
  LoginStep step = bare_response(as<LoginRequest>(first));
  auto& response = as<LoginResponse>(step.header);
  response.status_class = static_cast<uint8_t>(static_cast<uint16_t>(status) >> 8);
  response.status_detail = static_cast<uint8_t>(static_cast<uint16_t>(status) & 0xff);
  step.status = status;
  step.close = true;
  return step;
}

LoginNegotiator::LoginNegotiator(const LoginDirectory& directory, LoginLimits limits, uint16_t portal_group)
    : impl_(std::make_unique<Impl>(directory, limits, portal_group)) {}
LoginNegotiator::~LoginNegotiator() = default;

LoginStep LoginNegotiator::receive(const BasicHeaderSegment& header, std::span<const uint8_t> text) {
  return impl_->receive(header, text);
}
LoginStep LoginNegotiator::refuse(LoginStatus status) const {
  return impl_->refuse(status);
}
const SessionParameters& LoginNegotiator::parameters() const {
  return impl_->parameters;
}
uint16_t LoginNegotiator::requested_tsih() const {
  return as<LoginRequest>(impl_->first).tsih.value();
}
uint32_t LoginNegotiator::initial_cmd_sn() const {
  return as<LoginRequest>(impl_->first).cmd_sn.value();
}
uint32_t LoginNegotiator::initial_exp_stat_sn() const {
  return as<LoginRequest>(impl_->first).exp_stat_sn.value();
}

}  // namespace zvolt::iscsi
