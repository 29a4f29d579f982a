// See lun_nexus.h.
#include "scsi/lun_nexus.h"

#include <algorithm>
#include <utility>

namespace zvolt::scsi {

LunNexus::LunNexus(ItNexus& owner, std::shared_ptr<LogicalUnit> unit, bool read_only)
    : owner_(owner), unit_(std::move(unit)), read_only_(read_only || unit_->read_only()) {
  raise(attention::kPowerOn);
  unit_->join(this);
}

LunNexus::~LunNexus() {
  unit_->leave(this);
}

void LunNexus::raise(UnitAttention what) {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = attention_count_.load(std::memory_order_relaxed);
  const auto end = attentions_.begin() + count;
  if (count == kMaxAttentions || std::find(attentions_.begin(), end, what) != end) return;
  attentions_[count] = what;
  attention_count_.store(count + 1, std::memory_order_relaxed);
}

std::optional<UnitAttention> LunNexus::take_attention() {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = attention_count_.load(std::memory_order_relaxed);
  if (count == 0) return std::nullopt;
  const UnitAttention oldest = attentions_[0];
  std::copy(attentions_.begin() + 1, attentions_.begin() + count, attentions_.begin());
  attention_count_.store(count - 1, std::memory_order_relaxed);
  return oldest;
}

void LunNexus::clear_attention(UnitAttention what) {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = attention_count_.load(std::memory_order_relaxed);
  const auto end = attentions_.begin() + count;
  const auto kept = std::remove(attentions_.begin(), end, what);
  attention_count_.store(static_cast<uint32_t>(kept - attentions_.begin()), std::memory_order_relaxed);
}

}  // namespace zvolt::scsi
