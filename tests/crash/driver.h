// Driver: what happens to a Machine: hosts' requests, faults, what an administrator does, and the moment the power
// goes; all of it drawn from one seed. And what must be true after each restart. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "tests/crash/machine.h"

namespace zvolt::crash {

struct Outcome {
  std::string violation;  // empty: none
  std::string plan;
  uint32_t features = 0;
  Tally tally;
};

// One run: a machine that lives several times. The same arguments are the same run.
Outcome run_seed(uint64_t seed, uint32_t without, Mutant mutant = Mutant::none, unsigned most_lives = 0);

class Driver {
 public:
  Driver(const Plan& plan, Rng& rng, Mutant mutant);
  void life();
  const Tally& tally() const { return m_.tally; }

 private:
  // driver.cc
  void run_life();
  void boot();
  void boot_without_journal();
  bool open_journal();
  void attach(size_t lun);
  void check_all();
  void judge_images(const std::vector<std::vector<uint8_t>>& images);
  void step();
  void request();
  void advance_clock();
  void between();
  void calm();
  void settle(const char* why);

  // driver_events.cc
  void fault();
  void store_fault(SimLun& lun);
  void reopen_store();
  void log_fault();
  void resize();
  void administer();
  void quiesce();
  void drain(uint64_t luns, std::chrono::milliseconds limit);
  void detach(size_t lun);
  void attach_again(size_t lun);
  void discard_records(size_t lun);
  void finish_requests(size_t lun);
  void close();
  std::chrono::milliseconds some_limit();
  bool is_journaled(size_t lun) const;

  Machine m_;
  Rng& rng_;
  Rng reopens_;
  bool in_between_ = false;
  bool traffic_ = false;        // hosts go on while a blocking function runs
  uint64_t between_calls_ = 0;  // in the blocking function that runs
  uint32_t ordered_life_ = 0;   // the last life that changed something, when one journal had all of it
  uint64_t closed_clean_ = 0;   // LUNs that had nothing in the ring when the last life ended
};

}  // namespace zvolt::crash
