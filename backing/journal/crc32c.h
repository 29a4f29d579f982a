// CRC32C (Castagnoli), as the journal's format uses it: initial value and final inversion as in RFC 3720 B.4, so that
// crc32c("123456789") is 0xe3069283. By ISA-L. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zvolt::backing::journal {

// `before` is the CRC of the bytes in front of these: crc32c(b, crc32c(a)) == crc32c(a + b).
uint32_t crc32c(const uint8_t* data, size_t length, uint32_t before = 0);

}  // namespace zvolt::backing::journal
