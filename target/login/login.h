// LoginNegotiator: the login phase of one connection as a pure state machine (RFC 7143 section 6): PDU header and text
// in, PDU header and text out, no I/O, no clock, no threads. The connection's login coroutine drives it; tests drive it
// directly.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/proto/pdu.h"

namespace zvolt::iscsi {

// Negotiated values, in RFC 7143 section 13's names. Lengths in bytes.
struct SessionParameters {
  bool discovery = false;
  std::string initiator_name;
  std::string initiator_alias;
  std::string target_name;  // empty in a discovery session
  std::array<uint8_t, 6> isid{};
  uint16_t cid = 0;
  uint32_t initiator_max_recv_data_segment_length = 8192;  // what we may send
  uint32_t target_max_recv_data_segment_length = 262144;   // what we declared: what we may get
  uint32_t max_burst_length = 262144;
  uint32_t first_burst_length = 65536;
  uint32_t max_outstanding_r2t = 1;
  bool initial_r2t = true;
  bool immediate_data = true;
  bool data_pdu_in_order = true;
  bool data_sequence_in_order = true;
  uint16_t max_connections = 1;
  uint16_t default_time2wait = 2;
  uint16_t default_time2retain = 0;
  uint8_t error_recovery_level = 0;
  bool header_digest = false;  // CRC32C
  bool data_digest = false;
};

// What the target side offers: our maxima.
struct LoginLimits {
  uint32_t max_recv_data_segment_length = 262144;
  uint32_t max_burst_length = 1048576;
  uint32_t first_burst_length = 65536;
  uint32_t max_outstanding_r2t = 4;
  uint16_t default_time2wait = 2;
  uint16_t default_time2retain = 0;
};

enum class LoginStatus : uint16_t {  // class << 8 | detail, RFC 7143 11.13.5
  success = 0x0000,
  moved_temporarily = 0x0101,
  moved_permanently = 0x0102,
  initiator_error = 0x0200,
  authentication_failure = 0x0201,
  authorization_failure = 0x0202,
  not_found = 0x0203,
  target_removed = 0x0204,
  unsupported_version = 0x0205,
  too_many_connections = 0x0206,
  missing_parameter = 0x0207,
  cannot_include = 0x0208,
  session_type_not_supported = 0x0209,
  session_does_not_exist = 0x020a,
  invalid_during_login = 0x020b,
  target_error = 0x0300,
  service_unavailable = 0x0301,
  out_of_resources = 0x0302,
};

// Looked up during login. Implemented by the server's target table; a stub in tests.
class LoginDirectory {
 public:
  virtual ~LoginDirectory() = default;
  // success, not_found (no such target on this portal group) or authorization_failure (this initiator may not).
  virtual LoginStatus check_target(std::string_view target, std::string_view initiator,
                                   uint16_t portal_group) const = 0;
  virtual std::string target_alias(std::string_view target) const = 0;  // empty: none
};

// One answer. `header` is complete but for StatSN, ExpCmdSN, MaxCmdSN (the connection fills them) and TSIH.
struct LoginStep {
  BasicHeaderSegment header{};
  std::vector<uint8_t> text;  // data segment, unpadded
  LoginStatus status = LoginStatus::success;
  bool close = false;  // send this, then close the connection
  bool drop = false;   // send nothing, close
  bool ready = false;  // this answer would transit to full feature phase: the connection looks up or creates the
                       // session, fills TSIH (or calls refuse()) and sends it
};

class LoginNegotiator {
 public:
  LoginNegotiator(const LoginDirectory& directory, LoginLimits limits, uint16_t portal_group);

  // One Login Request with its data segment. Also told of any other opcode: answers invalid_during_login (0x020b) once
  // a login has begun, else drop.
  LoginStep receive(const BasicHeaderSegment& header, std::span<const uint8_t> text);

  // The answer that refuses a login whose `ready` step the session layer can't grant (out of resources, no such
  // session).
  LoginStep refuse(LoginStatus status) const;

  const SessionParameters& parameters() const;
  uint16_t requested_tsih() const;
  uint32_t initial_cmd_sn() const;  // of the first Login Request
  uint32_t initial_exp_stat_sn() const;

  static constexpr uint32_t kMaxLoginSegment = 8192;  // before and during login; more is refused by the connection
  static constexpr uint32_t kMaxLoginText = 65536;    // of all C=1 parts together
  ~LoginNegotiator();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zvolt::iscsi
