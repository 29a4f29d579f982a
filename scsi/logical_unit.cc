// See logical_unit.h.
#include "scsi/logical_unit.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "scsi/lun_nexus.h"

namespace zvolt::scsi {

const char* state_name(UnitState state) {
  switch (state) {
    case UnitState::ready:
      return "ready";
    case UnitState::becoming_ready:
      return "becoming ready";
    case UnitState::offline:
      return "offline";
    case UnitState::failed_for_good:
      return "failed";
    case UnitState::removed:
      return "removed";
  }
  return "?";
}

SenseCode state_sense(UnitState state) {
  switch (state) {
    case UnitState::ready:
      return sense::kNone;
    case UnitState::becoming_ready:
    case UnitState::offline:
      return sense::kBecomingReady;
    case UnitState::failed_for_good:
      return sense::kUnitFailure;
    case UnitState::removed:
      return sense::kUnitNotSupported;
  }
  return sense::kNone;
}

Result<std::shared_ptr<LogicalUnit>> LogicalUnit::create(UnitOptions options,
                                                         std::shared_ptr<backing::BlockStore> store) {
  const std::string what = "volume " + options.name + " on " + store->describe();
  if (options.block_size != 512 && options.block_size != 4096) {
    return Error{0, what + ": block_size is " + std::to_string(options.block_size) + ", it must be 512 or 4096"};
  }
  if (options.physical_block_size != 0 && options.physical_block_size != UnitOptions::kPhysicalOfStore &&
      !std::has_single_bit(options.physical_block_size)) {
    return Error{0,
                 what + ": physical_block_size " + std::to_string(options.physical_block_size) + " is no power of two"};
  }
  if (store->size_bytes() < options.block_size && !options.may_be_late) {
    return Error{0, what + ": it has " + std::to_string(store->size_bytes()) + " bytes, less than one block of " +
                        std::to_string(options.block_size)};
  }
  return std::shared_ptr<LogicalUnit>(new LogicalUnit(std::move(options), std::move(store)));
}

LogicalUnit::LogicalUnit(UnitOptions options, std::shared_ptr<backing::BlockStore> store)
    : options_(std::move(options)),
      store_(std::move(store)),
      blocks_(store_->size_bytes() / options_.block_size),
      sync_(options_.sync),
      read_only_wanted_(options_.read_only) {
  if (options_.may_be_late && blocks() == 0) state_ = UnitState::becoming_ready;
  limiter_.set(options_.limit);
  const std::scoped_lock lock(mutex_);
  set_limits_locked(store_->geometry());
  set_read_only_locked();
  set_flushes_locked();
}

LogicalUnit::~LogicalUnit() = default;

void LogicalUnit::raise_locked(UnitAttention what, const LunNexus* except) {
  for (LunNexus* nexus : nexuses_) {
    if (nexus != except) nexus->raise(what);
  }
}

void LogicalUnit::raise_unit_attention(UnitAttention what, const LunNexus* except) {
  const std::scoped_lock lock(mutex_);
  raise_locked(what, except);
}

void LogicalUnit::set_state(UnitState state, bool writes_lost) {
  const std::scoped_lock lock(mutex_);
  const UnitState before = state_.exchange(state, std::memory_order_relaxed);
  // Attention first: a command that sees the unit ready again must see it too.
  if (before != UnitState::ready && state == UnitState::ready)
    raise_locked(writes_lost ? attention::kInternalReset : attention::kMediumMayHaveChanged);
  for (LunNexus* nexus : nexuses_) nexus->set_unit_ready(state == UnitState::ready);
}

void LogicalUnit::capacity_changed(uint64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  const uint64_t blocks = size_bytes / options_.block_size;
  if (blocks_.exchange(blocks, std::memory_order_relaxed) != blocks) raise_locked(attention::kCapacityChanged);
}

void LogicalUnit::store_changed() {
  const std::scoped_lock lock(mutex_);
  const backing::Geometry geometry = store_->geometry();
  const uint64_t blocks = store_->size_bytes() / options_.block_size;
  const UnitLimits before = limits();
  set_limits_locked(geometry);
  const UnitLimits& after = limits();
  bool capacity = blocks_.exchange(blocks, std::memory_order_relaxed) != blocks;
  capacity = capacity || before.physical_exponent != after.physical_exponent || before.unmap != after.unmap ||
             before.unmapped_reads_zero != after.unmapped_reads_zero;
  set_flushes_locked();
  if (capacity) raise_locked(attention::kCapacityChanged);
  if (before != after) raise_locked(attention::kInquiryDataChanged);
  set_read_only_locked();
}

void LogicalUnit::set_sync(SyncMode sync) {
  const std::scoped_lock lock(mutex_);
  const SyncMode before = sync_.exchange(sync, std::memory_order_relaxed);
  if (before == sync) return;
  // Writes that were acknowledged before, or are on their way past the old mode, still need a flush when one is asked
  // for, though a unit that was always `always` has none to do.
  unflushed_before_always_ = true;
  set_flushes_locked();
  if ((before == SyncMode::always) == (sync == SyncMode::always)) return;
  raise_locked(attention::kModeParametersChanged);
  raise_locked(attention::kInquiryDataChanged);
}

void LogicalUnit::set_read_only(bool read_only) {
  const std::scoped_lock lock(mutex_);
  read_only_wanted_ = read_only;
  set_read_only_locked();
}

// WP is news only to those whose mapping does not set it anyhow.
void LogicalUnit::set_read_only_locked() {
  const bool now = read_only_wanted_ || store_->geometry().read_only;
  if (read_only_.exchange(now, std::memory_order_relaxed) == now) return;
  for (LunNexus* nexus : nexuses_)
    if (!nexus->mapped_read_only()) nexus->raise(attention::kModeParametersChanged);
}

void LogicalUnit::set_flushes_locked() {
  const backing::Geometry geometry = store_->geometry();
  const SyncMode mode = sync();
  uint8_t flushes = 0;
  if (geometry.volatile_cache && !geometry.read_only) {
    if (mode == SyncMode::always) flushes = kAfterWrite;
    if (mode == SyncMode::standard || (mode == SyncMode::always && unflushed_before_always_)) flushes |= kOnDemand;
  }
  flushes_.store(flushes, std::memory_order_relaxed);
}

// A snapshot may be read by a command for as long as the unit lives, so none is ever freed; a store that goes back and
// forth gets the old ones again.
void LogicalUnit::set_limits_locked(const backing::Geometry& geometry) {
  const UnitLimits wanted = make_limits(options_, geometry);
  auto known = std::find_if(all_limits_.begin(), all_limits_.end(), [&](const auto& it) { return *it == wanted; });
  if (known == all_limits_.end()) known = all_limits_.insert(known, std::make_unique<const UnitLimits>(wanted));
  limits_.store(known->get(), std::memory_order_release);
}

void LogicalUnit::wait_for_end_of(LogicalUnit& old) {
  hold_range(0, UINT64_MAX);
  const std::scoped_lock lock(old.mutex_);
  old.successors_.push_back(shared_from_this());
}

void LogicalUnit::give_up() {
  {
    const std::scoped_lock lock(mutex_);
    given_up_ = true;
  }
  release_successors();
}

void LogicalUnit::release_successors() {
  std::vector<std::shared_ptr<LogicalUnit>> released;
  {
    const std::scoped_lock lock(mutex_);
    if (given_up_ && nexuses_.empty()) released.swap(successors_);
  }
  for (const auto& successor : released) successor->release_range(0, UINT64_MAX);
}

void LogicalUnit::join(LunNexus* nexus) {
  const std::scoped_lock lock(mutex_);
  nexuses_.push_back(nexus);
  given_up_ = false;
  nexus->set_unit_ready(state() == UnitState::ready);
}

void LogicalUnit::leave(LunNexus* nexus) {
  {
    const std::scoped_lock lock(mutex_);
    std::erase(nexuses_, nexus);
  }
  release_successors();
}

}  // namespace zvolt::scsi
