// CrashDisk: a disk in memory, for the journal's log and for the stores behind it, that does the worst a disk may do.
// What was not flushed may, at a power cut, vanish, survive, be torn at the disk's atomic unit, in any order; a flush
// makes durable only what had completed when it was submitted. Errors, absence and stalls are set by the driver. It
// also watches its caller: overlapping writes in flight and misaligned requests to the log are violations. One thread.
#pragma once

#include <string>
#include <vector>

#include "backing/block_store.h"
#include "tests/crash/power.h"
#include "tests/crash/random.h"

namespace zvolt::crash {

struct DiskOptions {
  std::string name;
  uint64_t size = 0;
  uint32_t atomic = 512;  // bytes: what is never torn
  backing::Geometry geometry;
  unsigned at_once_percent = 0;      // of requests that are done before submit() returns
  uint32_t log_sector = 0;           // of a log: what its writes must be multiples of
  bool flush_keeps_nothing = false;  // ZFS's sync=disabled: only sync_all() makes durable
  uint64_t reopen_seed = 0;          // what reopen() loses
};

struct DiskFaults {
  bool away = false;
  bool stalled = false;
  int write_error = 0;  // errno of writes, zeroes, discards; what they change before they fail is chance
  unsigned write_error_percent = 100;
  int flush_error = 0;  // and of all flushes after one has failed, until reopen()
  int read_error = 0;
};

class CrashDisk final : public backing::BlockStore {
 public:
  CrashDisk(DiskOptions options, Power& power, Rng& rng);

  backing::Submitted submit(backing::IoRequest& request, backing::IoEngine& engine) override;
  const backing::Geometry& geometry() const override { return options_.geometry; }
  uint64_t size_bytes() const override { return now_.size(); }
  const std::string& describe() const override { return options_.name; }
  uint64_t generation() const override { return silent_reopens ? 0 : generation_; }

  // --- the driver ---
  DiskFaults faults;
  unsigned lying_flush_percent = 0;  // a planted fault: flushes that succeed and keep nothing
  bool silent_reopens = false;       // a planted fault: nobody is told of a reopen

  void release();                  // ends a stall
  void heal(bool lose_unflushed);  // ends all faults, as a device that was reopened: un-flushed writes may be gone
  void reopen();                   // un-flushed writes may be gone, and a flush afterwards succeeds all the same
  void sync_all();                 // everything that completed is durable
  void resize(uint64_t size);
  void power_cut();
  void kill();  // of the process alone: what was submitted may still be done, and nothing that completed is lost
  // After either: requests in flight are gone; those of hosts are answered, so that what was allocated for them goes.
  void answer_shards();
  void forget_requests() { in_flight_.clear(), stalled_.clear(); }

  const std::vector<uint8_t>& durable() const { return durable_; }
  const std::vector<uint8_t>& now() const { return now_; }
  std::vector<uint8_t>& raw() { return durable_; }  // between two lives: damage it
  void reset_to(const std::vector<uint8_t>& image) { durable_ = now_ = image, volatile_.clear(); }
  bool idle() const { return in_flight_.empty(); }
  bool changing() const;  // something but reads is on its way

 private:
  struct Write {
    uint64_t offset;
    uint64_t order;  // of completion
    std::vector<uint8_t> bytes;
  };

  static void perform(backing::IoRequest& request) noexcept;
  void tell(const backing::IoRequest& request) const;
  int effect(backing::IoRequest& request);
  int change(const backing::IoRequest& request);
  int flush(const backing::IoRequest& request);
  int read(backing::IoRequest& request) const;
  void watch(const backing::IoRequest& request, const backing::IoEngine& engine);
  Write as_write(const backing::IoRequest& request) const;
  void keep_parts(const Write& write, std::vector<uint8_t>& image);
  static void keep(const Write& write, std::vector<uint8_t>& image);

  DiskOptions options_;
  Power& power_;
  Rng& rng_;
  Rng reopens_;
  uint64_t generation_ = 1;
  std::vector<uint8_t> durable_;
  std::vector<uint8_t> now_;
  std::vector<Write> volatile_;  // completed, not flushed, in the order of completion
  std::vector<backing::IoRequest*> in_flight_;
  std::vector<backing::IoRequest*> stalled_;
  uint64_t completed_ = 0;
  bool flush_failed_ = false;
  uint64_t failed_up_to_ = 0;  // what a failed flush should have kept
};

inline bool changes(backing::IoKind kind) {
  return kind == backing::IoKind::write || kind == backing::IoKind::write_zeroes || kind == backing::IoKind::discard;
}

}  // namespace zvolt::crash
