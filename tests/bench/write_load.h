// Writes of one size at a fixed depth over one libiscsi session, and what they cost: for benchmarks of the whole
// daemon. One thread a call, libiscsi's asynchronous interface.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "backing/result.h"

namespace zvolt::test {

struct WriteLoad {
  std::string url;  // iscsi://HOST:PORT/TARGET/LUN
  unsigned depth = 1;
  uint32_t bytes = 4096;  // of each write, which is aligned to it
  bool sequential = false;
  uint64_t span = uint64_t{48} << 20;  // bytes of the LUN that are written
  uint8_t flags = 0;                   // byte 1 of WRITE(16): kFua
  double seconds = 2;
  pid_t target = 0;  // whose CPU time is counted
};

struct WriteRates {
  uint64_t operations = 0;
  double per_second = 0;
  double p50_us = 0, p99_us = 0;
  double target_cpu_us = 0;  // of the target process, per write
};

// An error: no session, or a write that failed.
Result<WriteRates> run_writes(const WriteLoad& load);

}  // namespace zvolt::test
