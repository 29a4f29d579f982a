// Mutants: planted faults. The driver must find each: what cannot fail is no test. Some are disks or a keeper that lie,
// some are a wrapper around the journal's stores that breaks one promise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "tests/crash/random.h"

namespace zvolt::crash {

enum class Mutant : uint8_t {
  none,
  log_flush_lies,
  store_flush_lies,
  keeper_forgets_leaving,
  early_fua,
  early_flush,
  ranged_flush_does_nothing,
  loses_a_write,
  writes_half,
  mixes_a_sector,
  reads_the_store,
  late_write,
  answers_twice,
  never_answers,
  discards_nothing,
  discards_too_much,
  unheld_snapshot,
  drain_does_nothing,
  forgets_the_ring,
  reopens_silently,
};
constexpr unsigned kMutants = 20;
const char* mutant_name(Mutant mutant);

// Around what hosts' requests go to; `store` itself when the mutant is not one of those.
std::shared_ptr<backing::BlockStore> wrap(Mutant mutant, std::shared_ptr<backing::BlockStore> store,
                                          std::shared_ptr<backing::BlockStore> inner, Rng& rng);

}  // namespace zvolt::crash
