// TextSession: see text_session.h. RFC 7143 6.4 (negotiation in full feature phase), 11.10 and 11.11, appendix C
// (SendTargets).
#include "target/login/text_session.h"

#include <algorithm>

#include "target/login/keys.h"
#include "target/login/names.h"
#include "target/login/text.h"

namespace zvolt::iscsi {

static_assert(std::bitset<64>().size() >= kMaxKeyRules);

TextSession::TextSession(SessionParameters& parameters, std::function<std::vector<DiscoveredTarget>()> discover)
    : parameters_(parameters), discover_(std::move(discover)) {}

TextSession::Answer TextSession::receive(const TextRequest& header, std::span<const uint8_t> text) {
  if (const auto refused = admit(header, text)) return reject(*refused);
  const bool more = (header.flags & TextRequest::kContinue) != 0;
  const bool answering = sent_ < outgoing_.size();
  if (!answering) incoming_.insert(incoming_.end(), text.begin(), text.end());
  if (!answering && !more) {
    if (const auto refused = negotiate()) return reject(*refused);
  }
  return next_part((header.flags & kFinal) != 0);
}

void TextSession::reset() {
  incoming_.clear();
  outgoing_.clear();
  outgoing_.shrink_to_fit();  // an answer of thousands of targets is not kept for the session's life
  sent_ = 0;
  tag_ = kReservedTag;
  seen_.reset();
  pending_ = parameters_;
}

TextSession::Answer TextSession::reject(RejectReason reason) {
  reset();
  Answer answer;
  answer.kind = Answer::Kind::reject;
  answer.reason = reason;
  return answer;
}

// The header's rules. A reserved Target Transfer Tag starts anew whatever was under way (11.10.4).
std::optional<RejectReason> TextSession::admit(const TextRequest& header, std::span<const uint8_t> text) {
  const bool more = (header.flags & TextRequest::kContinue) != 0;
  if (more && (header.flags & kFinal) != 0) return RejectReason::protocol_error;  // 11.10.2
  if (header.target_transfer_tag.value() == kReservedTag) {
    reset();
    task_tag_ = header.initiator_task_tag.value();
  } else if (header.target_transfer_tag.value() != tag_ || header.initiator_task_tag.value() != task_tag_) {
    return RejectReason::invalid_pdu_field;
  }
  if (sent_ < outgoing_.size() && (more || !text.empty())) return RejectReason::protocol_error;  // 6.2
  if (incoming_.size() + text.size() > kMaxRequestText) return RejectReason::long_operation_reject;
  return std::nullopt;
}

// A whole logical text data segment.
std::optional<RejectReason> TextSession::negotiate() {
  const auto pairs = parse_text(incoming_);
  incoming_.clear();
  outgoing_.clear();
  sent_ = 0;
  if (!pairs) return RejectReason::protocol_error;
  const bool targets = std::ranges::find(*pairs, "SendTargets", &KeyValue::key) != pairs->end();
  if (targets && pairs->size() != 1) return RejectReason::protocol_error;  // appendix C: exactly one key
  for (const KeyValue& pair : *pairs) {
    if (const auto refused = answer_key(pair.key, pair.value)) return refused;
  }
  return std::nullopt;
}

std::optional<RejectReason> TextSession::answer_key(const std::string& key, const std::string& value) {
  const auto index = find_key(key);
  const KeyRule* rule = index ? &key_table()[*index] : nullptr;
  if (is_reserved_answer(value)) {  // an answer to something that we declared, or nonsense
    if (rule != nullptr && rule->type == KeyType::number_declared) return std::nullopt;
    return RejectReason::protocol_error;
  }
  if (rule == nullptr) {
    append_text(outgoing_, key, "NotUnderstood");
    return std::nullopt;
  }
  if (seen_.test(*index)) return RejectReason::protocol_error;  // 6.4: not twice in one sequence
  seen_.set(*index);
  if ((rule->use & kFullFeature) == 0) {
    append_text(outgoing_, key, "Reject");
    return std::nullopt;
  }
  if (key == "SendTargets") {
    send_targets(value);
    return std::nullopt;
  }
  const KeyOutcome outcome = negotiate_key(*rule, value, {}, pending_);
  if (outcome.answer) {
    append_text(outgoing_, key, *outcome.answer);
  } else if (rule->type == KeyType::number_declared) {
    // Ours again, unchanged: an answer without text is discouraged (6.2).
    append_text(outgoing_, key, std::to_string(parameters_.target_max_recv_data_segment_length));
  }
  return std::nullopt;
}

// Appendix C. On a Normal session only its own target, and "All" is refused; an unknown name gets an empty list.
void TextSession::send_targets(std::string_view which) {
  const bool all = which == "All";
  if (all && !parameters_.discovery) {
    append_text(outgoing_, "SendTargets", "Reject");
    return;
  }
  const std::string name = which.empty() ? parameters_.target_name : normalize_name(which).value_or(std::string());
  if (!all && (name.empty() || (!parameters_.discovery && name != parameters_.target_name))) return;
  for (const DiscoveredTarget& target : discover_()) {
    if (!all && target.name != name) continue;
    append_text(outgoing_, "TargetName", target.name);
    for (const std::string& address : target.addresses) append_text(outgoing_, "TargetAddress", address);
  }
}

// The next PDU's worth of the answer. `finish`: the initiator set F; only then may the last part set it (11.11.1).
TextSession::Answer TextSession::next_part(bool finish) {
  Answer answer;
  const size_t length = std::min<size_t>(outgoing_.size() - sent_, parameters_.initiator_max_recv_data_segment_length);
  const auto part = outgoing_.begin() + static_cast<std::ptrdiff_t>(sent_);
  answer.text.assign(part, part + static_cast<std::ptrdiff_t>(length));
  sent_ += length;
  answer.more = sent_ < outgoing_.size();
  answer.final = finish && !answer.more;
  if (answer.final) {
    parameters_ = pending_;
    reset();
    return answer;
  }
  if (tag_ == kReservedTag) {
    tag_ = next_tag_++;
    if (next_tag_ == kReservedTag) next_tag_ = 1;
  }
  answer.target_transfer_tag = tag_;
  return answer;
}

}  // namespace zvolt::iscsi
