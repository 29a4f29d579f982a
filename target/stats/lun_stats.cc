// LunStats: see lun_stats.h.
#include "target/stats/lun_stats.h"

namespace zvolt::stats {
namespace {

struct StageStamps {
  Stage stage;
  uint64_t scsi::Stamps::*from;
  uint64_t scsi::Stamps::*to;
};
constexpr StageStamps kStageStamps[] = {
    {Stage::total, &scsi::Stamps::received, &scsi::Stamps::sent},
    {Stage::receive, &scsi::Stamps::received, &scsi::Stamps::data_ready},
    {Stage::queue, &scsi::Stamps::data_ready, &scsi::Stamps::started},
    {Stage::store, &scsi::Stamps::started, &scsi::Stamps::store_done},
    {Stage::send, &scsi::Stamps::store_done, &scsi::Stamps::sent},
};
static_assert(std::size(kStageStamps) == kStages - 1 && static_cast<size_t>(Stage::limit) == kStages - 1);

// One writer: a plain add, readable from other threads; no locked instruction.
void bump(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

uint64_t LunShardStats::in_flight() const {
  // finished first: a command that ends between the two loads then counts as in flight, never as less than none.
  const uint64_t finished = finished_.load(std::memory_order_acquire);
  const uint64_t started = started_.load(std::memory_order_acquire);
  return started > finished ? started - finished : 0;
}

LunShardStats::~LunShardStats() {
  for (auto& slot : classes_) delete slot.load(std::memory_order_relaxed);
}

ClassStats& LunShardStats::need(scsi::OpClass op) {
  auto& slot = classes_[static_cast<size_t>(op)];
  ClassStats* stats = slot.load(std::memory_order_relaxed);  // this thread is the only writer
  if (stats == nullptr) {
    stats = new ClassStats;
    slot.store(stats, std::memory_order_release);
  }
  return *stats;
}

void LunShardStats::record_limit(ClassStats& stats, uint64_t nanoseconds) {
  LatencyHistogram* histogram = stats.limit.load(std::memory_order_relaxed);  // this thread is the only writer
  if (histogram == nullptr) {
    histogram = new LatencyHistogram;
    stats.limit.store(histogram, std::memory_order_release);
  }
  histogram->record(nanoseconds);
}

void LunShardStats::record(scsi::OpClass op, const scsi::Stamps& stamps, uint64_t bytes, bool error) {
  ClassStats& stats = need(op);
  const uint64_t limited = stamps.limit_to > stamps.limit_from ? stamps.limit_to - stamps.limit_from : 0;
  for (const StageStamps& s : kStageStamps) {
    const uint64_t from = stamps.*s.from;
    const uint64_t to = stamps.*s.to;
    if (from == 0 || to < from) continue;  // did not get there, or out of order: no figure is better than a wrong one
    const bool has_limit =
        limited != 0 && s.stage != Stage::total && from <= stamps.limit_from && stamps.limit_to <= to;
    stats.stages[static_cast<size_t>(s.stage)].record(to - from - (has_limit ? limited : 0));
  }
  if (limited != 0) record_limit(stats, limited);
  bump(stats.bytes, bytes);
  if (error) bump(stats.errors, 1);
}

LunShardStats& LunStats::shard(size_t index) {
  auto& slot = shards_[index];
  LunShardStats* stats = slot.load(std::memory_order_relaxed);  // each slot has one writer, its shard
  if (stats == nullptr) {
    stats = new LunShardStats;
    slot.store(stats, std::memory_order_release);
  }
  return *stats;
}

LunStats::Summary LunStats::summary(scsi::OpClass op) const {
  Summary result;
  for (const auto& slot : shards_) {
    const LunShardStats* shard = slot.load(std::memory_order_acquire);
    const ClassStats* stats = shard == nullptr ? nullptr : shard->of(op);
    if (stats == nullptr) continue;
    for (size_t i = 0; i < stats->stages.size(); ++i) result.stages[i].add(stats->stages[i]);
    if (const LatencyHistogram* limit = stats->limit.load(std::memory_order_acquire); limit != nullptr)
      result.stages[static_cast<size_t>(Stage::limit)].add(*limit);
    result.bytes += stats->bytes.load(std::memory_order_relaxed);
    result.errors += stats->errors.load(std::memory_order_relaxed);
  }
  return result;
}

uint64_t LunStats::in_flight() const {
  uint64_t total = 0;
  for (const auto& slot : shards_) {
    const LunShardStats* shard = slot.load(std::memory_order_acquire);
    if (shard == nullptr) continue;
    total += shard->in_flight();
  }
  return total;
}

LunStats::~LunStats() {
  for (auto& slot : shards_) delete slot.load(std::memory_order_relaxed);
}

}  // namespace zvolt::stats
