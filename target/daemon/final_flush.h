// The last flush: every store is asked to make what it has durable before the daemon ends, all at once and within a
// deadline. Called by the drain thread after the server has stopped, and for volumes that are taken out of service.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "target/daemon/volume.h"

namespace zvolt::daemon {

struct FlushReport {
  std::vector<std::string> lost;  // one sentence per volume whose flush failed or did not end
  bool stuck = false;  // some did not end: their requests are still in the kernel. A thread waits on for them
};

FlushReport flush_all(const std::vector<OpenVolume>& volumes, std::chrono::milliseconds limit);

}  // namespace zvolt::daemon
