// Plan: what a run is made of, drawn from its seed. Features can be taken out by a mask: the same seed without one is
// the same run as far as it can be (how a failure is made smaller).
#pragma once

#include <cstdint>
#include <string>

#include "backing/journal/journal.h"
#include "tests/crash/random.h"

namespace zvolt::crash {

enum Feature : uint32_t {
  kManyLuns = 1U << 0,
  kManyShards = 1U << 1,
  kLogFaults = 1U << 2,
  kStoreFaults = 1U << 3,
  kKeeperFaults = 1U << 4,
  kAdmin = 1U << 5,
  kResize = 1U << 6,
  kKill = 1U << 7,
  kReplayCuts = 1U << 8,
  kBigRequests = 1U << 9,
  kDiscards = 1U << 10,
  kGoneJournal = 1U << 11,
  kTxgSync = 1U << 12,
  kOverlaps = 1U << 13,
  kAtOnce = 1U << 14,
  kLateStores = 1U << 15,
  kReopens = 1U << 16,
};
constexpr unsigned kFeatures = 17;
const char* feature_name(unsigned bit);
std::string feature_names(uint32_t features);

struct Plan {
  uint32_t features = 0;
  bool has(Feature feature) const { return (features & feature) != 0; }

  unsigned luns = 1;
  unsigned shards = 1;
  unsigned depth = 4;  // requests in flight
  uint32_t sector = 512;
  uint32_t log_atomic = 512;
  uint32_t store_atomic = 512;
  uint64_t ring_bytes = 0;
  uint64_t lun_bytes = 0;
  uint32_t volblock = 4096;
  uint32_t granule = 4096;
  bool discard_zeroes = true;
  unsigned lun_quota_percent = 50;
  uint64_t memory_bytes = 0;
  uint64_t max_dirty_age_ms = 0;
  uint64_t most_waiters = 4096;
  backing::journal::FailurePolicy policy = backing::journal::FailurePolicy::write_through;
  unsigned fua_percent = 30;
  unsigned lives = 6;
  uint64_t most_events = 600;  // of a life
  uint64_t reopen_seed = 0;    // decides when stores are reopened, and what they lose
};

Plan draw_plan(Rng& rng, uint32_t without);

}  // namespace zvolt::crash
