// See lun_nexus.h.
#include "scsi/lun_nexus.h"

#include <algorithm>
#include <utility>

namespace zvolt::scsi {

LunNexus::LunNexus(ItNexus& owner, std::shared_ptr<LogicalUnit> unit, bool read_only,
                   std::initializer_list<UnitAttention> news)
    : owner_(owner), unit_(std::move(unit)), read_only_(read_only) {
  for (const UnitAttention& what : news) raise(what);
  unit_->join(this);
}

LunNexus::~LunNexus() {
  unit_->leave(this);
}

void LunNexus::set_mapped_read_only(bool read_only) {
  if (read_only_.exchange(read_only, std::memory_order_relaxed) == read_only || unit_->read_only()) return;
  raise(attention::kModeParametersChanged);
}

void LunNexus::set_unit_ready(bool ready) {
  if (ready) {
    notices_.fetch_and(~kNotReady, std::memory_order_relaxed);
  } else {
    notices_.fetch_or(kNotReady, std::memory_order_relaxed);
  }
}

void LunNexus::raise(UnitAttention what) {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = pending();
  const auto end = attentions_.begin() + count;
  if (count == kMaxAttentions || std::find(attentions_.begin(), end, what) != end) return;
  attentions_[count] = what;
  notices_.fetch_add(1, std::memory_order_relaxed);
}

std::optional<UnitAttention> LunNexus::take_attention() {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = pending();
  if (count == 0) return std::nullopt;
  const UnitAttention oldest = attentions_[0];
  std::copy(attentions_.begin() + 1, attentions_.begin() + count, attentions_.begin());
  notices_.fetch_sub(1, std::memory_order_relaxed);
  return oldest;
}

void LunNexus::clear_attention(UnitAttention what) {
  std::scoped_lock lock(attention_mutex_);
  const uint32_t count = pending();
  const auto end = attentions_.begin() + count;
  const auto kept = std::remove(attentions_.begin(), end, what);
  notices_.fetch_sub(static_cast<uint32_t>(end - kept), std::memory_order_relaxed);
}

}  // namespace zvolt::scsi
