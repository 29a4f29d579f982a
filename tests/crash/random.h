// Rng: the one source of chance of a simulated run: small, fast, the same on every machine, so that a seed is a run.
#pragma once

#include <cstdint>

namespace zvolt::crash {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  bool percent(uint64_t chance) { return below(100) < chance; }
  bool one_in(uint64_t many) { return below(many) == 0; }

 private:
  uint64_t state_;
};

}  // namespace zvolt::crash
