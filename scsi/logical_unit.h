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
#include "scsi/task.h"

namespace zvolt::scsi {

enum class SyncMode : uint8_t { standard, always, disabled };  // the durability contract, design section 6

struct UnitOptions {
  std::string name;                  // volume name in the configuration
  std::array<uint8_t, 16> uuid{};    // serial, NAA and T10 designators derive from it alone
  uint32_t block_size = 512;         // 512 or 4096
  uint32_t physical_block_size = 0;  // bytes; 0: auto = the store's, clamped to 4096
  SyncMode sync = SyncMode::standard;
  bool read_only = false;
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
inline constexpr UnitAttention kCapacityChanged{0x2a, 0x09};
inline constexpr UnitAttention kReportedLunsChanged{0x3f, 0x0e};
}  // namespace attention

// What the unit promises of itself in VPD B0h, B2h and READ CAPACITY(16), and holds commands to. In logical blocks.
struct UnitLimits {
  uint32_t max_transfer = 0;  // READ, WRITE, VERIFY: longer ones are refused
  uint32_t optimal_transfer = 0;
  uint16_t transfer_granularity = 1;  // OPTIMAL TRANSFER LENGTH GRANULARITY: the store's physical block
  uint8_t physical_exponent = 0;      // LBPPBE
  bool unmap = false;                 // the store can discard: UNMAP, WRITE SAME with UNMAP, thin provisioning
  bool unmapped_reads_zero = false;   // LBPRZ
  uint32_t max_unmap_blocks = 0;      // of all descriptors of one UNMAP
  uint32_t max_unmap_descriptors = 0;
  uint32_t unmap_granularity = 0;
  uint32_t unmap_alignment = 0;
  uint32_t max_write_same = 0;
};

class LogicalUnit : public std::enable_shared_from_this<LogicalUnit> {
 public:
  // Fails (with the reason) when block_size does not fit the store: less than one block, not 512 or 4096.
  static Result<std::shared_ptr<LogicalUnit>> create(UnitOptions options, std::shared_ptr<backing::BlockStore> store);
  ~LogicalUnit();
  LogicalUnit(const LogicalUnit&) = delete;
  LogicalUnit& operator=(const LogicalUnit&) = delete;

  const UnitOptions& options() const { return options_; }
  const UnitLimits& limits() const { return limits_; }
  backing::BlockStore& store() const { return *store_; }
  uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  // For READ CAPACITY. A store that shrank to nothing still has to name some last block.
  uint64_t last_block() const { return std::max<uint64_t>(blocks(), 1) - 1; }
  uint32_t block_size() const { return options_.block_size; }
  bool read_only() const { return read_only_; }

  // The caching mode page's WCE, and whether an acknowledged write, a FUA or SYNCHRONIZE CACHE needs a flush of the
  // store.
  bool write_cache_enabled() const { return options_.sync != SyncMode::always; }
  bool flush_after_write() const { return options_.sync == SyncMode::always && store_volatile_; }
  bool flush_on_demand() const { return options_.sync == SyncMode::standard && store_volatile_; }
  // The control mode page's D_SENSE.
  bool descriptor_sense() const { return descriptor_sense_.load(std::memory_order_relaxed); }
  void set_descriptor_sense(bool on) { descriptor_sense_.store(on, std::memory_order_relaxed); }

  // Raise a unit attention on every nexus of this LUN but `except`. Any thread.
  void raise_unit_attention(UnitAttention what, const LunNexus* except = nullptr);
  // The store's size has changed: new capacity, 06/2A/09 on every nexus. Any thread.
  void capacity_changed(uint64_t size_bytes);

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

  UnitOptions options_;
  std::shared_ptr<backing::BlockStore> store_;
  UnitLimits limits_;
  bool read_only_ = false;
  bool store_volatile_ = false;
  std::atomic<bool> descriptor_sense_{false};
  std::atomic<uint64_t> blocks_;
  RangeGate gate_;
  std::mutex mutex_;  // guards nexuses_
  std::vector<LunNexus*> nexuses_;
};

}  // namespace zvolt::scsi
