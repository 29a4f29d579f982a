// CDB decoding, sense data in both formats, the errno table, LUN fields: the pure functions.
#include <cerrno>

#include "scsi/bytes.h"
#include "scsi/cdb.h"
#include "scsi/errno_sense.h"
#include "scsi/lun_address.h"
#include "scsi/sense.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

std::array<uint8_t, 16> Raw(const Bytes& bytes) {
  std::array<uint8_t, 16> raw{};
  std::copy(bytes.begin(), bytes.end(), raw.begin());
  return raw;
}

TEST(Cdb, EveryFormatFindsLbaLengthAndControl) {
  std::array<uint8_t, 16> raw;
  for (uint8_t i = 0; i < 16; ++i) raw[i] = static_cast<uint8_t>(0x80 + i);
  struct Row {
    CdbFormat format;
    uint64_t lba, length;
    uint8_t control;
  };
  const Row rows[] = {
      {CdbFormat::plain6, 0, 0, 0x85},
      {CdbFormat::plain10, 0, 0, 0x89},
      {CdbFormat::length6, 0, 0x84, 0x85},
      {CdbFormat::length6_wide, 0, 0x8384, 0x85},
      {CdbFormat::length10, 0, 0x8788, 0x89},
      {CdbFormat::length12, 0, 0x86878889, 0x8b},
      {CdbFormat::lba6, 0x018283, 0x84, 0x85},
      {CdbFormat::lba10, 0x82838485, 0x8788, 0x89},
      {CdbFormat::lba12, 0x82838485, 0x86878889, 0x8b},
      {CdbFormat::lba16, 0x8283848586878889, 0x8a8b8c8d, 0x8f},
  };
  for (const Row& row : rows) {
    const Cdb cdb = decode_cdb(raw, row.format);
    EXPECT_EQ(cdb.lba, row.lba);
    EXPECT_EQ(cdb.length, row.length);
    EXPECT_EQ(cdb.control, row.control);
    EXPECT_EQ(cdb.control_at, cdb_length(row.format) - 1);
  }
}

TEST(Cdb, LengthZeroOfTheSixByteFormIs256) {
  EXPECT_EQ(decode_cdb(Raw({0x08, 0, 0, 0, 0, 0}), CdbFormat::lba6).length, 256u);
}

TEST(SenseData, FixedFormat) {
  const Sense sense = make_sense(sense::kUnrecoveredRead, {.information = 0x12345678, .field = {}}, false);
  EXPECT_EQ(Bytes(sense.view().begin(), sense.view().end()),
            (Bytes{0xf0, 0, 0x03, 0x12, 0x34, 0x56, 0x78, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0}));
}

TEST(SenseData, FixedFormatLeavesOutAnInformationThatDoesNotFit) {
  const Sense sense = make_sense(sense::kUnrecoveredRead, {.information = uint64_t{1} << 32, .field = {}}, false);
  EXPECT_EQ(sense.bytes[0], 0x70);
  EXPECT_EQ(get32(sense.bytes.data() + 3), 0u);
}

TEST(SenseData, FixedFormatPointsAtTheField) {
  const Sense sense =
      make_sense(sense::kInvalidFieldInCdb, {.information = {}, .field = FieldPointer{2, 5, true}}, false);
  EXPECT_EQ(Bytes(sense.bytes.begin() + 15, sense.bytes.begin() + 18), (Bytes{0xcd, 0, 2}));
  const Sense list =
      make_sense(sense::kInvalidFieldInParameters, {.information = {}, .field = FieldPointer{300, -1, false}}, false);
  EXPECT_EQ(Bytes(list.bytes.begin() + 15, list.bytes.begin() + 18), (Bytes{0x80, 1, 44}));
}

TEST(SenseData, DescriptorFormat) {
  const Sense sense =
      make_sense(sense::kMiscompare, {.information = 0x1122334455667788, .field = FieldPointer{1, -1, true}}, true);
  EXPECT_EQ(Bytes(sense.view().begin(), sense.view().end()),
            (Bytes{0x72, 0x0e, 0x1d, 0, 0,    0,    0,    20,                            //
                   0x00, 0x0a, 0x80, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  //
                   0x02, 0x06, 0,    0, 0xc0, 0,    1,    0}));
}

TEST(ErrnoTable, EveryErrnoHasItsAnswer) {
  using enum StoreOperation;
  struct Row {
    int error;
    StoreOperation operation;
    SenseCode code;
  };
  const Row rows[] = {
      {ENOSPC, write, {SenseKey::data_protect, 0x27, 7}},   {EDQUOT, write, {SenseKey::data_protect, 0x27, 7}},
      {ENOSPC, flush, {SenseKey::data_protect, 0x27, 7}},   {EROFS, write, {SenseKey::data_protect, 0x27, 0}},
      {EPERM, write, {SenseKey::data_protect, 0x27, 0}},    {EIO, read, {SenseKey::medium_error, 0x11, 0}},
      {EIO, write, {SenseKey::medium_error, 0x0c, 0}},      {EIO, flush, {SenseKey::medium_error, 0x0c, 0}},
      {EINVAL, flush, {SenseKey::medium_error, 0x0c, 0}},   {ENODEV, read, {SenseKey::not_ready, 0x04, 1}},
      {ENXIO, flush, {SenseKey::not_ready, 0x04, 1}},       {EINVAL, read, {SenseKey::hardware_error, 0x44, 0}},
      {EINVAL, write, {SenseKey::hardware_error, 0x44, 0}},
  };
  for (const Row& row : rows) {
    const ErrnoAnswer answer = errno_answer(row.error, row.operation);
    EXPECT_EQ(answer.status, Status::check_condition);
    EXPECT_EQ(answer.code, row.code) << row.error;
    EXPECT_EQ(answer.information, row.error == EIO && row.operation == read);
  }
  for (const int error : {EAGAIN, ENOMEM}) {
    for (const StoreOperation operation : {read, write, flush}) {
      EXPECT_EQ(errno_answer(error, operation).status, Status::busy);
    }
  }
}

TEST(LunField, BothAddressingMethodsAreDecoded) {
  EXPECT_EQ(decode_lun(0), 0);
  EXPECT_EQ(decode_lun(uint64_t{0x00ff} << 48), 255);
  EXPECT_EQ(decode_lun(uint64_t{0x4007} << 48), 7);
  EXPECT_EQ(decode_lun(uint64_t{0x7fff} << 48), 16383);
}

TEST(LunField, EverythingElseIsNoUnit) {
  EXPECT_EQ(decode_lun(uint64_t{0x0103} << 48), 259);           // as Linux and libiscsi write it
  EXPECT_EQ(decode_lun(uint64_t{0x8001} << 48), std::nullopt);  // logical unit addressing
  EXPECT_EQ(decode_lun(uint64_t{0xc101} << 48), std::nullopt);  // extended: well known
  EXPECT_EQ(decode_lun(uint64_t{0x0001000100000000}), std::nullopt);
  EXPECT_EQ(decode_lun(1), std::nullopt);
}

TEST(LunField, EncodingIsUndoneByDecoding) {
  for (uint16_t number = 0; number <= kMaxLunNumber; ++number) EXPECT_EQ(decode_lun(encode_lun(number)), number);
}

}  // namespace
}  // namespace zvolt::scsi::test
