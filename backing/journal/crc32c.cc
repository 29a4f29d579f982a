// See crc32c.h.
#include "backing/journal/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace zvolt::backing::journal {

uint32_t crc32c(const uint8_t* data, size_t length, uint32_t before) {
  constexpr size_t kPiece = size_t{1} << 30;  // ISA-L takes the length as an int
  uint32_t crc = ~before;
  while (length > 0) {
    const size_t piece = std::min(length, kPiece);
    crc = crc32_iscsi(const_cast<uint8_t*>(data), static_cast<int>(piece), crc);
    data += piece;
    length -= piece;
  }
  return ~crc;
}

}  // namespace zvolt::backing::journal
