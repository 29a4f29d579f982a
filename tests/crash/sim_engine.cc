// See sim_engine.h.
#include "tests/crash/sim_engine.h"

#include <algorithm>

namespace zvolt::crash {

using backing::IoRequest;

void SimEngine::offload(IoRequest& request, void (*work)(IoRequest&)) {
  request.engine = this;
  request.work = work;
  ready_.push_back(&request);
}

size_t SimEngine::reap(size_t limit) {
  power_.check();
  if (between_ != nullptr) (*between_)();
  for (const auto& [fn, arg] : std::exchange(posted_, {})) fn(arg);
  const size_t most = std::min<size_t>(limit, rng_.between(1, 4));
  size_t ran = 0;
  for (; ran < most && !ready_.empty(); ++ran) {
    run_one();
    power_.check();
  }
  return ran;
}

void SimEngine::run_one() {
  const size_t at = rng_.below(ready_.size());
  IoRequest& request = *ready_[at];
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
  if (request.work != nullptr) {
    request.again = false;
    request.work(request);
    if (request.again) {
      ready_.push_back(&request);
      return;
    }
    request.work = nullptr;
  }
  (request.step != nullptr ? request.step : request.done)(request);
}

}  // namespace zvolt::crash
