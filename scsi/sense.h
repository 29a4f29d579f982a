// Sense data: which key and code a refusal carries, and its bytes in fixed or descriptor format (SPC-4 4.5).
// Called by command handlers, always as their last act on a task: fail(...) also settles it (scsi/unit_call.h).
#pragma once

#include <cstdint>
#include <optional>

#include "scsi/task.h"

namespace zvolt::scsi {

enum class SenseKey : uint8_t {
  no_sense = 0x0,
  not_ready = 0x2,
  medium_error = 0x3,
  hardware_error = 0x4,
  illegal_request = 0x5,
  unit_attention = 0x6,
  data_protect = 0x7,
  aborted_command = 0xb,
  miscompare = 0xe,
};

struct SenseCode {
  SenseKey key = SenseKey::no_sense;
  uint8_t asc = 0;
  uint8_t ascq = 0;
  constexpr bool operator==(const SenseCode&) const = default;
};

namespace sense {
inline constexpr SenseCode kNone{};
inline constexpr SenseCode kBecomingReady{SenseKey::not_ready, 0x04, 0x01};
inline constexpr SenseCode kUnrecoveredRead{SenseKey::medium_error, 0x11, 0x00};
inline constexpr SenseCode kWriteError{SenseKey::medium_error, 0x0c, 0x00};
inline constexpr SenseCode kUnitFailure{SenseKey::hardware_error, 0x3e, 0x01};
inline constexpr SenseCode kInternalFailure{SenseKey::hardware_error, 0x44, 0x00};
inline constexpr SenseCode kInvalidInformationUnit{SenseKey::illegal_request, 0x0e, 0x03};
inline constexpr SenseCode kParameterListLength{SenseKey::illegal_request, 0x1a, 0x00};
inline constexpr SenseCode kInvalidOpcode{SenseKey::illegal_request, 0x20, 0x00};
inline constexpr SenseCode kLbaOutOfRange{SenseKey::illegal_request, 0x21, 0x00};
inline constexpr SenseCode kInvalidFieldInCdb{SenseKey::illegal_request, 0x24, 0x00};
inline constexpr SenseCode kUnitNotSupported{SenseKey::illegal_request, 0x25, 0x00};
inline constexpr SenseCode kInvalidFieldInParameters{SenseKey::illegal_request, 0x26, 0x00};
inline constexpr SenseCode kSavingNotSupported{SenseKey::illegal_request, 0x39, 0x00};
inline constexpr SenseCode kWriteProtected{SenseKey::data_protect, 0x27, 0x00};
inline constexpr SenseCode kSpaceAllocationFailed{SenseKey::data_protect, 0x27, 0x07};
inline constexpr SenseCode kUnexpectedUnsolicitedData{SenseKey::aborted_command, 0x0c, 0x0c};
inline constexpr SenseCode kIncorrectAmountOfData{SenseKey::aborted_command, 0x0c, 0x0d};
inline constexpr SenseCode kMiscompare{SenseKey::miscompare, 0x1d, 0x00};
}  // namespace sense

// Where in the CDB or the parameter list the refused field stands (SPC-4 4.5.2.4.2).
struct FieldPointer {
  static constexpr int8_t kNoBit = -1;
  uint16_t byte = 0;
  int8_t bit = kNoBit;  // most significant bit of the field, or kNoBit
  bool in_cdb = true;   // false: in the parameter list
};

struct SenseDetail {
  std::optional<uint64_t> information;  // an LBA, or for a miscompare a byte offset
  std::optional<FieldPointer> field;
};

// Current (not deferred) sense data. In fixed format an information of more than 32 bits is left out (VALID=0).
Sense make_sense(SenseCode code, const SenseDetail& detail, bool descriptor_format);

}  // namespace zvolt::scsi
