// Text negotiation in full feature phase: SendTargets and keys of RFC 7143 that may be (re)negotiated there, with C-bit
// continuation of long answers over Target Transfer Tags. Pure: no I/O. One per session, used by its connection.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/login/login.h"

namespace zvolt::iscsi {

struct DiscoveredTarget {
  std::string name;
  std::vector<std::string> addresses;  // "192.0.2.1:3260,1" with portal group tag; IPv6 in brackets
};

class TextSession {
 public:
  // `discover` lists what this initiator may see through the address it connected to; called per SendTargets.
  TextSession(SessionParameters& parameters, std::function<std::vector<DiscoveredTarget>()> discover);

  struct Answer {
    enum class Kind : uint8_t { response, reject } kind = Kind::response;
    RejectReason reason = RejectReason::protocol_error;
    bool final = true;
    bool more = false;  // C bit
    uint32_t target_transfer_tag = kReservedTag;
    std::vector<uint8_t> text;  // <= initiator_max_recv_data_segment_length
  };
  Answer receive(const TextRequest& header, std::span<const uint8_t> text);

  static constexpr size_t kMaxRequestText = 65536;  // bytes of all C=1 parts together (RFC 7143 6.1 asks for 8192)

 private:
  void reset();
  Answer reject(RejectReason reason);
  std::optional<RejectReason> admit(const TextRequest& header, std::span<const uint8_t> text);
  std::optional<RejectReason> negotiate();
  std::optional<RejectReason> answer_key(const std::string& key, const std::string& value);
  void send_targets(std::string_view which);
  Answer next_part(bool finish);

  SessionParameters& parameters_;
  std::function<std::vector<DiscoveredTarget>()> discover_;
  std::vector<uint8_t> incoming_;  // C=1 parts so far, bounded
  std::vector<uint8_t> outgoing_;  // rest of a long answer
  size_t sent_ = 0;
  uint32_t tag_ = kReservedTag;       // TTT of the exchange under way
  uint32_t task_tag_ = kReservedTag;  // its Initiator Task Tag
  uint32_t next_tag_ = 1;
  std::bitset<64> seen_;       // keys exchanged in it, by index into the key table
  SessionParameters pending_;  // its results; in force when it ends (RFC 7143 6.4)
};

}  // namespace zvolt::iscsi
