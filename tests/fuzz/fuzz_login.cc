// libFuzzer: a connection's life as far as text goes. The input is a sequence of PDUs (two length bytes, 48 header
// bytes, text): Login Requests to a LoginNegotiator, after its login Text Requests to a TextSession. Checks what holds
// for every answer.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "target/login/login.h"
#include "target/login/text_session.h"

namespace zvolt::iscsi {
namespace {

class AnyTarget : public LoginDirectory {
 public:
  LoginStatus check_target(std::string_view, std::string_view, uint16_t) const override { return LoginStatus::success; }
  std::string target_alias(std::string_view) const override { return "alias"; }
};

void require(bool fact) {
  if (!fact) std::abort();
}

struct Pdu {
  BasicHeaderSegment header{};
  std::span<const uint8_t> text;
};

std::optional<Pdu> next_pdu(std::span<const uint8_t>& input) {
  constexpr size_t kPrefix = 2 + kBhsLength;
  if (input.size() < kPrefix) return std::nullopt;
  Pdu pdu;
  const size_t length = std::min<size_t>(size_t{input[0]} << 8 | input[1], input.size() - kPrefix);
  std::memcpy(&pdu.header, input.data() + 2, kBhsLength);
  pdu.text = input.subspan(kPrefix, length);
  input = input.subspan(kPrefix + length);
  return pdu;
}

bool login(LoginNegotiator& negotiator, std::span<const uint8_t>& input) {
  while (const auto pdu = next_pdu(input)) {
    const LoginStep step = negotiator.receive(pdu->header, pdu->text);
    require(step.text.size() <= LoginNegotiator::kMaxLoginSegment);
    require(step.drop || step.header.data_bytes() == step.text.size());
    require(!step.ready || ((step.header.flags & LoginRequest::kTransit) != 0 && step.status == LoginStatus::success));
    if (step.close || step.ready) return step.ready;
  }
  return false;
}

void text_requests(SessionParameters parameters, std::span<const uint8_t>& input) {
  TextSession session(parameters, [] {
    return std::vector<DiscoveredTarget>(20, {"iqn.2026-11.org.example:disk", {"192.0.2.1:3260,1"}});
  });
  while (const auto pdu = next_pdu(input)) {
    const uint32_t limit = parameters.initiator_max_recv_data_segment_length;
    const TextSession::Answer answer = session.receive(as<TextRequest>(pdu->header), pdu->text);
    if (answer.kind == TextSession::Answer::Kind::reject) continue;
    require(answer.text.size() <= limit);
    require(answer.final == (answer.target_transfer_tag == kReservedTag));
    require(!(answer.final && answer.more));
  }
}

}  // namespace
}  // namespace zvolt::iscsi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zvolt::iscsi;
  std::span<const uint8_t> input(data, size);
  const AnyTarget directory;
  LoginNegotiator negotiator(directory, {}, 1);
  if (login(negotiator, input)) text_requests(negotiator.parameters(), input);
  return 0;
}
