// Blocking: I/O of functions that may block, on an engine of their own. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backing/io_engine.h"

namespace zvolt::backing::journal {

class Blocking {
 public:
  explicit Blocking(const std::function<std::unique_ptr<IoEngine>()>& make_engine) : owned_(make_engine()) {}
  explicit Blocking(IoEngine& engine) : engine_(&engine) {}

  // Called while nothing happens on the engine: what else has to run on this thread.
  void on_idle(std::function<void()> run) { idle_ = std::move(run); }

  IoEngine& engine() { return owned_ ? *owned_ : *engine_; }

  int run(BlockStore& store, IoRequest& request);  // its errno
  int read(BlockStore& store, uint64_t offset, uint8_t* data, uint64_t length);
  int write(BlockStore& store, uint64_t offset, const uint8_t* data, uint64_t length);
  int flush(BlockStore& store);

  // Turns of the engine until `done`.
  void wait(const bool& done);
  // `submit` a request that may be pending; its errno.
  int wait_for(IoRequest& request, const std::function<Submitted(IoRequest&)>& submit);

 private:
  std::unique_ptr<IoEngine> owned_;
  IoEngine* engine_ = nullptr;
  std::function<void()> idle_;
};

}  // namespace zvolt::backing::journal
