// The dirty map against a model that knows one sequence per byte.
#include "backing/journal/dirty_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace zvolt::backing::journal {
namespace {

constexpr uint64_t kBytes = 4096;

RecordRef record(uint64_t sequence, uint64_t offset, uint64_t length) {
  RecordRef made = RecordRef::adopt(new Record);
  made->sequence = sequence;
  made->offset = offset;
  made->length = length;
  made->ring_bytes = length + 512;
  return made;
}

struct Model {
  std::vector<uint64_t> owner = std::vector<uint64_t>(kBytes);  // sequence; 0: clean

  void insert(uint64_t sequence, uint64_t offset, uint64_t length) {
    std::fill_n(owner.begin() + static_cast<ptrdiff_t>(offset), length, sequence);
  }
  void erase(uint64_t begin, uint64_t end, uint64_t sequence) {
    for (uint64_t i = begin; i < end; ++i) {
      if (owner[i] == sequence) owner[i] = 0;
    }
  }
};

void expect_same(const DirtyMap& map, const Model& model) {
  std::vector<uint64_t> shown(kBytes);
  uint64_t last = 0;
  map.visit(0, kBytes, [&](uint64_t begin, uint64_t end, const Record& r) {
    EXPECT_LE(last, begin);
    EXPECT_LT(begin, end);
    EXPECT_GE(begin, r.offset);
    EXPECT_LE(end, r.end());
    last = end;
    std::fill(shown.begin() + static_cast<ptrdiff_t>(begin), shown.begin() + static_cast<ptrdiff_t>(end), r.sequence);
    return true;
  });
  ASSERT_EQ(shown, model.owner);
  const std::set<uint64_t> live(model.owner.begin(), model.owner.end());
  const uint64_t clean = live.count(0);
  EXPECT_EQ(map.records(), live.size() - clean);
  uint64_t oldest = 0;
  for (const uint64_t each : live) {
    if (each != 0 && oldest == 0) oldest = each;
  }
  EXPECT_EQ(map.oldest() == nullptr ? 0 : map.oldest()->sequence, oldest);
  EXPECT_EQ(map.bytes(), static_cast<uint64_t>(std::count_if(model.owner.begin(), model.owner.end(),
                                                             [](uint64_t sequence) { return sequence != 0; })));
}

TEST(DirtyMap, SaysTheSameAsOneSequencePerByte) {
  std::mt19937_64 random(20261130);
  const auto below = [&](uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random); };
  DirtyMap map;
  Model model;
  uint64_t sequence = 0;
  for (int step = 0; step < 100000; ++step) {
    const uint64_t begin = below(kBytes);
    const uint64_t length = 1 + below(std::min<uint64_t>(kBytes - begin, below(8) == 0 ? kBytes : 256));
    if (below(3) != 0) {
      map.insert(*record(++sequence, begin, length));
      model.insert(sequence, begin, length);
    } else {
      const uint64_t which = model.owner[begin] != 0 && below(4) != 0 ? model.owner[begin] : 1 + below(sequence + 1);
      map.erase(begin, begin + length, which);
      model.erase(begin, begin + length, which);
    }
    if (step % 97 == 0) {
      expect_same(map, model);
      if (testing::Test::HasFailure()) FAIL() << "at step " << step;
    }
  }
  map.clear();
  EXPECT_EQ(map.oldest(), nullptr);
  EXPECT_EQ(map.bytes(), 0U);
  EXPECT_EQ(map.ring_bytes(), 0U);
}

TEST(DirtyMap, VisitCutsExtentsToTheRange) {
  DirtyMap map;
  map.insert(*record(1, 100, 200));
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  map.visit(150, 160, [&](uint64_t begin, uint64_t end, const Record&) {
    seen.emplace_back(begin, end);
    return true;
  });
  EXPECT_EQ(seen, (std::vector<std::pair<uint64_t, uint64_t>>{{150, 160}}));
}

TEST(DirtyMap, RecordOverwrittenInTheMiddleStaysLiveAtBothEnds) {
  DirtyMap map;
  map.insert(*record(1, 0, 300));
  map.insert(*record(2, 100, 100));
  EXPECT_EQ(map.extents(), 3U);
  EXPECT_EQ(map.oldest()->sequence, 1U);
  map.erase(0, 300, 1);
  EXPECT_EQ(map.oldest()->sequence, 2U);
  EXPECT_EQ(map.bytes(), 100U);
}

TEST(DirtyMap, WhatANewerRecordTookIsNotErasedWithTheOlder) {
  DirtyMap map;
  map.insert(*record(1, 0, 100));
  map.insert(*record(2, 50, 100));
  map.erase(0, 150, 1);
  EXPECT_EQ(map.bytes(), 100U);
}

}  // namespace
}  // namespace zvolt::backing::journal
