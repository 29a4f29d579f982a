// READ, WRITE and SYNCHRONIZE CACHE: data, limits, LBA arithmetic, errors of the store.
#include <cerrno>

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using Media = ScsiTest;

struct Form {
  const char* name;
  uint8_t read, write;
  Bytes (*cdb)(uint8_t opcode, CdbFields fields);
};
const Form kForms[] = {
    {"6", 0x08, 0x0a, CdbLba6},
    {"10", 0x28, 0x2a, CdbLba10},
    {"12", 0xa8, 0xaa, CdbLba12},
    {"16", 0x88, 0x8a, CdbLba16},
};

TEST_F(Media, WhatEveryFormWritesEveryFormReads) {
  uint8_t seed = 0;
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    const Bytes data = Pattern(9, ++seed);
    ExpectGood(Send(form.cdb(form.write, {5, 9}), data));
    for (const Form& reader : kForms) EXPECT_EQ(Send(reader.cdb(reader.read, {5, 9})).data, data);
    EXPECT_EQ(Stored(4, 1), Repeated(0, 1));
    EXPECT_EQ(Stored(14, 1), Repeated(0, 1));
  }
}

TEST_F(Media, EveryPieceSizeGivesTheSameData) {
  const Bytes data = Pattern(18);
  for (const uint32_t piece : {512u, 1024u, 2848u, 8192u}) {
    host->piece_size = piece;
    ExpectGood(Write10(40, data));
    EXPECT_EQ(Stored(40, 18), data);
    store->fill(0);
  }
}

TEST_F(Media, AStoreThatAnswersLaterGivesTheSameResult) {
  store->timing = Timing::later;
  const Bytes data = Pattern(33);
  host->piece_size = 4096;
  ExpectGood(Write10(1, data));
  EXPECT_EQ(Read10(1, 33).data, data);
}

TEST_F(Media, AShortWriteChangesOnlyTheBytesThatWereSent) {
  store->fill(0x5a);
  ExpectGood(Send(CdbLba10(0x2a, {2, 1}), Bytes(200, 0x11)));
  Bytes expected(512, 0x5a);
  std::fill_n(expected.begin(), 200, uint8_t{0x11});
  EXPECT_EQ(Stored(2, 1), expected);
}

TEST_F(Media, LengthByteZeroOfReadSixIs256Blocks) {
  const Reply reply = Send(CdbLba6(0x08, {0, 0}));
  ExpectGood(reply);
  EXPECT_EQ(reply.data.size(), 256u * 512);
  ExpectSense(Send(CdbLba6(0x08, {unit->blocks() - 255, 0})), 5, 0x21, 0);
  ExpectGood(Send(CdbLba6(0x08, {unit->blocks() - 256, 0})));
}

TEST_F(Media, OneBlockBeyondEndIsLbaOutOfRange) {
  const uint64_t end = unit->blocks();
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    ExpectGood(Send(form.cdb(form.read, {end - 1, 1})));
    ExpectSense(Send(form.cdb(form.read, {end - 1, 2})), 5, 0x21, 0);
    ExpectSense(Send(form.cdb(form.read, {end, 1})), 5, 0x21, 0);
    ExpectSense(Send(form.cdb(form.write, {end - 1, 2}), Repeated(1, 2)), 5, 0x21, 0);
    ExpectSense(Send(form.cdb(form.write, {end, 1}), Repeated(1, 1)), 5, 0x21, 0);
  }
  EXPECT_EQ(Stored(end - 1, 1), Repeated(0, 1));
}

TEST_F(Media, ZeroBlocksAreGoodOnTheUnitAndOutOfRangeAtItsEnd) {
  for (const Form& form : kForms) {
    if (form.cdb == CdbLba6) continue;  // 0 means 256 there
    SCOPED_TRACE(form.name);
    ExpectGood(Send(form.cdb(form.read, {unit->blocks() - 1, 0})));
    ExpectGood(Send(form.cdb(form.write, {0, 0})));
    ExpectSense(Send(form.cdb(form.read, {unit->blocks(), 0})), 5, 0x21, 0);
    ExpectSense(Send(form.cdb(form.write, {unit->blocks() + 1, 0})), 5, 0x21, 0);
  }
  EXPECT_TRUE(store->events.empty());
}

