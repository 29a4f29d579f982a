// The plan of an exact discard: which parts go as whole granules, which are zeroed by writing.
#include "scsi/erase.h"

#include <gtest/gtest.h>

namespace zvolt::scsi {
namespace {

std::string Show(const std::vector<EraseSegment>& plan) {
  std::string out;
  for (const EraseSegment& segment : plan) {
    out += segment.step == EraseStep::discard ? 'D' : 'Z';
    out += std::to_string(segment.range.offset) + "+" + std::to_string(segment.range.length) + " ";
  }
  return out;
}

TEST(DiscardPlan, AlignedRangeIsOneDiscard) {
  EXPECT_EQ(Show(plan_discard({{100, 200}}, 100, 0, true)), "D100+200 ");
}

TEST(DiscardPlan, EdgesComeAfterTheGranules) {
  EXPECT_EQ(Show(plan_discard({{90, 120}, {490, 20}}, 100, 0, true)), "D100+100 Z90+10 Z200+10 Z490+20 ");
}

TEST(DiscardPlan, LessThanAGranuleIsAllEdge) {
  EXPECT_EQ(Show(plan_discard({{10, 80}}, 100, 0, true)), "Z10+80 ");
  EXPECT_EQ(Show(plan_discard({{90, 20}}, 100, 0, true)), "Z90+20 ");
}

TEST(DiscardPlan, AlignmentShiftsTheGranules) {
  EXPECT_EQ(Show(plan_discard({{0, 250}}, 100, 30, true)), "D30+200 Z0+30 Z230+20 ");
  EXPECT_EQ(Show(plan_discard({{0, 20}}, 100, 30, true)), "Z0+20 ");
}

TEST(DiscardPlan, EdgesAreLeftWhenZerosAreNotPromised) {
  EXPECT_EQ(Show(plan_discard({{90, 120}}, 100, 0, false)), "D100+100 ");
}

TEST(DiscardPlan, AdjacentOverlappingAndEmptyRangesAreMerged) {
  EXPECT_EQ(Show(plan_discard({{150, 50}, {100, 50}, {120, 10}, {7, 0}, {190, 10}}, 100, 0, true)), "D100+100 ");
  EXPECT_EQ(Show(plan_discard({{7, 0}}, 100, 0, true)), "");
}

TEST(DiscardPlan, EveryByteIsCoveredOnce) {
  for (uint64_t granule : {1u, 3u, 8u}) {
    for (uint64_t alignment = 0; alignment < granule; ++alignment) {
      for (uint64_t offset = 0; offset < 12; ++offset) {
        for (uint64_t length = 0; length < 20; ++length) {
          std::vector<int> covered(40);
          for (const EraseSegment& segment : plan_discard({{offset, length}}, granule, alignment, true)) {
            for (uint64_t i = 0; i < segment.range.length; ++i) ++covered[segment.range.offset + i];
            if (segment.step != EraseStep::discard) continue;
            EXPECT_EQ((segment.range.offset - alignment) % granule, 0u);
            EXPECT_EQ(segment.range.length % granule, 0u);
          }
          for (uint64_t i = 0; i < covered.size(); ++i) {
            ASSERT_EQ(covered[i], i >= offset && i < offset + length ? 1 : 0);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zvolt::scsi
