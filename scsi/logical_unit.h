// LogicalUnit: a disk as SCSI sees it (SAM-5 4.6.4, SBC-4): a BlockStore, an identity, caching and block size rules.
// Built by the daemon from the configuration, shared by all nexuses on all shards.
// Threading: what the READ/WRITE path reads are atomics (relaxed); everything else is changed under mutex_.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "scsi/task.h"

namespace zvolt::scsi {

enum class SyncMode : uint8_t { standard, always, disabled };  // the durability contract, design section 6

struct UnitOptions {
  std::string name;                           // volume name in the configuration
  std::array<uint8_t, 16> uuid{};             // serial, NAA and T10 designators derive from it alone
  uint32_t block_size = 512;                  // 512 or 4096
  uint32_t physical_block_size = 0;           // bytes; 0: auto = the store's, clamped to 4096
  SyncMode sync = SyncMode::standard;
  bool read_only = false;
  std::string vendor = "ZVOLT";               // 8 characters
  std::string product = "VIRTUAL-DISK";       // 16 characters; the same for all LUNs (ESXi refuses XCOPY otherwise)
  std::string revision = "0001";              // 4 characters
};

// Unit attention conditions, SAM-5 5.14: ASC/ASCQ.
struct UnitAttention {
  uint8_t asc = 0;
  uint8_t ascq = 0;
};

class LogicalUnit {
 public:
  // Fails (with the reason) when block_size does not fit the store: less than one block, not 512 or 4096.
  static Result<std::shared_ptr<LogicalUnit>> create(UnitOptions options, std::shared_ptr<backing::BlockStore> store);
  ~LogicalUnit();

  const UnitOptions& options() const { return options_; }
  backing::BlockStore& store() const { return *store_; }
  uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  uint32_t block_size() const { return options_.block_size; }

  // Raise a unit attention on every nexus of this LUN but `except`. Any thread.
  void raise_unit_attention(UnitAttention what, const LunNexus* except = nullptr);
  // The store's size has changed: new capacity, 06/2A/09 on every nexus. Any thread.
  void capacity_changed(uint64_t size_bytes);

  // Orphans: writes of a session that is gone and that cannot be recalled. While there are any, a command of any session
  // that overlaps one is held in start() (phase pending), so that a stale write never lands after a newer one.
  // Called by the transport with the byte range; release exactly once per hold, on any thread.
  void hold_range(uint64_t offset, uint64_t length);
  void release_range(uint64_t offset, uint64_t length);

 private:
  friend class ItNexus;
  friend class LunNexus;
  LogicalUnit(UnitOptions options, std::shared_ptr<backing::BlockStore> store);
  struct State;

  UnitOptions options_;
  std::shared_ptr<backing::BlockStore> store_;
  std::atomic<uint64_t> blocks_;
  std::unique_ptr<State> state_;
};

}  // namespace zvolt::scsi
