// See shard_count.h.
#include "backing/shard_count.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace zvolt::backing {

namespace {

bool membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

// ThreadSanitizer cannot see membarrier's ordering but needs none: all of it is between atomics.
bool membarrier_works() {
  static const bool works = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return works;
}

}  // namespace

ShardCount::ShardCount() : asymmetric_(membarrier_works()) {}

void ShardCount::fence() const {
  if (asymmetric_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

int64_t ShardCount::sum() const {
  int64_t all = 0;
  for (const Counter& counter : counters_) all += counter.inside.load(std::memory_order_seq_cst);
  return all;
}

bool ShardCount::zero() const {
  return std::all_of(counters_.begin(), counters_.end(),
                     [](const Counter& c) { return c.inside.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace zvolt::backing
