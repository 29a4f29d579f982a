// See cdb.h.
#include "scsi/cdb.h"

#include "scsi/bytes.h"

namespace zvolt::scsi {

Cdb decode_cdb(const std::array<uint8_t, 16>& raw, CdbFormat format) {
  const uint8_t* bytes = raw.data();
  Cdb out;
  out.bytes = bytes;
  out.flags = bytes[1];
  out.control_at = static_cast<uint8_t>(cdb_length(format) - 1);
  out.control = bytes[out.control_at];
  switch (format) {
    case CdbFormat::plain6:
    case CdbFormat::plain10:
      break;
    case CdbFormat::length6:
      out.length = bytes[4];
      break;
    case CdbFormat::length6_wide:
      out.length = get16(bytes + 3);
      break;
    case CdbFormat::length10:
      out.length = get16(bytes + 7);
      break;
    case CdbFormat::length12:
      out.length = get32(bytes + 6);
      break;
    case CdbFormat::lba6:
      out.lba = get24(bytes + 1) & 0x1fffff;
      out.length = bytes[4] == 0 ? 256 : bytes[4];
      out.flags = 0;
      break;
    case CdbFormat::lba10:
      out.lba = get32(bytes + 2);
      out.length = get16(bytes + 7);
      break;
    case CdbFormat::lba12:
      out.lba = get32(bytes + 2);
      out.length = get32(bytes + 6);
      break;
    case CdbFormat::lba16:
      out.lba = get64(bytes + 2);
      out.length = get32(bytes + 10);
      break;
  }
  return out;
}

}  // namespace zvolt::scsi
