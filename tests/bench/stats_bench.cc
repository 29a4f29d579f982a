// What recording one finished command in the statistics costs (aim: below 50 ns, no lock). Run: bench_stats.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "target/stats/lun_stats.h"

namespace zvolt::stats {
namespace {

// Stamps as a busy LUN makes them: stages of 1 us to 1 ms, spread so that the histograms' cache lines are not always
// the same.
std::vector<scsi::Stamps> some_stamps(bool all_stages) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> stage(10, 1);
  const auto next = [&] { return static_cast<uint64_t>(stage(random)); };
  std::vector<scsi::Stamps> stamps(4096);
  for (scsi::Stamps& s : stamps) {
    s.received = 1'000'000'000 + next();
    s.data_ready = s.received + (all_stages ? next() : 0);
    s.started = s.data_ready + next();
    s.store_done = s.started + next();
    s.sent = s.store_done + next();
  }
  return stamps;
}

void BM_RecordAllStages(benchmark::State& state) {
  const auto stamps = some_stamps(true);
  LunStats stats("bench", 1);
  LunShardStats& shard = stats.shard(0);
  size_t i = 0;
  for (auto _ : state) shard.record(scsi::OpClass::write, stamps[i++ & 4095], 4096, false);
}
BENCHMARK(BM_RecordAllStages);

void BM_RecordReadsAndWritesOf64Luns(benchmark::State& state) {
  const auto stamps = some_stamps(true);
  std::vector<std::unique_ptr<LunStats>> luns;
  for (int n = 0; n < 64; ++n) luns.push_back(std::make_unique<LunStats>("bench", 1));
  size_t i = 0;
  for (auto _ : state) {
    const auto op = (i & 1) != 0 ? scsi::OpClass::read : scsi::OpClass::write;
    luns[(i >> 1) & 63]->shard(0).record(op, stamps[i & 4095], 4096, false);
    ++i;
  }
}
BENCHMARK(BM_RecordReadsAndWritesOf64Luns);

void BM_HistogramRecord(benchmark::State& state) {
  const auto stamps = some_stamps(true);
  LatencyHistogram histogram;
  size_t i = 0;
  for (auto _ : state) {
    const scsi::Stamps& s = stamps[i++ & 4095];
    histogram.record(s.sent - s.received);
  }
}
BENCHMARK(BM_HistogramRecord);

void BM_SummaryOfTwoShards(benchmark::State& state) {
  const auto stamps = some_stamps(true);
  LunStats stats("bench", 2);
  for (size_t i = 0; i < stamps.size(); ++i) stats.shard(i & 1).record(scsi::OpClass::read, stamps[i], 4096, false);
  for (auto _ : state) benchmark::DoNotOptimize(stats.summary(scsi::OpClass::read).stages[0].percentile_ns(0.99));
}
BENCHMARK(BM_SummaryOfTwoShards);

}  // namespace
}  // namespace zvolt::stats
