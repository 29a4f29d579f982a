// WRITE SAME(10) and (16): exact, with or without UNMAP and NDOB, zeros and other patterns.
#include <cerrno>

#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using backing::IoKind;
constexpr uint8_t kUnmapBit = 0x08, kAnchorBit = 0x10, kNdob = 0x01;

class WriteSame : public ScsiTest {
 protected:
  void BuildGranules(uint32_t granule) {
    Build([=](backing::Geometry& geometry) { geometry.physical_block = geometry.discard_granularity = granule; }, {});
    store->fill(0x78);
  }
  void ExpectExactly(uint64_t lba, uint64_t blocks, const Bytes& block) {
    for (uint64_t i = 0; i < blocks; ++i) ASSERT_EQ(Stored(lba + i, 1), block) << lba + i;
    EXPECT_EQ(Stored(lba - std::min<uint64_t>(lba, 1), lba == 0 ? 0 : 1), Repeated(0x78, lba == 0 ? 0 : 1));
    EXPECT_EQ(Stored(lba + blocks, 1), Repeated(0x78, 1));
  }
};

// Once: converted to a best-effort discard that skips partial granules, GOOD with the old data still there.
TEST_F(WriteSame, WithUnmapTheRangeIsExactWhateverTheGranules) {
  const std::pair<uint64_t, uint64_t> ranges[] = {{0, 127}, {1, 127}, {127, 2}, {100, 1000}, {128, 128}, {5, 1}};
  for (const auto& [lba, blocks] : ranges) {
    for (const uint8_t flags : Bytes{uint8_t{0}, kUnmapBit}) {
      BuildGranules(65536);
      ExpectGood(WriteSame16(lba, blocks, flags, Repeated(0, 1)));
      ExpectExactly(lba, blocks, Repeated(0, 1));
      BuildGranules(65536);
      ExpectGood(WriteSame10(lba, blocks, flags, Pattern(1)));
      ExpectExactly(lba, blocks, Pattern(1));
      BuildGranules(65536);
      ExpectGood(WriteSame16(lba, blocks, static_cast<uint8_t>(flags | kNdob), {}));
      ExpectExactly(lba, blocks, Repeated(0, 1));
    }
  }
}

TEST_F(WriteSame, APatternWithUnmapIsWrittenNotDiscarded) {
  BuildGranules(4096);
  ExpectGood(WriteSame10(0, 64, kUnmapBit, Repeated(0xa6, 1)));
  EXPECT_EQ(store->count(IoKind::discard), 0u);
  EXPECT_EQ(Stored(0, 64), Repeated(0xa6, 64));
}

TEST_F(WriteSame, ZerosWithUnmapAreDiscarded) {
  BuildGranules(4096);
  ExpectGood(WriteSame16(0, 64, kUnmapBit, Repeated(0, 1)));
  EXPECT_EQ(store->events, (std::vector<Event>{{IoKind::discard, 0, 64 * 512}}));
}

TEST_F(WriteSame, ZerosWithoutUnmapUseTheStoresWriteZeroes) {
  ExpectGood(WriteSame16(3, 64, 0, Repeated(0, 1)));
  EXPECT_EQ(store->events, (std::vector<Event>{{IoKind::write_zeroes, 3 * 512, 64 * 512}}));
}

TEST_F(WriteSame, ZerosAreWrittenWhereADiscardDoesNotGiveThem) {
  Build([](backing::Geometry& geometry) { geometry.discard_zeroes = false; }, {});
  store->fill(0x78);
  ExpectGood(WriteSame16(3, 64, kUnmapBit, Repeated(0, 1)));
  ExpectExactly(3, 64, Repeated(0, 1));
}

TEST_F(WriteSame, AnchorIsRefusedWithAndWithoutUnmap) {
  ExpectInvalidField(WriteSame16(0, 1, kAnchorBit, Repeated(0, 1)), 1);
  ExpectInvalidField(WriteSame16(0, 1, kAnchorBit | kUnmapBit, Repeated(0, 1)), 1);
  ExpectInvalidField(WriteSame10(0, 1, 0x02, Repeated(0, 1)), 1);  // LBDATA
}

TEST_F(WriteSame, UnmapIsRefusedWhereTheStoreCannotDiscard) {
  Build([](backing::Geometry& geometry) { geometry.discard_granularity = 0; }, {});
  ExpectInvalidField(WriteSame16(0, 1, kUnmapBit, Repeated(0, 1)), 1);
  ExpectGood(WriteSame16(0, 1, 0, Repeated(0, 1)));
}

TEST_F(WriteSame, ZeroBlocksMeanToTheEnd) {
  store->fill(0x78);
  ExpectGood(WriteSame16(10, 0, 0, Repeated(9, 1)));
  EXPECT_EQ(Stored(9, 1), Repeated(0x78, 1));
  EXPECT_EQ(Stored(10, unit->blocks() - 10), Repeated(9, unit->blocks() - 10));
}

TEST_F(WriteSame, NoMoreThanTheMaximumWriteSameLength) {
  Build({}, {}, uint64_t{40} << 20);
  const uint64_t most = unit->limits().max_write_same;
  ASSERT_GT(unit->blocks(), most + 1);
  ExpectInvalidField(WriteSame16(0, most + 1, 0, Repeated(0, 1)), 10);
  ExpectInvalidField(WriteSame16(unit->blocks() - most - 1, 0, 0, Repeated(0, 1)), 10);
  ExpectInvalidField(WriteSame10(0, 0, 0, Repeated(0, 1)), 7);
  ExpectGood(WriteSame16(unit->blocks() - most, 0, 0, Repeated(0, 1)));
  ExpectGood(WriteSame16(unit->blocks() - most + 1, 0, 0, Repeated(5, 1)));
  ExpectGood(WriteSame16(0, most, 0, Repeated(0, 1)));
}

TEST_F(WriteSame, DataThatIsNotOneBlockIsRefused) {
  ExpectSense(WriteSame16(0, 4, 0, Bytes(256)), 5, 0x0e, 3);
  for (const uint64_t announced : {uint64_t{0}, uint64_t{256}, uint64_t{1024}}) {
    host->announced = announced;
    ExpectSense(WriteSame16(0, 4, 0, Bytes(announced)), 5, 0x0e, 3);
    ExpectSense(WriteSame10(0, 4, kUnmapBit, Bytes(announced)), 5, 0x0e, 3);
  }
  EXPECT_TRUE(store->events.empty());
  host->announced = 512;
  ExpectGood(WriteSame16(0, 4, 0, Bytes(512)));
  host->announced = 0;
  ExpectGood(WriteSame16(0, 4, kNdob, {}));
}

TEST_F(WriteSame, StoreErrorsAreReported) {
  store->errors[IoKind::write] = ENOSPC;
  ExpectSense(WriteSame16(0, 4, 0, Repeated(1, 1)), 7, 0x27, 7);
  store->errors[IoKind::write_zeroes] = EIO;
  ExpectSense(WriteSame16(0, 4, 0, Repeated(0, 1)), 3, 0x0c, 0);
}

TEST_F(WriteSame, ALongPatternGoesInPiecesOnALaterStore) {
  Build({}, {}, uint64_t{40} << 20);
  store->timing = Timing::later;
  const uint64_t most = unit->limits().max_write_same;
  ExpectGood(WriteSame16(1, most, 0, Pattern(1)));
  for (const Event& event : store->events) EXPECT_LE(event.length, 256u * 1024);
  EXPECT_EQ(Stored(1, 1), Pattern(1));
  EXPECT_EQ(Stored(most, 1), Pattern(1));
}

}  // namespace
}  // namespace zvolt::scsi::test
