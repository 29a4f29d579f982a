// See fault_store.h. Each request is an Op that goes from step to step on its shard; waiting is parking.
#include "backing/fault_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace zvolt::backing {

struct FaultStore::Op {
  Op(FaultStore& s, IoRequest& p, IoEngine& e) : store(s), parent(p), engine(e), length(p.length) {
    io.context = this;
    io.done = &FaultStore::on_event;
    io.engine = &e;
  }

  FaultStore& store;
  IoRequest& parent;
  IoEngine& engine;
  IoRequest io;  // what goes to the inner store; also what is parked
  Next next = nullptr;
  uint64_t length;  // bytes to transfer: less than the parent's for a short transfer
  int short_error = 0;
  std::vector<iovec> iov;     // of a short transfer
  uint64_t cuts = 0;          // power cuts when the flush began
  uint64_t change = 0;        // last change that the flush covers
  uint64_t at = 0;            // flush: the overlay below is done
  std::vector<uint8_t> data;  // flush: the extent on its way
  iovec piece{};
  std::vector<std::pair<uint64_t, Extent>> newer;  // read: what the overlay had for it when it began
};

namespace {

bool is_change(IoKind kind) {
  return kind == IoKind::write || kind == IoKind::write_zeroes || kind == IoKind::discard;
}

bool is_transfer(IoKind kind) {
  return kind == IoKind::read || kind == IoKind::write;
}

bool matches(const FaultRule& rule, const IoRequest& request) {
  if (!rule.any_kind && rule.kind != request.kind) return false;
  if (request.kind == IoKind::flush) return true;
  return request.offset < rule.end && rule.begin < request.offset + request.length;
}

// The first `length` bytes of the request's memory.
std::vector<iovec> first_part(const IoRequest& request, uint64_t length) {
  std::vector<iovec> parts;
  for (uint32_t i = 0; i < request.iov_count && length > 0; ++i) {
    const size_t take = std::min<uint64_t>(length, request.iov[i].iov_len);
    parts.push_back({request.iov[i].iov_base, take});
    length -= take;
  }
  return parts;
}

std::vector<uint8_t> bytes_of(const IoRequest& request, uint64_t length) {
  std::vector<uint8_t> bytes;
  bytes.reserve(length);
  for (const iovec& part : first_part(request, length)) {
    const auto* from = static_cast<const uint8_t*>(part.iov_base);
    bytes.insert(bytes.end(), from, from + part.iov_len);
  }
  return bytes;
}

// Copies `length` bytes (zeros when `data` is null) to store offset `at` in the memory of a read.
void copy_into(const IoRequest& read, uint64_t at, const uint8_t* data, uint64_t length) {
  uint64_t part_begin = read.offset;
  for (uint32_t i = 0; i < read.iov_count; ++i) {
    const uint64_t part_end = part_begin + read.iov[i].iov_len;
    const uint64_t from = std::max(at, part_begin);
    const uint64_t to = std::min(at + length, part_end);
    if (from < to) {
      uint8_t* target = static_cast<uint8_t*>(read.iov[i].iov_base) + (from - part_begin);
      if (data == nullptr) {
        memset(target, 0, to - from);
      } else {
        memcpy(target, data + (from - at), to - from);
      }
    }
    part_begin = part_end;
  }
}

}  // namespace

FaultStore::FaultStore(std::shared_ptr<BlockStore> inner, std::vector<FaultRule> rules)
    : inner_(std::move(inner)), description_("faulty " + inner_->describe()) {
  set_rules(std::move(rules));
  inner_->on_resize([this](uint64_t size) { notify_resize(size); });
}

FaultStore::~FaultStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  timer_wake_.notify_all();
  if (timer_thread_.joinable()) timer_thread_.join();
}

Submitted FaultStore::submit(IoRequest& request, IoEngine& engine) {
  request.error = 0;
  request.error_offset = request.offset;
  const uint64_t size = size_bytes();
  if (request.kind != IoKind::flush && (request.length > size || request.offset > size - request.length)) {
    request.error = EINVAL;
    return Submitted::done;
  }
  auto op = std::make_unique<Op>(*this, request, engine);
  if (apply_rule(*op) == Submitted::done) return Submitted::done;
  op.release();  // deleted by on_event()
  return Submitted::pending;
}

void FaultStore::on_event(IoRequest& io) noexcept {
  Op& op = *static_cast<Op*>(io.context);
  if ((op.store.*op.next)(op) == Submitted::pending) return;
  IoRequest& parent = op.parent;
  delete &op;
  parent.done(parent);
}

const FaultRule* FaultStore::match_locked(const IoRequest& request) {
  for (Counted& counted : rules_) {
    if (!matches(counted.rule, request)) continue;
    const uint64_t number = counted.seen++;
    if (number < counted.rule.skip || number - counted.rule.skip >= counted.rule.count) continue;
    ++bites_;
    return &counted.rule;
  }
  return nullptr;
}

