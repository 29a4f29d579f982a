// SimEngine: an IoEngine that does nothing but what is asked of it, one finished request after another, in an order
// that the seed chooses. One thread: several of them are the shards of a simulated machine, others the journal's own.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backing/io_engine.h"
#include "tests/crash/power.h"
#include "tests/crash/random.h"

namespace zvolt::crash {

class SimEngine final : public backing::IoEngine {
 public:
  // `between`: what else happens in the machine while this engine's owner waits (the journal's own engines).
  SimEngine(Power& power, Rng& rng, const std::function<void()>* between)
      : power_(power), rng_(rng), between_(between) {}

  void queue(backing::IoRequest&, int) override { power_.fail("there are no descriptors here"); }
  void queue_sync(backing::IoRequest&, int) override { power_.fail("there are no descriptors here"); }
  void offload(backing::IoRequest& request, void (*work)(backing::IoRequest&)) override;
  void park(backing::IoRequest& request) override { request.engine = this; }
  void finish_from_any_thread(backing::IoRequest& request) override { ready_.push_back(&request); }
  void flush() override { run_before_flush(); }
  uint64_t submissions() const override { return 0; }
  size_t reap(size_t limit) override;
  void post(void (*fn)(void*), void* arg) override { posted_.emplace_back(fn, arg); }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return ready_.size(); }
  const std::string& description() const override { return description_; }

  bool is_shard() const { return between_ == nullptr; }

 private:
  void run_one();

  Power& power_;
  Rng& rng_;
  const std::function<void()>* between_;
  std::vector<backing::IoRequest*> ready_;
  std::vector<std::pair<void (*)(void*), void*>> posted_;
  std::string description_ = "simulated";
};

}  // namespace zvolt::crash
