// See sense.h. Byte positions: SPC-4 4.5.2 (descriptor format, response code 72h) and 4.5.3 (fixed format, 70h).
#include "scsi/sense.h"

#include "scsi/bytes.h"

namespace zvolt::scsi {

namespace {

constexpr uint8_t kFixedCurrent = 0x70;
constexpr uint8_t kDescriptorCurrent = 0x72;
constexpr uint8_t kFixedLength = 18;

// The three sense-key specific bytes of an ILLEGAL REQUEST, the same in both formats.
void put_field_pointer(uint8_t* to, const FieldPointer& field) {
  to[0] = static_cast<uint8_t>(0x80 | (field.in_cdb ? 0x40 : 0));
  if (field.bit != FieldPointer::kNoBit) to[0] = static_cast<uint8_t>(to[0] | 0x08 | (field.bit & 7));
  put16(to + 1, field.byte);
}

void make_fixed(Sense& out, SenseCode code, const SenseDetail& detail) {
  uint8_t* bytes = out.bytes.data();
  bytes[0] = kFixedCurrent;
  bytes[2] = static_cast<uint8_t>(code.key);
  if (detail.information && *detail.information <= UINT32_MAX) {
    bytes[0] |= 0x80;  // VALID
    put32(bytes + 3, *detail.information);
  }
  bytes[7] = kFixedLength - 8;
  bytes[12] = code.asc;
  bytes[13] = code.ascq;
  if (detail.field) put_field_pointer(bytes + 15, *detail.field);
  out.length = kFixedLength;
}

void make_descriptor(Sense& out, SenseCode code, const SenseDetail& detail) {
  uint8_t* bytes = out.bytes.data();
  bytes[0] = kDescriptorCurrent;
  bytes[1] = static_cast<uint8_t>(code.key);
  bytes[2] = code.asc;
  bytes[3] = code.ascq;
  uint8_t length = 8;
  if (detail.information) {
    uint8_t* descriptor = bytes + length;  // type 00h: information
    descriptor[1] = 0x0a;
    descriptor[2] = 0x80;  // VALID
    put64(descriptor + 4, *detail.information);
    length = static_cast<uint8_t>(length + 12);
  }
  if (detail.field) {
    uint8_t* descriptor = bytes + length;  // type 02h: sense key specific
    descriptor[0] = 0x02;
    descriptor[1] = 0x06;
    put_field_pointer(descriptor + 4, *detail.field);
    length = static_cast<uint8_t>(length + 8);
  }
  bytes[7] = static_cast<uint8_t>(length - 8);
  out.length = length;
}

}  // namespace

Sense make_sense(SenseCode code, const SenseDetail& detail, bool descriptor_format) {
  Sense out;
  if (descriptor_format) {
    make_descriptor(out, code, detail);
  } else {
    make_fixed(out, code, detail);
  }
  return out;
}

}  // namespace zvolt::scsi