Submitted FaultStore::apply_rule(Op& op) {
  std::unique_lock lock(mutex_);
  const FaultRule* rule = match_locked(op.parent);
  op.next = &FaultStore::perform;
  if (rule == nullptr) {
    lock.unlock();
    return perform(op);
  }
  if (rule->fault == Fault::stall || rule->fault == Fault::delay) {
    op.engine.park(op.io);
    if (rule->fault == Fault::stall) {
      stalled_.push_back(&op);
    } else {
      start_later_locked(op, rule->delay);
    }
    return Submitted::pending;
  }
  op.parent.error = rule->error;
  if (rule->fault == Fault::error || !is_transfer(op.parent.kind) || rule->bytes == 0) return Submitted::done;
  op.short_error = std::exchange(op.parent.error, 0) == 0 ? EIO : rule->error;
  op.length = std::min(op.parent.length, rule->bytes);
  lock.unlock();
  return perform(op);
}

Submitted FaultStore::perform(Op& op) {
  const IoKind kind = op.parent.kind;
  std::unique_lock lock(mutex_);
  if (keep_ && is_change(kind) && !op.parent.fua) {
    if (geometry().read_only) {
      op.parent.error = EROFS;
      return Submitted::done;
    }
    keep_locked(op);
    lock.unlock();
    return after_transfer(op);
  }
  op.cuts = cuts_;
  op.change = changes_;
  const bool overlay = keep_;
  if (kind == IoKind::read) note_overlay_locked(op);
  lock.unlock();
  if (kind == IoKind::flush && overlay) return flush_next(op);
  return issue(op, kind, op.parent.offset, op.length, &FaultStore::after_transfer);
}

// Submits to the inner store; the memory is the parent's unless op.piece is set.
Submitted FaultStore::issue(Op& op, IoKind kind, uint64_t offset, uint64_t length, Next next) {
  op.next = next;
  op.io.kind = kind;
  op.io.fua = op.parent.fua && is_change(kind);
  op.io.spare_holes = op.parent.spare_holes;
  op.io.cancel = op.parent.cancel;
  op.io.offset = offset;
  op.io.length = length;
  if (op.piece.iov_base != nullptr) {
    op.io.iov = &op.piece;
    op.io.iov_count = 1;
  } else if (is_transfer(kind)) {
    op.iov = first_part(op.parent, length);
    op.io.iov = op.iov.data();
    op.io.iov_count = static_cast<uint32_t>(op.iov.size());
  }
  if (inner_->submit(op.io, op.engine) == Submitted::pending) return Submitted::pending;
  return (this->*next)(op);
}

Submitted FaultStore::after_transfer(Op& op) {
  IoRequest& parent = op.parent;
  parent.error = op.io.error;
  parent.error_offset = op.io.error != 0 ? op.io.error_offset : parent.offset;
  parent.mapped = op.io.mapped;
  parent.extent_length = op.io.extent_length;
  const std::lock_guard lock(mutex_);
  for (const auto& [at, extent] : op.newer) {
    copy_into(parent, at, extent.data.empty() ? nullptr : extent.data.data(), extent.length);
  }
  // Written through with FUA: what the overlay had there is older.
  if (parent.error == 0 && is_change(parent.kind) && parent.fua) {
    erase_locked(parent.offset, parent.offset + op.length, op.change);
  }
  if (parent.kind == IoKind::allocation_status && !overlay_.empty()) parent.mapped = true;
  if (parent.error == 0 && op.short_error != 0) {
    parent.error = op.short_error;
    parent.error_offset = parent.offset + op.length;
  }
  return Submitted::done;
}

void FaultStore::keep_locked(const Op& op) {
  const uint64_t begin = op.parent.offset;
  if (op.length == 0) return;
  if (op.parent.kind == IoKind::discard && !geometry().discard_zeroes) return;  // promises nothing
  const uint64_t change = ++changes_;
  erase_locked(begin, begin + op.length, change);
  Extent extent{op.length, change, {}};
  if (op.parent.kind == IoKind::write) extent.data = bytes_of(op.parent, op.length);
  overlay_.emplace(begin, std::move(extent));
}

