// FaultStore: a test double around another store: delays, errors, short transfers, stalls until released, and a power
// cut that loses what was not flushed. Named in the YAML only with --test-stores; used by tests. Thread-safe; a stall
// or a delay holds no thread. A request meets the first rule that matches and is not used up.
//
// With keep_unflushed(true), writes stay in an overlay in memory (any number of bytes: it is a test double) and reach
// the inner store with a successful flush, or at once with FUA; reads see them; cut() forgets them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "backing/io_engine.h"
#include "backing/result.h"
#include "backing/stores.h"

namespace zvolt::backing {

enum class Fault : uint8_t {
  error,           // the request fails with `error`, nothing is done
  delay,           // it starts `delay` later
  short_transfer,  // read, write: the first `bytes` are done, then it fails with `error` (a torn write)
  stall,           // it starts when release() is called
};

struct FaultRule {
  static constexpr uint64_t kAlways = std::numeric_limits<uint64_t>::max();

  Fault fault = Fault::error;
  bool any_kind = true;
  IoKind kind = IoKind::read;  // when any_kind is false
  uint64_t begin = 0;          // bytes: requests that touch [begin, end). A flush touches everything.
  uint64_t end = kAlways;
  uint64_t skip = 0;         // matching requests that pass before the rule bites
  uint64_t count = kAlways;  // how many it bites
  int error = 5;             // EIO
  uint64_t bytes = 0;        // short_transfer
  std::chrono::microseconds delay{0};
};

class FaultStore final : public BlockStore {
 public:
  FaultStore(std::shared_ptr<BlockStore> inner, std::vector<FaultRule> rules);
  ~FaultStore() override;

  Submitted submit(IoRequest& request, IoEngine& engine) override;
  const Geometry& geometry() const override { return inner_->geometry(); }
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  const std::string& describe() const override { return description_; }
  Result<uint64_t> refresh_size() override { return inner_->refresh_size(); }
  uint64_t generation() const override { return inner_->generation(); }

  // --- control, any thread ---
  void set_rules(std::vector<FaultRule> rules);  // in place of all
  void release();                                // what is stalled goes on; later requests of the rules stall again
  size_t stalled() const;                        // requests that wait for release()
  uint64_t bites() const;                        // times that a rule was applied
  void keep_unflushed(bool on);                  // off: the overlay must be empty (flush first)
  void cut();                                    // power cut: un-flushed writes are gone
  uint64_t unflushed_bytes() const;

 private:
  struct Op;
  using Next = Submitted (FaultStore::*)(Op&);
  struct Extent {
    uint64_t length;
    uint64_t change;            // number of the write that made it
    std::vector<uint8_t> data;  // empty: zeros
  };
  struct Counted {
    FaultRule rule;
    uint64_t seen = 0;
  };

  // Each step returns done when the request has its result, pending when something will call the next step.
  Submitted apply_rule(Op& op);
  Submitted perform(Op& op);
  Submitted change(Op& op);
  Submitted after_transfer(Op& op);
  Submitted flush_next(Op& op);
  Submitted after_flush(Op& op);
  Submitted issue(Op& op, IoKind kind, uint64_t offset, uint64_t length, Next next);
  static void on_event(IoRequest& io) noexcept;

  const FaultRule* match_locked(const IoRequest& request);
  void keep_locked(const Op& op);
  void erase_locked(uint64_t begin, uint64_t end, uint64_t up_to_change);
  void note_overlay_locked(Op& op) const;
  bool take_extent(Op& op);
  void start_later_locked(Op& op, std::chrono::microseconds delay);
  void run_timers();

  std::shared_ptr<BlockStore> inner_;
  std::string description_;

  mutable std::mutex mutex_;  // guards all below
  std::vector<Counted> rules_;
  uint64_t bites_ = 0;
  std::vector<Op*> stalled_;
  bool keep_ = false;
  uint64_t changes_ = 0;
  uint64_t cuts_ = 0;
  std::map<uint64_t, Extent> overlay_;  // by offset in bytes; extents do not overlap

  std::multimap<std::chrono::steady_clock::time_point, Op*> timers_;
  std::condition_variable timer_wake_;
  std::thread timer_thread_;  // started with the first delay
  bool stopping_ = false;
};

}  // namespace zvolt::backing
