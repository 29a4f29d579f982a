// LogicalUnit: a disk as SCSI sees it (SAM-5 4.6.4, SBC-4): a BlockStore, an identity, caching and block size rules.
// Built by the daemon from the configuration, shared by all nexuses on all shards.
// Threading: what the READ/WRITE path reads is constant or an atomic (relaxed); the rest is changed under a mutex.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "scsi/range_gate.h"
#include "scsi/rate_limit.h"
#include "scsi/sense.h"
#include "scsi/task.h"
#include "scsi/unit_limits.h"

namespace zvolt::scsi {

enum class SyncMode : uint8_t { standard, always, disabled };  // the durability contract, design section 6

struct UnitOptions {
  std::string name;                // volume name in the configuration
  std::array<uint8_t, 16> uuid{};  // serial, NAA and T10 designators derive from it alone
  uint32_t block_size = 512;       // 512 or 4096
  static constexpr uint32_t kPhysicalOfStore = UINT32_MAX;
  uint32_t physical_block_size = 0;    // bytes; 0: auto = the store's, clamped to 4096; kPhysicalOfStore: not clamped
  SyncMode sync = SyncMode::standard;  // at first: see set_sync, set_read_only, set_limit
  bool read_only = false;
  RateLimit limit;
  // The store may be late: with less than a block of size the unit begins as becoming_ready, with no capacity.
  bool may_be_late = false;
  std::string vendor = "ZVOLT";          // 8 characters
  std::string product = "VIRTUAL-DISK";  // 16 characters; the same for all LUNs (ESXi refuses XCOPY otherwise)
  std::string revision = "0001";         // 4 characters
};

// Unit attention conditions, SAM-5 5.14: ASC/ASCQ.
struct UnitAttention {
  uint8_t asc = 0;
  uint8_t ascq = 0;
  bool operator==(const UnitAttention&) const = default;
};

namespace attention {
inline constexpr UnitAttention kPowerOn{0x29, 0x00};
inline constexpr UnitAttention kMediumMayHaveChanged{0x28, 0x00};
inline constexpr UnitAttention kInternalReset{0x29, 0x04};
inline constexpr UnitAttention kModeParametersChanged{0x2a, 0x01};
inline constexpr UnitAttention kCapacityChanged{0x2a, 0x09};
inline constexpr UnitAttention kInquiryDataChanged{0x3f, 0x03};
inline constexpr UnitAttention kReportedLunsChanged{0x3f, 0x0e};
}  // namespace attention

// What a unit answers to commands that need the medium. INQUIRY, REPORT LUNS, REQUEST SENSE, MODE SENSE and REPORT
// SUPPORTED OPERATION CODES work in every state but `removed`.
enum class UnitState : uint8_t {
  ready,
  // The store is late, gone for now, or reopening: 02/04/01, the one answer that Linux, ESXi and Windows wait on
  // (Linux fails 02/04/00 and 02/04/03 at once).
  becoming_ready,
  offline,          // by the operator, who will bring it back: 02/04/01 for the same reason
  failed_for_good,  // not back within the time that was given: 04/3E/01, permanent loss to ESXi
  removed,          // no LUN any more: answered as if nothing were mapped there, 05/25/00
};
const char* state_name(UnitState state);
SenseCode state_sense(UnitState state);  // ready: no sense

class LogicalUnit : public std::enable_shared_from_this<LogicalUnit> {
 public:
  // Fails (with the reason) when block_size does not fit the store: less than one block, not 512 or 4096.
  static Result<std::shared_ptr<LogicalUnit>> create(UnitOptions options, std::shared_ptr<backing::BlockStore> store);
  ~LogicalUnit();
  LogicalUnit(const LogicalUnit&) = delete;
  LogicalUnit& operator=(const LogicalUnit&) = delete;

  const UnitOptions& options() const { return options_; }
  // A snapshot: it stays valid as long as the unit, and another one takes its place when the store changes.
  const UnitLimits& limits() const { return *limits_.load(std::memory_order_acquire); }
  backing::BlockStore& store() const { return *store_; }
  uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  // For READ CAPACITY. A store that shrank to nothing still has to name some last block.
  uint64_t last_block() const { return std::max<uint64_t>(blocks(), 1) - 1; }
  uint32_t block_size() const { return options_.block_size; }
  bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
  UnitState state() const { return state_.load(std::memory_order_relaxed); }
  SyncMode sync() const { return sync_.load(std::memory_order_relaxed); }

