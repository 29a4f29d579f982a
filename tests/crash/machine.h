// Machine: the simulated host of one run: disks, state keeper, shards, clock, the journal of the present life, the
// requests of hosts and the model that judges their answers. The driver (driver.h) decides what happens. One thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"
#include "tests/crash/crash_disk.h"
#include "tests/crash/crash_keeper.h"
#include "tests/crash/model.h"
#include "tests/crash/mutants.h"
#include "tests/crash/plan.h"
#include "tests/crash/sim_engine.h"

namespace zvolt::crash {

using backing::journal::Journal;
using backing::journal::JournaledStore;
using backing::journal::StateKeeper;

class Machine;

// A host's request. Kept until the life ends: an answer that comes twice must find it.
struct Op {
  backing::IoRequest request;
  std::vector<uint8_t> memory;
  std::array<iovec, 2> iov{};
  Machine* machine = nullptr;
  std::shared_ptr<backing::BlockStore> store;
  size_t lun = 0;
  uint64_t issued = 0;
  uint64_t first = 0;  // sectors that it changes, or reads
  uint64_t count = 0;
  Model::Index version = 0;
  bool fua = false;  // as it was asked for, whatever became of the request
  bool has_version = false;
  bool answered = false;
  bool checks = false;  // reads all after a restart: its reader judges
};

struct SimLun {
  backing::journal::Uuid uuid{};
  std::shared_ptr<CrashDisk> disk;
  std::shared_ptr<JournaledStore> journaled;    // null: not attached in this life
  std::shared_ptr<backing::BlockStore> served;  // what hosts' requests go to; null: not served
  bool unchecked = true;                        // not wholly read since the restart
  bool faulted = false;                         // its store had a fault in this life: errors are explained
  bool resized = false;
  bool left = false;  // detach() has succeeded in this life: a failure of the log is nothing to it
  size_t in_flight = 0;
};

struct Tally {  // of what runs have met: a driver that never meets a thing does not test it
  uint64_t lives = 0, cuts = 0, kills = 0, cuts_in_open = 0, cuts_in_attach = 0, cuts_in_admin = 0, torn = 0;
  uint64_t requests = 0, reads = 0, flushes = 0, errors = 0, commits = 0, waited = 0, busy = 0, forwarded = 0;
  uint64_t superblocks = 0, log_failures = 0, detaches = 0, attaches = 0, quiesces = 0, drains = 0, timeouts = 0;
  uint64_t closes = 0, discards = 0, gone_journals = 0, stale_voided = 0, store_errors = 0, events = 0, replayed = 0;
  uint64_t reopens = 0;
};

class Machine {
 public:
  Machine(const Plan& plan, Rng& rng, Mutant mutant);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // --- lives ---
  void begin_life();
  Result<void> open();
  Result<void> attach(size_t lun);
  void serve_raw(size_t lun);  // without a journal
  void end_life();             // the memory is gone; after the disks have settled (Power::off)

  // --- hosts ---
  void submit(backing::IoKind kind, size_t lun, uint64_t first, uint64_t count, bool fua);
  size_t running() const { return running_; }
  void shard_turn();
  void resize(size_t lun, uint64_t bytes);
  bool overlaps(size_t lun, uint64_t first, uint64_t count) const;  // a request under way
  std::string first_running() const;
  std::string describe() const;  // the journal and its LUNs, for who finds something stuck
  void drop_ops(size_t lun);     // those that were answered: their store goes
  uint64_t tick() { return ++time_; }

  // --- what is asked of what stands there ---
  bool read_all(size_t lun, std::vector<uint8_t>& image);  // false: an error that is explained
  // What is durable in the store must be what a host may see that asks at `asked`. Without `changed_too` sectors that
  // hosts changed after that are left out: what a newer change in memory replaces need not be written.
  void judge_store(size_t lun, uint64_t asked, uint64_t latest, const char* when, bool changed_too = true);

  void heal(bool lose_unflushed);
  bool explained(const Op& op) const;
  bool held(size_t lun) const { return (held_luns_ >> lun & 1) != 0; }
  void hold(uint64_t set) { held_luns_ = set, held_since_ = time_; }

  const Plan& plan;
  Rng& rng;
  Power power;
  Model model;
  Tally tally;
  const Mutant mutant;
  std::shared_ptr<CrashDisk> log;
  std::vector<SimLun> luns;
  std::shared_ptr<CrashKeeper> keeper;
  std::unique_ptr<Journal> journal;
  std::vector<std::unique_ptr<SimEngine>> shards;
  uint64_t now_ns = uint64_t{1000} * 1'000'000'000;
  uint32_t life = 0;
  uint64_t time() const { return time_; }
  bool changed_in_life() const { return changed_; }

  // Of this life.
  bool log_faulted = false;
  bool keeper_faulted = false;
  bool slow = false;              // the clock jumped: to the journal a store took long
  bool ordered = true;            // all changes went through one healthy journal: what survives is a prefix
  const char* where = "";         // the blocking function that runs
  std::function<void()> between;  // what else happens while one of the journal's own engines is run

 private:
  friend void on_answer(backing::IoRequest& request) noexcept;
  std::shared_ptr<CrashDisk> make_store(size_t number);
  void settle_disks();
  void answered(Op& op);
  uint64_t oldest_read() const;  // when the oldest request under way was issued
  void judge_read(const Op& op);
  void prepare(Op& op, bool fua);
  std::string name_of(const Op& op) const;

  uint64_t time_ = 0;
  uint64_t last_cut_events_ = 0;
  bool alive_ = false;
  bool changed_ = false;
  size_t running_ = 0;
  uint64_t held_luns_ = 0;
  uint64_t held_since_ = 0;
  std::vector<std::unique_ptr<Op>> ops_;
  std::function<void()> between_hook_;
};

}  // namespace zvolt::crash