// Removes [begin, end) of changes up to `up_to_change`; what sticks out on either side stays.
void FaultStore::erase_locked(uint64_t begin, uint64_t end, uint64_t up_to_change) {
  const auto slice = [](const Extent& whole, uint64_t from, uint64_t length) {
    Extent part{length, whole.change, {}};
    if (!whole.data.empty()) {
      const auto first = whole.data.begin() + static_cast<ptrdiff_t>(from);
      part.data.assign(first, first + static_cast<ptrdiff_t>(length));
    }
    return part;
  };
  auto it = overlay_.lower_bound(begin);
  if (it != overlay_.begin() && std::prev(it)->first + std::prev(it)->second.length > begin) --it;
  while (it != overlay_.end() && it->first < end) {
    const uint64_t at = it->first;
    const uint64_t stop = at + it->second.length;
    if (it->second.change > up_to_change) {
      ++it;
      continue;
    }
    const Extent whole = std::move(it->second);
    it = overlay_.erase(it);
    if (at < begin) overlay_.emplace(at, slice(whole, 0, begin - at));
    if (stop > end) it = overlay_.emplace(end, slice(whole, end - at, stop - end)).first;
  }
}

// Taken before the inner read: a flush meanwhile moves extents to the inner store, past what was read there.
void FaultStore::note_overlay_locked(Op& op) const {
  auto it = overlay_.upper_bound(op.parent.offset);
  if (it != overlay_.begin()) --it;
  for (; it != overlay_.end() && it->first < op.parent.offset + op.parent.length; ++it) op.newer.push_back(*it);
}

// The next extent that the flush covers, from op.at on, into op.piece. False when there is none left.
bool FaultStore::take_extent(Op& op) {
  const std::lock_guard lock(mutex_);
  auto it = overlay_.lower_bound(op.at);
  while (it != overlay_.end() && it->second.change > op.change) ++it;
  if (it == overlay_.end()) return false;
  op.at = it->first + it->second.length;
  op.data = it->second.data;
  if (op.data.empty()) op.data.assign(it->second.length, 0);
  op.io.offset = it->first;
  op.piece = {op.data.data(), op.data.size()};
  return true;
}

// Writes the overlay to the inner store, one extent after the other, then flushes that.
Submitted FaultStore::flush_next(Op& op) {
  while (op.io.error == 0 && take_extent(op)) {
    op.next = &FaultStore::flush_next;
    op.io.kind = IoKind::write;
    op.io.length = op.data.size();
    op.io.iov = &op.piece;
    op.io.iov_count = 1;
    if (inner_->submit(op.io, op.engine) == Submitted::pending) return Submitted::pending;
  }
  op.piece = {};
  if (op.io.error != 0) return after_flush(op);
  return issue(op, IoKind::flush, 0, 0, &FaultStore::after_flush);
}

Submitted FaultStore::after_flush(Op& op) {
  op.parent.error = op.io.error;
  const std::lock_guard lock(mutex_);
  if (cuts_ != op.cuts) op.parent.error = EIO;  // the power went meanwhile: what got through is anybody's guess
  if (op.parent.error == 0) erase_locked(0, FaultRule::kAlways, op.change);
  return Submitted::done;
}

void FaultStore::start_later_locked(Op& op, std::chrono::microseconds delay) {
  timers_.emplace(std::chrono::steady_clock::now() + delay, &op);
  if (!timer_thread_.joinable()) timer_thread_ = std::thread([this] { run_timers(); });
  timer_wake_.notify_all();
}

void FaultStore::run_timers() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      timer_wake_.wait(lock);
      continue;
    }
    const auto first = timers_.begin();
    if (first->first > std::chrono::steady_clock::now()) {
      timer_wake_.wait_until(lock, first->first);
      continue;
    }
    Op* op = first->second;
    timers_.erase(first);
    op->engine.finish_from_any_thread(op->io);
  }
}

void FaultStore::set_rules(std::vector<FaultRule> rules) {
  const std::lock_guard lock(mutex_);
  rules_.clear();
  for (FaultRule& rule : rules) rules_.push_back({rule});
}

void FaultStore::release() {
  const std::lock_guard lock(mutex_);
  for (Op* op : stalled_) op->engine.finish_from_any_thread(op->io);
  stalled_.clear();
}

size_t FaultStore::stalled() const {
  const std::lock_guard lock(mutex_);
  return stalled_.size();
}

uint64_t FaultStore::bites() const {
  const std::lock_guard lock(mutex_);
  return bites_;
}

void FaultStore::keep_unflushed(bool on) {
  const std::lock_guard lock(mutex_);
  keep_ = on;
}

void FaultStore::cut() {
  const std::lock_guard lock(mutex_);
  overlay_.clear();
  ++cuts_;
}

uint64_t FaultStore::unflushed_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [offset, extent] : overlay_) bytes += extent.length;
  return bytes;
}

Result<std::shared_ptr<FaultStore>> make_faulty(std::shared_ptr<BlockStore> inner, std::vector<FaultRule> rules) {
  if (inner == nullptr) return Error{EINVAL, "a faulty store needs a store to wrap"};
  return std::make_shared<FaultStore>(std::move(inner), std::move(rules));
}

}  // namespace zvolt::backing
