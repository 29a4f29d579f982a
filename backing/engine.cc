// make_engine(): the choice between io_uring and worker threads. See io_engine.h.
#include "backing/thread_engine.h"
#include "backing/uring_engine.h"

namespace zvolt::backing {

std::unique_ptr<IoEngine> make_engine(const EngineOptions& options) {
  std::string why = "io_uring is switched off";
  if (options.allow_uring) {
    std::unique_ptr<UringEngine> engine = UringEngine::create(options, why);
    if (engine != nullptr) return engine;
  }
  return std::make_unique<ThreadEngine>(options, why);
}

}  // namespace zvolt::backing
