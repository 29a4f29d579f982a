// UNMAP: the parameter list, its limits, and that exactly the named blocks read as zeros.
#include <cerrno>

#include "scsi/bytes.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using Unmap = ScsiTest;
using backing::IoKind;

TEST_F(Unmap, EmptyListsAreGood) {
  ExpectGood(SendUnmapList(Bytes{}));
  ExpectGood(SendUnmapList(UnmapList({})));
  ExpectGood(SendUnmap({{3, 0}}));
  ExpectGood(SendUnmap({{unit->blocks(), 0}}));
  ExpectGood(SendUnmap({{3, 0}, {3, 0}}));
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Unmap, AListShorterThanItsHeaderIsAListLengthError) {
  for (const size_t size : {1u, 4u, 7u}) ExpectSense(SendUnmapList(Bytes(size)), 5, 0x1a, 0);
}

TEST_F(Unmap, AListThatClaimsMoreThanWasSentIsRefused) {
  Bytes list = UnmapList({{0, 8}});
  put16(list.data() + 2, 32);
  put16(list.data(), 38);
  ExpectSense(SendUnmapList(list), 5, 0x26, 0);
  list = UnmapList({{0, 8}, {8, 8}});
  put16(list.data(), 6 + 16);
  ExpectSense(SendUnmapList(list), 5, 0x26, 0);
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Unmap, AnIncompleteDescriptorIsIgnored) {
  store->fill(0x11);
  Bytes list = UnmapList({{0, 8}, {8, 8}});
  list.resize(8 + 17);
  put16(list.data(), 6 + 17);
  put16(list.data() + 2, 17);
  ExpectGood(SendUnmapList(list));
  EXPECT_EQ(Stored(0, 8), Repeated(0, 8));
  EXPECT_EQ(Stored(8, 8), Repeated(0x11, 8));
}

TEST_F(Unmap, TooManyDescriptorsAreRefused) {
  ExpectGood(SendUnmap(std::vector<UnmapDescriptor>(256, {0, 1})));
  const Reply reply = SendUnmap(std::vector<UnmapDescriptor>(257, {0, 1}));
  ExpectSense(reply, 5, 0x26, 0);
  EXPECT_FALSE(reply.field_in_cdb());
}

TEST_F(Unmap, TooManyBlocksAreRefused) {
  Build({}, {}, (uint64_t{512} << 20) + 4096);
  const uint32_t most = unit->limits().max_unmap_blocks;
  ASSERT_GT(unit->blocks(), most);
  ExpectSense(SendUnmap({{0, most + 1}}), 5, 0x26, 0);
  ExpectSense(SendUnmap({{0, most}, {0, 1}}), 5, 0x26, 0);
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Unmap, RangesOffTheUnitAreRefusedBeforeAnythingIsUnmapped) {
  store->fill(0x22);
  const uint64_t end = unit->blocks();
  ExpectSense(SendUnmap({{end - 1, 2}}), 5, 0x21, 0);
  ExpectSense(SendUnmap({{UINT64_MAX, 1}}), 5, 0x21, 0);
  ExpectSense(SendUnmap({{0, 64}, {end, 1}}), 5, 0x21, 0);
  ExpectSense(SendUnmap({{end + 1, 0}}), 5, 0x21, 0);
  EXPECT_EQ(Stored(0, 64), Repeated(0x22, 64));
  EXPECT_TRUE(store->events.empty());
}

TEST_F(Unmap, AnchorIsRefused) {
  ExpectInvalidField(SendUnmapList(UnmapList({{0, 8}}), 1), 1);
}

TEST_F(Unmap, ExactlyTheNamedBlocksReadAsZeros) {
  for (uint64_t lba = 0; lba < 20; lba += 3) {
    for (const uint32_t blocks : {1u, 2u, 7u, 8u, 9u, 16u, 31u, 100u}) {
      store->fill(0x33);
      ExpectGood(SendUnmap({{lba, blocks}}));
      EXPECT_EQ(Stored(lba, blocks), Repeated(0, blocks)) << lba << '+' << blocks;
      EXPECT_EQ(Stored(0, lba), Repeated(0x33, lba));
      EXPECT_EQ(Stored(lba + blocks, 40), Repeated(0x33, 40));
    }
  }
}