// Once: LBA << 9 wrapped to a small number and passed the check against the size in bytes.
TEST_F(Media, HugeLbasDoNotWrap) {
  const uint64_t lbas[] = {uint64_t{1} << 55, uint64_t{1} << 63, (uint64_t{1} << 63) + 1, UINT64_MAX};
  for (const uint64_t lba : lbas) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{0xffffffff}}) {
      for (const uint8_t opcode : Bytes{0x88, 0x8a, 0x8f, 0x91, 0x93}) {
        SCOPED_TRACE(std::to_string(opcode) + " at " + std::to_string(lba));
        ExpectSense(Send(CdbLba16(opcode, {lba, length}), Repeated(1, 1)), 5, 0x21, 0);
      }
    }
  }
  for (const uint8_t opcode : Bytes{0x28, 0x2a, 0x2f, 0x35, 0x41}) {
    ExpectSense(Send(CdbLba10(opcode, {0xffffffff, 1}), Repeated(1, 1)), 5, 0x21, 0);
  }
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Media, ProtectionInformationIsRefused) {
  for (const uint8_t bits : Bytes{0x20, 0x40, 0x80, 0xe0}) {
    ExpectInvalidField(Read10(0, 1, bits), 1);
    ExpectInvalidField(Read16(0, 1, bits), 1);
    ExpectInvalidField(Write10(0, Repeated(0, 1), bits), 1);
    ExpectInvalidField(Verify10(0, 1, bits), 1);
    ExpectInvalidField(WriteSame10(0, 1, bits, Repeated(0, 1)), 1);
  }
}

TEST_F(Media, DpoAndFuaAreAccepted) {
  for (const uint8_t flags : Bytes{0x08, 0x10, 0x18}) {
    ExpectGood(Read10(0, 1, flags));
    ExpectGood(Write16(0, Repeated(3, 1), flags));
  }
}

TEST_F(Media, MoreThanTheMaximumTransferLengthIsRefused) {
  Build({}, {}, uint64_t{64} << 20);
  const uint64_t most = unit->limits().max_transfer;
  EXPECT_EQ(most, 65536u);
  ExpectGood(Read16(0, most));
  ExpectInvalidField(Read16(0, most + 1), 10);
  ExpectInvalidField(Send(CdbLba12(0xaa, {0, most + 1}), Bytes(512)), 6);
  EXPECT_EQ(store->count(backing::IoKind::write), 0u);
}

TEST_F(Media, AReadErrorCarriesTheLbaThatFailed) {
  store->bad_offset = 13 * 512 + 100;
  host->piece_size = 4096;
  const Reply reply = Read10(0, 32);
  ExpectSense(reply, 3, 0x11, 0);
  ASSERT_TRUE(reply.has_information());
  EXPECT_EQ(reply.information(), 13u);
}

TEST_F(Media, OfSeveralFailedPiecesTheFirstOnTheMediumIsReported) {
  store->errors[backing::IoKind::read] = EIO;
  host->piece_size = 1024;
  EXPECT_EQ(Read10(6, 8).information(), 6u);
}

TEST_F(Media, StoreErrorsOfWritesBecomeTheirSense) {
  store->errors[backing::IoKind::write] = ENOSPC;
  ExpectSense(Write10(0, Repeated(1, 1)), 7, 0x27, 7);
  store->errors[backing::IoKind::write] = EIO;
  ExpectSense(Write10(0, Repeated(1, 1)), 3, 0x0c, 0);
  store->errors[backing::IoKind::write] = ENXIO;
  ExpectSense(Write10(0, Repeated(1, 1)), 2, 0x04, 1);
  store->errors[backing::IoKind::write] = ENOMEM;
  const Reply busy = Write10(0, Repeated(1, 1));
  EXPECT_EQ(busy.status, Status::busy);
  EXPECT_EQ(busy.sense.length, 0);
}

TEST_F(Media, TransferLengthAndClassAreReported) {
  EXPECT_EQ(Read10(0, 3).transfer_length, 1536u);
  EXPECT_EQ(Read10(0, 3).op_class, OpClass::read);
  EXPECT_EQ(Write10(0, Repeated(0, 2)).op_class, OpClass::write);
  EXPECT_EQ(SynchronizeCache10().op_class, OpClass::flush);
  EXPECT_EQ(SendUnmapList(UnmapList({})).op_class, OpClass::unmap);
  EXPECT_EQ(TestUnitReady().op_class, OpClass::other);
}

TEST_F(Media, SynchronizeCacheChecksItsRange) {
  ExpectGood(SynchronizeCache10(0, 0));
  ExpectGood(SynchronizeCache10(unit->blocks() - 1, 1));
  ExpectSense(SynchronizeCache10(unit->blocks() - 1, 2), 5, 0x21, 0);
  ExpectSense(Send(CdbLba16(0x91, {unit->blocks() + 1, 0})), 5, 0x21, 0);
}

TEST_F(Media, BlocksOf4096BytesAreCountedInTheirSize) {
  Build({}, [](UnitOptions& options) { options.block_size = 4096; });
  EXPECT_EQ(unit->blocks(), TestStore::kDefaultSize / 4096);
  const Bytes data = Pattern(3);
  ExpectGood(Write10(2, data));
  EXPECT_EQ(store->bytes(2 * 4096, 3 * 4096), data);
  EXPECT_EQ(Read10(2, 3).data, data);
  ExpectSense(Read10(unit->blocks(), 1), 5, 0x21, 0);
}

}  // namespace
}  // namespace zvolt::scsi::test
