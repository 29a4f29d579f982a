// See plan.h.
#include "tests/crash/plan.h"

#include <algorithm>
#include <array>

namespace zvolt::crash {

namespace {

struct Chance {
  const char* name;
  unsigned percent;  // of runs
};
constexpr std::array<Chance, kFeatures> kChances{{
    {"many-luns", 60},
    {"many-shards", 60},
    {"log-faults", 25},
    {"store-faults", 40},
    {"keeper-faults", 15},
    {"admin", 50},
    {"resize", 10},
    {"kill", 30},
    {"replay-cuts", 60},
    {"big-requests", 30},
    {"discards", 60},
    {"gone-journal", 15},
    {"txg-sync", 8},
    {"overlaps", 30},
    {"at-once", 25},
    {"late-stores", 30},
    {"reopens", 25},
}};

template <typename T, size_t N>
T one_of(Rng& rng, const T (&values)[N]) {
  return values[rng.below(N)];
}

}  // namespace

const char* feature_name(unsigned bit) {
  return kChances[bit].name;
}

std::string feature_names(uint32_t features) {
  std::string text;
  for (unsigned bit = 0; bit < kFeatures; ++bit) {
    if ((features >> bit & 1) != 0) text += (text.empty() ? "" : ",") + std::string(feature_name(bit));
  }
  return text;
}

Plan draw_plan(Rng& rng, uint32_t without) {
  Plan plan;
  // Reopens have randomness of their own, so that a seed without them is the run that it was before there were any.
  Rng reopens(Rng(rng).next() ^ kReopens);
  for (unsigned bit = 0; bit < kFeatures; ++bit) {
    Rng& own = 1U << bit == kReopens ? reopens : rng;
    if (own.percent(kChances[bit].percent)) plan.features |= 1U << bit;
  }
  // A store whose flush proves nothing is for LUNs that never leave the journal: nothing else keeps their promises.
  if (plan.has(kTxgSync)) plan.features &= ~uint32_t{kLogFaults | kKeeperFaults | kGoneJournal | kKill | kAdmin};
  plan.features &= ~without;
  plan.reopen_seed = reopens.next();
  const uint64_t luns = rng.between(2, 3);
  const uint64_t shards = rng.between(2, 3);
  plan.luns = plan.has(kManyLuns) ? static_cast<unsigned>(luns) : 1;
  plan.shards = plan.has(kManyShards) ? static_cast<unsigned>(shards) : 1;
  plan.depth = static_cast<unsigned>(rng.between(1, 12));
  plan.sector = rng.one_in(2) ? 512 : 4096;
  plan.log_atomic = rng.one_in(3) ? 4096 : 512;
  plan.store_atomic = rng.one_in(3) ? 4096 : 512;
  plan.ring_bytes = one_of<uint64_t>(rng, {64, 64, 96, 128, 132, 256, 512}) << 10;
  plan.volblock = one_of<uint32_t>(rng, {4096, 8192, 16384, 65536});
  plan.granule = rng.one_in(2) ? plan.volblock : 4096;
  plan.discard_zeroes = !rng.one_in(5);
  plan.lun_bytes = rng.between(1, 3) * 65536;
  plan.lun_quota_percent = static_cast<unsigned>(rng.between(25, 70));
  plan.memory_bytes = one_of<uint64_t>(rng, {64, 256, 1024, 8192}) << 10;
  plan.max_dirty_age_ms = one_of<uint64_t>(rng, {0, 5, 50, 2000});
  plan.most_waiters = rng.one_in(10) ? 3 : 4096;
  if (rng.one_in(5)) plan.policy = backing::journal::FailurePolicy::read_only;
  plan.fua_percent = one_of<unsigned>(rng, {5, 30, 70});
  plan.lives = static_cast<unsigned>(rng.between(4, 10));
  plan.most_events = one_of<uint64_t>(rng, {80, 300, 800});
  return plan;
}

}  // namespace zvolt::crash
