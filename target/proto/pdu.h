// PDU layouts of RFC 7143 section 11, as 48-byte structs over the wire's bytes. Members are Boost.Endian buffers:
// big-endian, alignment 1, read with .value(), so a Basic Header Segment can be overlaid on received bytes and is
// converted once, at use. Every struct has its size and its offsets asserted. Used by connection, login and the tests'
// raw client.
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace zvolt::iscsi {

using boost::endian::big_uint16_buf_t;
using boost::endian::big_uint24_buf_t;
using boost::endian::big_uint32_buf_t;
using boost::endian::big_uint64_buf_t;

inline constexpr size_t kBhsLength = 48;
inline constexpr uint32_t kReservedTag = 0xffffffff;
inline constexpr uint8_t kImmediate = 0x40;  // opcode byte, requests
inline constexpr uint8_t kOpcodeMask = 0x3f;
inline constexpr uint8_t kFinal = 0x80;  // flags byte

enum class Opcode : uint8_t {
  nop_out = 0x00,
  scsi_command = 0x01,
  task_management_request = 0x02,
  login_request = 0x03,
  text_request = 0x04,
  data_out = 0x05,
  logout_request = 0x06,
  snack_request = 0x10,
  nop_in = 0x20,
  scsi_response = 0x21,
  task_management_response = 0x22,
  login_response = 0x23,
  text_response = 0x24,
  data_in = 0x25,
  logout_response = 0x26,
  r2t = 0x31,
  async_message = 0x32,
  reject = 0x3f,
};

// What every PDU shares (RFC 7143 11.2.1).
struct BasicHeaderSegment {
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t specific2[2];
  uint8_t total_ahs_length;              // 4-byte words
  big_uint24_buf_t data_segment_length;  // bytes, padding not counted
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  uint8_t specific20[28];

  Opcode opcode() const { return static_cast<Opcode>(opcode_byte & kOpcodeMask); }
  bool immediate() const { return (opcode_byte & kImmediate) != 0; }
  bool final() const { return (flags & kFinal) != 0; }
  uint32_t ahs_bytes() const { return total_ahs_length * 4u; }
  uint32_t data_bytes() const { return data_segment_length.value(); }
  uint32_t padded_data_bytes() const { return (data_bytes() + 3u) & ~3u; }
};
static_assert(sizeof(BasicHeaderSegment) == kBhsLength && alignof(BasicHeaderSegment) == 1);
static_assert(offsetof(BasicHeaderSegment, data_segment_length) == 5);
static_assert(offsetof(BasicHeaderSegment, initiator_task_tag) == 16);

struct ScsiCommand {  // 11.3
  static constexpr uint8_t kRead = 0x40, kWrite = 0x20, kAttributeMask = 0x07;
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t expected_data_transfer_length;
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  uint8_t cdb[16];
};
static_assert(sizeof(ScsiCommand) == kBhsLength && alignof(ScsiCommand) == 1);
static_assert(offsetof(ScsiCommand, expected_data_transfer_length) == 20 && offsetof(ScsiCommand, cdb) == 32);

struct ScsiResponse {  // 11.4
  static constexpr uint8_t kBidiOverflow = 0x10, kBidiUnderflow = 0x08, kOverflow = 0x04, kUnderflow = 0x02;
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t response;
  uint8_t status;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t reserved8[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t snack_tag;
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  big_uint32_buf_t exp_data_sn;
  big_uint32_buf_t bidi_residual_count;
  big_uint32_buf_t residual_count;
};
static_assert(sizeof(ScsiResponse) == kBhsLength && alignof(ScsiResponse) == 1);
static_assert(offsetof(ScsiResponse, stat_sn) == 24 && offsetof(ScsiResponse, exp_data_sn) == 36);
static_assert(offsetof(ScsiResponse, residual_count) == 44);

struct TaskManagementRequest {  // 11.5
  uint8_t opcode_byte;
  uint8_t function;  // 0x80 | function
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t referenced_task_tag;
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  big_uint32_buf_t ref_cmd_sn;
  big_uint32_buf_t exp_data_sn;
  uint8_t reserved40[8];
};
static_assert(sizeof(TaskManagementRequest) == kBhsLength && alignof(TaskManagementRequest) == 1);
static_assert(offsetof(TaskManagementRequest, ref_cmd_sn) == 32);

struct TaskManagementResponse {  // 11.6
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t response;
  uint8_t reserved3;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t reserved8[8];
  big_uint32_buf_t initiator_task_tag;
  uint8_t reserved20[4];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t reserved36[12];
};
static_assert(sizeof(TaskManagementResponse) == kBhsLength && alignof(TaskManagementResponse) == 1);
static_assert(offsetof(TaskManagementResponse, max_cmd_sn) == 32);

struct DataOut {  // 11.7
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  uint8_t reserved24[4];
  big_uint32_buf_t exp_stat_sn;
  uint8_t reserved32[4];
  big_uint32_buf_t data_sn;
  big_uint32_buf_t buffer_offset;
  uint8_t reserved44[4];
};
static_assert(sizeof(DataOut) == kBhsLength && alignof(DataOut) == 1);
static_assert(offsetof(DataOut, data_sn) == 36 && offsetof(DataOut, buffer_offset) == 40);

struct DataIn {  // 11.7
  static constexpr uint8_t kAcknowledge = 0x40, kOverflow = 0x04, kUnderflow = 0x02, kStatus = 0x01;
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2;
  uint8_t status;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  big_uint32_buf_t data_sn;
  big_uint32_buf_t buffer_offset;
  big_uint32_buf_t residual_count;
};
static_assert(sizeof(DataIn) == kBhsLength && alignof(DataIn) == 1);
static_assert(offsetof(DataIn, data_sn) == 36 && offsetof(DataIn, residual_count) == 44);

struct R2T {  // 11.8
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  big_uint32_buf_t r2t_sn;
  big_uint32_buf_t buffer_offset;
  big_uint32_buf_t desired_data_transfer_length;
};
static_assert(sizeof(R2T) == kBhsLength && alignof(R2T) == 1);
static_assert(offsetof(R2T, r2t_sn) == 36 && offsetof(R2T, desired_data_transfer_length) == 44);

struct AsyncMessage {  // 11.9
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t tag;  // 0xffffffff
  uint8_t reserved20[4];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t event;
  uint8_t vendor_code;
  big_uint16_buf_t parameter1;
  big_uint16_buf_t parameter2;
  big_uint16_buf_t parameter3;
  uint8_t reserved44[4];
};
static_assert(sizeof(AsyncMessage) == kBhsLength && alignof(AsyncMessage) == 1);
static_assert(offsetof(AsyncMessage, event) == 36 && offsetof(AsyncMessage, parameter3) == 42);

struct TextRequest {  // 11.10
  static constexpr uint8_t kContinue = 0x40;
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  uint8_t reserved32[16];
};
static_assert(sizeof(TextRequest) == kBhsLength && alignof(TextRequest) == 1);
static_assert(offsetof(TextRequest, exp_stat_sn) == 28);

struct TextResponse {  // 11.11
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t reserved36[12];
};
static_assert(sizeof(TextResponse) == kBhsLength && alignof(TextResponse) == 1);
static_assert(offsetof(TextResponse, max_cmd_sn) == 32);

struct LoginRequest {  // 11.12
  static constexpr uint8_t kTransit = 0x80, kContinue = 0x40;
  uint8_t opcode_byte;
  uint8_t flags;  // T C 0 0 CSG(2) NSG(2)
  uint8_t version_max;
  uint8_t version_min;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t isid[6];
  big_uint16_buf_t tsih;
  big_uint32_buf_t initiator_task_tag;
  big_uint16_buf_t cid;
  uint8_t reserved22[2];
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  uint8_t reserved32[16];
  uint8_t csg() const { return (flags >> 2) & 3; }
  uint8_t nsg() const { return flags & 3; }
  bool transit() const { return (flags & kTransit) != 0; }
  bool more() const { return (flags & kContinue) != 0; }
};
static_assert(sizeof(LoginRequest) == kBhsLength && alignof(LoginRequest) == 1);
static_assert(offsetof(LoginRequest, tsih) == 14 && offsetof(LoginRequest, cid) == 20);
static_assert(offsetof(LoginRequest, exp_stat_sn) == 28);

struct LoginResponse {  // 11.13
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t version_max;
  uint8_t version_active;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t isid[6];
  big_uint16_buf_t tsih;
  big_uint32_buf_t initiator_task_tag;
  uint8_t reserved20[4];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t status_class;
  uint8_t status_detail;
  uint8_t reserved38[10];
};
static_assert(sizeof(LoginResponse) == kBhsLength && alignof(LoginResponse) == 1);
static_assert(offsetof(LoginResponse, stat_sn) == 24 && offsetof(LoginResponse, status_class) == 36);

struct LogoutRequest {  // 11.14
  uint8_t opcode_byte;
  uint8_t reason;  // 0x80 | reason
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t reserved8[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint16_buf_t cid;
  uint8_t reserved22[2];
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  uint8_t reserved32[16];
};
static_assert(sizeof(LogoutRequest) == kBhsLength && alignof(LogoutRequest) == 1);
static_assert(offsetof(LogoutRequest, cid) == 20 && offsetof(LogoutRequest, cmd_sn) == 24);

struct LogoutResponse {  // 11.15
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t response;
  uint8_t reserved3;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t reserved8[8];
  big_uint32_buf_t initiator_task_tag;
  uint8_t reserved20[4];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t reserved36[4];
  big_uint16_buf_t time2wait;
  big_uint16_buf_t time2retain;
  uint8_t reserved44[4];
};
static_assert(sizeof(LogoutResponse) == kBhsLength && alignof(LogoutResponse) == 1);
static_assert(offsetof(LogoutResponse, time2wait) == 40);

struct Reject {  // 11.17
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reason;
  uint8_t reserved3;
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t reserved8[8];
  big_uint32_buf_t tag;  // 0xffffffff
  uint8_t reserved20[4];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  big_uint32_buf_t data_sn;
  uint8_t reserved40[8];
};
static_assert(sizeof(Reject) == kBhsLength && alignof(Reject) == 1);
static_assert(offsetof(Reject, data_sn) == 36);

enum class RejectReason : uint8_t {
  data_digest_error = 0x02,
  snack_reject = 0x03,
  protocol_error = 0x04,
  command_not_supported = 0x05,
  immediate_command_reject = 0x06,
  task_in_progress = 0x07,
  invalid_data_ack = 0x08,
  invalid_pdu_field = 0x09,
  long_operation_reject = 0x0a,
  negotiation_reset = 0x0b,
  waiting_for_logout = 0x0c,
};

struct NopOut {  // 11.18
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t cmd_sn;
  big_uint32_buf_t exp_stat_sn;
  uint8_t reserved32[16];
};
static_assert(sizeof(NopOut) == kBhsLength && alignof(NopOut) == 1);
static_assert(offsetof(NopOut, exp_stat_sn) == 28);

struct NopIn {  // 11.19
  uint8_t opcode_byte;
  uint8_t flags;
  uint8_t reserved2[2];
  uint8_t total_ahs_length;
  big_uint24_buf_t data_segment_length;
  uint8_t lun[8];
  big_uint32_buf_t initiator_task_tag;
  big_uint32_buf_t target_transfer_tag;
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t reserved36[12];
};
static_assert(sizeof(NopIn) == kBhsLength && alignof(NopIn) == 1);
static_assert(offsetof(NopIn, max_cmd_sn) == 32);

// A struct view of a received header, and a zeroed header to fill. All layouts are trivially copyable and 48 bytes.
template <typename Pdu>
const Pdu& as(const BasicHeaderSegment& bhs) {
  static_assert(sizeof(Pdu) == kBhsLength);
  static_assert(alignof(Pdu) == 1);
  return reinterpret_cast<const Pdu&>(bhs);
}
template <typename Pdu>
Pdu& as(BasicHeaderSegment& bhs) {
  static_assert(sizeof(Pdu) == kBhsLength);
  static_assert(alignof(Pdu) == 1);
  return reinterpret_cast<Pdu&>(bhs);
}

inline uint64_t load_lun(const uint8_t (&lun)[8]) {
  return boost::endian::endian_load<uint64_t, 8, boost::endian::order::big>(lun);
}

// Serial numbers, RFC 1982 with 32 bits: a < b, a <= b.
inline bool sn_less(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) < 0;
}
inline bool sn_less_equal(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) <= 0;
}

}  // namespace zvolt::iscsi
