// VERIFY: the medium is read or compared for real.
#include <cerrno>

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using Verify = ScsiTest;
constexpr uint8_t kCompare = 0x02, kReserved = 0x04, kOneBlock = 0x06;

TEST_F(Verify, WithoutDataTheMediumIsRead) {
  ExpectGood(Verify10(3, 5, 0));
  EXPECT_EQ(store->events, (std::vector<Event>{{backing::IoKind::read, 3 * 512, 5 * 512}}));
  store->bad_offset = 4 * 512;
  const Reply reply = Verify16(3, 5, 0);
  ExpectSense(reply, 3, 0x11, 0);
  EXPECT_EQ(reply.information(), 4u);
}

TEST_F(Verify, ALongRangeIsReadInPiecesInSeveralTurns) {
  Build({}, {}, uint64_t{40} << 20);
  ExpectGood(Verify16(0, unit->blocks(), 0));
  EXPECT_EQ(store->events.size(), 160u);
  store->timing = Timing::later;
  ExpectGood(Verify16(1, unit->blocks() - 1, 0));
}

TEST_F(Verify, EqualDataIsGood) {
  const Bytes data = Pattern(20);
  ExpectGood(Write10(8, data));
  for (const uint32_t piece : {512u, 700u, 4096u, 262144u}) {
    host->piece_size = piece;
    ExpectGood(Verify10(8, 20, kCompare, data));
    ExpectGood(Send(CdbLba12(0xaf, {8, 20, kCompare}), data));
    ExpectGood(Verify16(8, 20, kCompare, data));
  }
}

TEST_F(Verify, AMiscompareCarriesTheOffsetOfTheFirstDifference) {
  const Bytes data = Pattern(8);
  ExpectGood(Write10(8, data));
  host->piece_size = 700;
  for (const size_t at : {size_t{0}, size_t{7}, size_t{511}, size_t{1200}, data.size() - 1}) {
    Bytes other = data;
    other[at] ^= 1;
    other.back() ^= 2;
    const Reply reply = Verify10(8, 8, kCompare, other);
    ExpectSense(reply, 0x0e, 0x1d, 0);
    ASSERT_TRUE(reply.has_information());
    EXPECT_EQ(reply.information(), at);
  }
  EXPECT_EQ(Stored(8, 8), data);
}

TEST_F(Verify, OneBlockIsComparedWithEveryBlock) {
  store->fill(0x77);
  ExpectGood(Verify10(0, 100, kOneBlock, Repeated(0x77, 1)));
  Bytes changed = Repeated(0x77, 1);
  changed[9] = 1;
  ExpectGood(Write10(50, changed));
  const Reply reply = Verify16(0, 100, kOneBlock, Repeated(0x77, 1));
  ExpectSense(reply, 0x0e, 0x1d, 0);
  EXPECT_EQ(reply.information(), 50u * 512 + 9);
}

TEST_F(Verify, ReservedByteCheckIsRefused) {
  ExpectInvalidField(Verify10(0, 1, kReserved), 1);
}

TEST_F(Verify, ZeroBlocksAreGood) {
  for (const uint8_t flags : Bytes{uint8_t{0}, kCompare, kOneBlock}) ExpectGood(Verify10(0, 0, flags));
  ExpectSense(Verify10(unit->blocks(), 0, 0), 5, 0x21, 0);
}

TEST_F(Verify, AReadErrorBeatsALaterMiscompare) {
  store->errors[backing::IoKind::read] = EIO;
  ExpectSense(Verify10(0, 1, kCompare, Repeated(1, 1)), 3, 0x11, 0);
}

TEST_F(Verify, WorksOnAReadOnlyUnit) {
  Build({}, [](UnitOptions& options) { options.read_only = true; });
  ExpectGood(Verify10(0, 1, kCompare, Repeated(0, 1)));
}

TEST_F(Verify, StopsEarlyWhenAborted) {
  Build({}, {}, uint64_t{40} << 20);
  store->timing = Timing::later;
  const auto task = host->Begin(CdbLba16(0x8f, {0, unit->blocks()}));
  ASSERT_EQ(task->phase, Phase::pending);
  EXPECT_FALSE(nexus->abort(*task));
  const Reply reply = host->Finish(*task);
  EXPECT_EQ(reply.status, Status::task_aborted);
  EXPECT_EQ(store->events.size(), 1u);
}

}  // namespace
}  // namespace zvolt::scsi::test
