// LunNexus: what belongs to one I_T nexus and one logical unit together: pending unit attentions and the read-only bit
// of the mapping. Owned by its ItNexus, and known to the unit from birth to death. Threading: unit attentions may be
// raised on any thread; everything else is used on the session's shard only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>

#include "scsi/logical_unit.h"

namespace zvolt::scsi {

class ItNexus;

class LunNexus {
 public:
  // A nexus is born with POWER ON OCCURRED pending (SAM-5 5.14); one that takes over a number of another unit, with
  // what tells the host to look at it anew.
  LunNexus(ItNexus& owner, std::shared_ptr<LogicalUnit> unit, bool read_only,
           std::initializer_list<UnitAttention> news = {attention::kPowerOn});
  ~LunNexus();
  LunNexus(const LunNexus&) = delete;
  LunNexus& operator=(const LunNexus&) = delete;

  ItNexus& owner() const { return owner_; }
  LogicalUnit& unit() const { return *unit_; }
  bool read_only() const { return read_only_ || unit_->read_only(); }
  bool mapped_read_only() const { return read_only_.load(std::memory_order_relaxed); }
  void set_mapped_read_only(bool read_only);  // 06/2A/01 when that changes WP

  // The transport's own, per nexus; the scsi layer never looks at it.
  void* transport = nullptr;

  // The number belongs to another unit now, or to none (ItNexus::replace_map): lives until its tasks are over.
  bool retired() const { return retired_; }

  // All that a READ or WRITE looks at: an attention is pending, or the unit is not ready.
  bool has_notice() const { return notices_.load(std::memory_order_relaxed) != 0; }
  bool attention_pending() const { return pending() != 0; }
  bool unit_ready() const { return (notices_.load(std::memory_order_relaxed) & kNotReady) == 0; }
  void set_unit_ready(bool ready);                // the unit's call
  void raise(UnitAttention what);                 // any thread; the same condition is kept once
  std::optional<UnitAttention> take_attention();  // the oldest
  void clear_attention(UnitAttention what);

 private:
  friend class ItNexus;  // retires it
  uint32_t pending() const { return notices_.load(std::memory_order_relaxed) & ~kNotReady; }

  ItNexus& owner_;
  std::shared_ptr<LogicalUnit> unit_;
  std::atomic<bool> read_only_;
  bool retired_ = false;
  uint32_t tasks_ = 0;  // retired: of its tasks, those that are not over

  // Distinct conditions that one nexus can have pending. There are fewer in the whole device; a full list drops the
  // newest.
  static constexpr size_t kMaxAttentions = 16;
  static constexpr uint32_t kNotReady = 0x8000'0000;
  std::atomic<uint32_t> notices_{0};  // number of attentions, and kNotReady
  std::mutex attention_mutex_;        // guards attentions_
  std::array<UnitAttention, kMaxAttentions> attentions_{};
};

}  // namespace zvolt::scsi
