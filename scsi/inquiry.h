// The standard INQUIRY data, shared by the command and by the answer for a LUN that nothing is mapped to. SPC-4 6.6.2.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zvolt::scsi {

inline constexpr size_t kInquirySize = 96;
inline constexpr uint8_t kDirectAccess = 0x00;  // peripheral qualifier 0, device type 0
inline constexpr uint8_t kNoDevice = 0x7f;  // peripheral qualifier 3, device type 1Fh: no unit here, and none possible

std::array<uint8_t, kInquirySize> standard_inquiry(uint8_t peripheral, std::string_view vendor,
                                                   std::string_view product, std::string_view revision);
// ASCII, left-aligned, padded with spaces or cut (SPC-4 4.4.1).
void put_ascii(uint8_t* to, size_t size, std::string_view text);

}  // namespace zvolt::scsi