  // The caching mode page's WCE, and whether an acknowledged write, a FUA or SYNCHRONIZE CACHE needs a flush of the
  // store.
  bool write_cache_enabled() const { return sync() != SyncMode::always; }
  bool flush_after_write() const { return (flushes_.load(std::memory_order_relaxed) & kAfterWrite) != 0; }
  bool flush_on_demand() const { return (flushes_.load(std::memory_order_relaxed) & kOnDemand) != 0; }
  // The control mode page's D_SENSE.
  bool descriptor_sense() const { return descriptor_sense_.load(std::memory_order_relaxed); }
  void set_descriptor_sense(bool on) { descriptor_sense_.store(on, std::memory_order_relaxed); }

  // --- changes while it is served; any thread ---

  // Raise a unit attention on every nexus of this LUN but `except`.
  void raise_unit_attention(UnitAttention what, const LunNexus* except = nullptr);
  // A return to `ready` raises 06/28/00 on every nexus (what is on the medium may be another state of it: a pool that
  // was imported elsewhere, a rollback), or 06/29/04 when `writes_lost`: a flush failed meanwhile, and what was
  // acknowledged from a volatile cache may be gone, as after a disk's own reset. Commands in the store run to their
  // end.
  void set_state(UnitState state, bool writes_lost = false);
  // The store's size has changed: new capacity, 06/2A/09 on every nexus.
  void capacity_changed(uint64_t size_bytes);
  // Anything about the store has changed (size, geometry, read-only; it came late): takes it over, and raises what
  // follows from it: 06/2A/09 when READ CAPACITY answers differently, 06/3F/03 when VPD B0h or B2h do, 06/2A/01 when
  // WP does. Does not touch the state: call it before set_state(ready).
  void store_changed();
  void set_sync(SyncMode sync);        // 06/2A/01 and 06/3F/03 (V_SUP) when WCE changes
  void set_read_only(bool read_only);  // 06/2A/01 where WP changes
  void set_limit(const RateLimit& limit) { limiter_.set(limit); }
  RateLimiter& limiter() { return limiter_; }

  // This unit is made of the same store as `old`, which it replaces: media commands here are held back until the old
  // one has been given up and its last nexus is gone with its commands. Call before this unit has a nexus.
  void wait_for_end_of(LogicalUnit& old);
  // No nexus will join any more.
  void give_up();

  // Orphans: writes of a session that is gone and that cannot be recalled. While there are any, a command of any
  // session that overlaps one is held in start() (phase pending), so that a stale write never lands after a newer one.
  // Called by the transport with the byte range; release exactly once per hold, on any thread.
  void hold_range(uint64_t offset, uint64_t length) { gate_.hold(offset, length); }
  void release_range(uint64_t offset, uint64_t length) { gate_.release(offset, length); }

  RangeGate& gate() { return gate_; }

 private:
  friend class LunNexus;  // joins and leaves
  LogicalUnit(UnitOptions options, std::shared_ptr<backing::BlockStore> store);
  void join(LunNexus* nexus);
  void leave(LunNexus* nexus);
  void release_successors();
  void raise_locked(UnitAttention what, const LunNexus* except = nullptr);
  void set_read_only_locked();
  void set_flushes_locked();
  void set_limits_locked(const backing::Geometry& geometry);

  static constexpr uint8_t kAfterWrite = 1, kOnDemand = 2;

  const UnitOptions options_;
  const std::shared_ptr<backing::BlockStore> store_;
  std::atomic<const UnitLimits*> limits_{nullptr};
  std::atomic<uint64_t> blocks_{0};
  std::atomic<UnitState> state_{UnitState::ready};
  std::atomic<SyncMode> sync_;
  std::atomic<uint8_t> flushes_{0};
  std::atomic<bool> read_only_{false};
  std::atomic<bool> descriptor_sense_{false};
  RateLimiter limiter_;
  RangeGate gate_;
  std::mutex mutex_;  // guards what follows, and every change of the atomics above
  bool read_only_wanted_;
  bool unflushed_before_always_ = false;  // writes were acknowledged without a flush before the mode became `always`
  std::vector<std::unique_ptr<const UnitLimits>> all_limits_;  // one of each kind that the store ever asked for
  std::vector<LunNexus*> nexuses_;
  bool given_up_ = false;
  std::vector<std::shared_ptr<LogicalUnit>> successors_;  // they wait for the last nexus to leave
};

}  // namespace zvolt::scsi
