// LunNexus: what belongs to one I_T nexus and one logical unit together: pending unit attentions and the read-only bit
// of the mapping. Owned by its ItNexus, and known to the unit from birth to death. Threading: unit attentions may be
// raised on any thread; everything else is used on the session's shard only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "scsi/logical_unit.h"

namespace zvolt::scsi {

class ItNexus;

class LunNexus {
 public:
  // A nexus is born with POWER ON OCCURRED pending (SAM-5 5.14).
  LunNexus(ItNexus& owner, std::shared_ptr<LogicalUnit> unit, bool read_only);
  ~LunNexus();
  LunNexus(const LunNexus&) = delete;
  LunNexus& operator=(const LunNexus&) = delete;

  ItNexus& owner() const { return owner_; }
  LogicalUnit& unit() const { return *unit_; }
  bool read_only() const { return read_only_; }

  bool attention_pending() const { return attention_count_.load(std::memory_order_relaxed) != 0; }
  void raise(UnitAttention what);                 // any thread; the same condition is kept once
  std::optional<UnitAttention> take_attention();  // the oldest
  void clear_attention(UnitAttention what);

 private:
  ItNexus& owner_;
  std::shared_ptr<LogicalUnit> unit_;
  bool read_only_;

  // Distinct conditions that one nexus can have pending. There are fewer in the whole device; a full list drops the
  // newest.
  static constexpr size_t kMaxAttentions = 16;
  std::atomic<uint32_t> attention_count_{0};
  std::mutex attention_mutex_;  // guards attentions_
  std::array<UnitAttention, kMaxAttentions> attentions_{};
};

}  // namespace zvolt::scsi
