// LatencyHistogram and HistogramSnapshot: buckets, percentiles against the exact ones of sorted data.
#include "target/stats/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace zvolt::stats {
namespace {

constexpr uint64_t kMicrosecond = 1000, kSecond = 1'000'000'000;

TEST(Buckets, IndexRisesWithTheValueAndNeverLeavesTheTable) {
  size_t last = 0;
  for (uint64_t ns = 0; ns < 200 * kSecond; ns += 1 + ns / 997) {
    const size_t i = Buckets::index(ns);
    ASSERT_GE(i, last);
    ASSERT_LT(i, Buckets::kCount);
    ASSERT_LE(i - last, 1u) << "a bucket was skipped at " << ns;
    last = i;
  }
  EXPECT_EQ(Buckets::index(~uint64_t{0}), Buckets::kCount - 1);
}

TEST(Buckets, MidpointIsInItsOwnBucket) {
  for (size_t i = 0; i < Buckets::kCount; ++i) EXPECT_EQ(Buckets::index(Buckets::midpoint_ns(i)), i);
}

TEST(Buckets, MidpointIsWithinTwoPercentFromOneMicrosecondToHundredSeconds) {
  double worst = 0;
  for (uint64_t ns = kMicrosecond; ns <= 100 * kSecond; ns += 1 + ns / 4999) {
    const double shown = static_cast<double>(Buckets::midpoint_ns(Buckets::index(ns)));
    worst = std::max(worst, std::abs(shown / static_cast<double>(ns) - 1));
  }
  EXPECT_LE(worst, 0.02);
  EXPECT_GT(worst, 0.001) << "the test has no resolution";
}

TEST(Histogram, EmptyHasNoFigures) {
  const HistogramSnapshot s;
  EXPECT_EQ(s.count(), 0u);
  EXPECT_EQ(s.percentile_ns(0.5), 0u);
  EXPECT_EQ(s.max_ns(), 0u);
  EXPECT_EQ(s.mean_ns(), 0);
}

TEST(Histogram, OneValueIsEveryPercentile) {
  LatencyHistogram h;
  h.record(123456);
  HistogramSnapshot s;
  s.add(h);
  for (const double p : {0.0, 0.5, 0.99, 1.0}) EXPECT_EQ(s.percentile_ns(p), 123456u);
  EXPECT_EQ(s.mean_ns(), 123456);
}

TEST(Histogram, PercentileIsNeverAboveTheMaximum) {
  LatencyHistogram h;
  for (int i = 0; i < 1000; ++i) h.record(1'000'001);
  h.record(1'000'002);
  HistogramSnapshot s;
  s.add(h);
  EXPECT_LE(s.percentile_ns(0.5), s.max_ns());
  EXPECT_EQ(s.percentile_ns(1.0), 1'000'002u);
}

// Random data of several shapes: each percentile against the nearest rank in the sorted data.
void expect_percentiles(const std::function<double(std::mt19937_64&)>& draw, size_t values) {
  std::mt19937_64 random(20261130);
  std::vector<uint64_t> data(values);
  LatencyHistogram h;
  for (uint64_t& ns : data) {
    ns = static_cast<uint64_t>(std::clamp(draw(random), 1e3, 1e11));
    h.record(ns);
  }
  std::ranges::sort(data);
  HistogramSnapshot s;
  s.add(h);
  EXPECT_EQ(s.count(), values);
  EXPECT_EQ(s.max_ns(), data.back());
  for (const double p : {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(p * static_cast<double>(values))));
    const auto exact = static_cast<double>(data[rank - 1]);
    EXPECT_NEAR(static_cast<double>(s.percentile_ns(p)), exact, exact * 0.02) << "p=" << p;
  }
}

TEST(Histogram, PercentilesOfLogNormalDataAreWithinTwoPercent) {
  expect_percentiles([d = std::lognormal_distribution<double>(11.5, 1.2)](std::mt19937_64& r) mutable { return d(r); },
                     200000);
}
TEST(Histogram, PercentilesOfUniformDataAreWithinTwoPercent) {
  expect_percentiles(
      [d = std::uniform_real_distribution<double>(1e3, 1e7)](std::mt19937_64& r) mutable { return d(r); }, 100000);
}
TEST(Histogram, PercentilesOverTheWholeRangeAreWithinTwoPercent) {
  expect_percentiles(
      [d = std::uniform_real_distribution<double>(3, 11)](std::mt19937_64& r) mutable { return std::pow(10, d(r)); },
      100000);
}
TEST(Histogram, PercentilesOfTwoPeaksAreWithinTwoPercent) {
  expect_percentiles(
      [](std::mt19937_64& r) {
        return r() % 100 == 0 ? std::normal_distribution<double>(4e10, 1e8)(r)
                              : std::normal_distribution<double>(8e4, 5e3)(r);
      },
      100000);
}

TEST(Histogram, SnapshotSumsShards) {
  LatencyHistogram a, b;
  for (int i = 0; i < 100; ++i) a.record(10'000);
  for (int i = 0; i < 300; ++i) b.record(1'000'000);
  HistogramSnapshot s;
  s.add(a);
  s.add(b);
  EXPECT_EQ(s.count(), 400u);
  EXPECT_EQ(s.max_ns(), 1'000'000u);
  EXPECT_DOUBLE_EQ(s.mean_ns(), (100 * 1e4 + 300 * 1e6) / 400);
  EXPECT_NEAR(static_cast<double>(s.percentile_ns(0.25)), 1e4, 200);
  EXPECT_NEAR(static_cast<double>(s.percentile_ns(0.26)), 1e6, 2e4);
}

}  // namespace
}  // namespace zvolt::stats