TEST_F(Unmap, WholeGranulesAreFreed) {
  store->fill(0x33);
  ExpectGood(SendUnmap({{7, 10}}));  // one granule of 8 blocks, an edge at each side
  EXPECT_TRUE(store->mapped(7 * 512));
  EXPECT_FALSE(store->mapped(8 * 512));
  EXPECT_FALSE(store->mapped(16 * 512 - 1));
  EXPECT_TRUE(store->mapped(16 * 512));
}

TEST_F(Unmap, AdjacentDescriptorsMakeWholeGranulesTogether) {
  store->fill(0x33);
  ExpectGood(SendUnmap({{12, 4}, {8, 4}}));
  EXPECT_EQ(store->count(IoKind::discard), 1u);
  EXPECT_EQ(store->count(IoKind::write_zeroes), 0u);
  EXPECT_FALSE(store->mapped(8 * 512));
}

TEST_F(Unmap, OverlappingDescriptorsAreGood) {
  store->fill(0x33);
  ExpectGood(SendUnmap({{0, 20}, {10, 20}, {4, 2}}));
  EXPECT_EQ(Stored(0, 30), Repeated(0, 30));
  EXPECT_EQ(Stored(30, 10), Repeated(0x33, 10));
}

// Zeroing a hole would allocate, and fail on a full pool just when the user frees space.
TEST_F(Unmap, AnEdgeWithoutDataIsNotWritten) {
  store->errors[IoKind::write_zeroes] = ENOSPC;
  ExpectGood(SendUnmap({{1, 20}}));
  EXPECT_EQ(store->count(IoKind::write_zeroes), 0u);
  EXPECT_EQ(store->count(IoKind::discard), 1u);
}

TEST_F(Unmap, EdgesAreZeroedAfterAllDiscards) {
  store->fill(1);
  ExpectGood(SendUnmap({{1, 20}, {101, 20}}));
  bool edge_seen = false;
  for (const Event& event : store->events) {
    edge_seen |= event.kind == IoKind::write_zeroes;
    EXPECT_FALSE(edge_seen && event.kind == IoKind::discard);
  }
  EXPECT_TRUE(edge_seen);
}

TEST_F(Unmap, AStoreThatKeepsNoZerosIsOnlyGivenTheDiscards) {
  Build([](backing::Geometry& geometry) { geometry.discard_zeroes = false; }, {});
  store->fill(0x44);
  ExpectGood(SendUnmap({{1, 20}}));
  EXPECT_EQ(store->events, (std::vector<Event>{{IoKind::discard, 4096, 4096}}));
}

TEST_F(Unmap, WholeDiskGoesInBoundedPieces) {
  Build({}, {}, uint64_t{200} << 20);
  store->timing = Timing::later;
  ExpectGood(SendUnmap({{0, static_cast<uint32_t>(unit->blocks())}}));
  EXPECT_EQ(store->events.size(), 7u);
  for (const Event& event : store->events) EXPECT_LE(event.length, uint64_t{32} << 20);
}

TEST_F(Unmap, StopsEarlyWhenAborted) {
  Build({}, {}, uint64_t{200} << 20);
  store->timing = Timing::later;
  const auto task = host->Begin({0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0});
  task->data = UnmapList({{0, static_cast<uint32_t>(unit->blocks())}});
  nexus->data_out(*task);
  ASSERT_EQ(task->phase, Phase::pending);
  task->aborted = true;
  EXPECT_EQ(host->Finish(*task).status, Status::task_aborted);
  EXPECT_EQ(store->events.size(), 1u);
}

TEST_F(Unmap, StoreErrorsAreReported) {
  store->errors[IoKind::discard] = EIO;
  ExpectSense(SendUnmap({{0, 8}}), 3, 0x0c, 0);
  store->errors[IoKind::discard] = EROFS;
  ExpectSense(SendUnmap({{0, 8}}), 7, 0x27, 0);
}

TEST_F(Unmap, DoesNotExistOnAStoreThatCannotDiscard) {
  Build([](backing::Geometry& geometry) { geometry.discard_granularity = 0; }, {});
  ExpectSense(SendUnmap({{0, 8}}), 5, 0x20, 0);
}

}  // namespace
}  // namespace zvolt::scsi::test
