// See fd_store.h.
#include "backing/fd_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/ordered_op.h"
#include "backing/transfer.h"

namespace zvolt::backing {

namespace {

constexpr uint64_t kZeroPiece = uint64_t{1} << 20;  // bytes written at a time where zeros must be written
// A discard or zeroing that runs cannot be stopped, and the worker is not free for others before its end: on a zvol
// under load a piece of this size takes about a tenth of a second.
constexpr uint64_t kRangePiece = uint64_t{32} << 20;  // bytes
// Read at a time to see whether there is data. Rewriting what holds data allocates nothing for good, so no finer than
// a block of the device, but bounded: blocks of 16 MiB exist.
constexpr uint64_t kLeastLook = uint64_t{4} << 10;  // bytes
constexpr uint64_t kMostLook = uint64_t{1} << 20;   // bytes

Submitted ended(IoRequest& request, int error) {
  request.error = error;
  return Submitted::done;
}

bool all_zero(const uint8_t* data, size_t length) {
  return length == 0 || (data[0] == 0 && memcmp(data, data + 1, length - 1) == 0);
}

// Only whole granules may change.
void shrink_to_granules(IoRequest& request, const Geometry& geometry) {
  const uint64_t unit = std::max(geometry.discard_granularity, geometry.io_alignment);
  const uint64_t shift = geometry.discard_alignment % unit;
  const uint64_t end = request.offset + request.length;
  const uint64_t first = request.offset <= shift ? shift : round_up(request.offset - shift, unit) + shift;
  const uint64_t last = end <= shift ? shift : round_down(end - shift, unit) + shift;
  request.scratch[0] = first;
  request.scratch[1] = last > first ? last - first : 0;
}

}  // namespace

FdStore::FdStore(FdSetup setup)
    : setup_(std::move(setup)),
      size_(setup_.size),
      read_only_(setup_.geometry.read_only),
      ever_writable_(!setup_.geometry.read_only),
      tally_(setup_.tally != nullptr ? setup_.tally : std::make_shared<StoreTally>()),
      flushes_(setup_.flush_error) {}

FdStore::~FdStore() {
  if (setup_.owns_fd && setup_.fd >= 0) close(setup_.fd);
}

void FdStore::set_read_only(bool read_only) {
  if (!read_only) ever_writable_.store(true, std::memory_order_relaxed);
  read_only_.store(read_only, std::memory_order_relaxed);
}

void FdStore::end(IoRequest& request) const {
  request.step = nullptr;
  (setup_.end != nullptr ? setup_.end : request.done)(request);
}

Submitted FdStore::submit(IoRequest& request, IoEngine& engine) {
  request.error = 0;
  request.error_offset = request.offset;
  request.owner = this;
  if (request.kind == IoKind::flush) return flush(request, engine);
  const uint64_t size = size_bytes();
  if (request.length > size || request.offset > size - request.length) return ended(request, EINVAL);
  if (request.length == 0) return Submitted::done;
  if (request.kind == IoKind::read) return read(request, engine);
  if (request.kind == IoKind::write) return write(request, engine);
  return change(request, engine);
}

bool FdStore::range_aligned(const IoRequest& request) const {
  return ((request.offset | request.length) & (setup_.geometry.io_alignment - 1)) == 0;
}

bool FdStore::memory_aligned(const IoRequest& request) const {
  const uintptr_t address_mask = setup_.geometry.memory_alignment - 1;
  const uintptr_t length_mask = setup_.geometry.io_alignment - 1;
  uintptr_t wrong = 0;
  for (uint32_t i = 0; i < request.iov_count; ++i) {
    wrong |= reinterpret_cast<uintptr_t>(request.iov[i].iov_base) & address_mask;
    wrong |= request.iov[i].iov_len & length_mask;
  }
  return wrong == 0;
}

bool FdStore::read_in_cache(IoRequest& request) {
  if (!nowait_works_.load(std::memory_order_relaxed)) return false;
  request.progress = 0;
  const ssize_t moved = transfer_once(request, setup_.fd, RWF_NOWAIT);
  if (moved == -EOPNOTSUPP) nowait_works_.store(false, std::memory_order_relaxed);
  return moved >= 0 && static_cast<uint64_t>(moved) == request.length;
}

Submitted FdStore::read(IoRequest& request, IoEngine& engine) {
  if (setup_.reads == Way::in_place) {
    transfer_all(request, setup_.fd);
    return Submitted::done;
  }
  if (setup_.reads == Way::try_nowait && read_in_cache(request)) return Submitted::done;
  if (!range_aligned(request) || !memory_aligned(request)) {
    return OrderedOp::start(*this, request, engine, range_aligned(request), true);
  }
  request.step = setup_.end;
  engine.queue(request, setup_.fd);
  return Submitted::pending;
}

Submitted FdStore::write(IoRequest& request, IoEngine& engine) {
  if (read_only()) return ended(request, EROFS);
  if (((request.offset | request.length) & (setup_.geometry.physical_block - 1)) != 0) {
    tally_->add(engine, StoreTally::kPartialWrites);
  }
  if (setup_.writes == Way::in_place) {
    transfer_all(request, setup_.fd);
    return fua_or_done(request, engine);
  }
  if (setup_.geometry.io_alignment > 1) {
    const bool aligned = range_aligned(request);
    const bool bounce = !aligned || !memory_aligned(request);
    if (bounce || !gate_.enter(engine)) return OrderedOp::start(*this, request, engine, aligned, bounce);
    request.step = &FdStore::on_write;
  } else if (request.fua) {
    request.step = &FdStore::on_change;
  }
  engine.queue(request, setup_.fd);
  return Submitted::pending;
}

void FdStore::on_write(IoRequest& request) noexcept {
  FdStore& store = *static_cast<FdStore*>(request.owner);
  if (request.merged) store.tally_->add(*request.engine, StoreTally::kMergedWrites);
  store.gate_.leave(*request.engine);
  store.complete_change(request, *request.engine);
}

void FdStore::on_change(IoRequest& request) noexcept {
  static_cast<FdStore*>(request.owner)->complete_change(request, *request.engine);
}

void FdStore::complete_change(IoRequest& request, IoEngine& engine) {
  request.step = nullptr;
  if (fua_or_done(request, engine) == Submitted::done) end(request);
}

Submitted FdStore::fua_or_done(IoRequest& request, IoEngine& engine) {
  if (request.error != 0 || !request.fua) return Submitted::done;
  return flush(request, engine);
}

Submitted FdStore::flush(IoRequest& request, IoEngine& engine) {
  const bool free =
      !setup_.sync_needed || !setup_.geometry.volatile_cache || !ever_writable_.load(std::memory_order_relaxed);
  if (free) return Submitted::done;
  request.step = setup_.end;
  const Submitted submitted = flushes_.submit(request, engine, setup_.fd);
  if (submitted == Submitted::done) request.step = nullptr;
  return submitted;
}

// The request is a write_zeroes, discard or allocation_status. True when it has its answer already.
bool FdStore::refused(IoRequest& request) const {
  if (read_only()) request.error = EROFS;
  if (request.kind == IoKind::discard && request.error == 0) {
    if (setup_.geometry.discard_granularity == 0) {
      request.error = EOPNOTSUPP;
    } else {
      shrink_to_granules(request, setup_.geometry);
      return request.scratch[1] == 0;
    }
  }
  return request.error != 0;
}

Submitted FdStore::change(IoRequest& request, IoEngine& engine) {
  if (request.kind == IoKind::allocation_status) {
    request.step = setup_.end;
    engine.offload(request, &FdStore::status_on_worker);
    return Submitted::pending;
  }
  if (refused(request)) return Submitted::done;
  if (setup_.geometry.io_alignment > 1) {
    const bool aligned = request.kind == IoKind::discard || range_aligned(request);
    return OrderedOp::start(*this, request, engine, aligned, false);
  }
  plan_change(request);
  request.step = &FdStore::on_change;
  engine.offload(request, &FdStore::change_on_worker);
  return Submitted::pending;
}

// What is left is kept in scratch: where, and how many bytes. Discards have it from shrink_to_granules().
void FdStore::plan_change(IoRequest& request) {
  if (request.kind == IoKind::discard) return;
  request.scratch[0] = request.offset;
  request.scratch[1] = request.length;
}

// One piece; the worker pool calls again after others had their turn.
void FdStore::change_on_worker(IoRequest& request) {
  const bool cancelled = request.cancel != nullptr && request.cancel->load(std::memory_order_relaxed);
  request.error = cancelled ? ECANCELED : static_cast<FdStore*>(request.owner)->change_piece(request);
  request.again = request.error == 0 && request.scratch[1] > 0;
}

int FdStore::change_piece(IoRequest& request) {
  const bool discard = request.kind == IoKind::discard;
  const uint64_t offset = request.scratch[0];
  // Cut where no cut makes a part of a block or granule: discards begin on a granule, zeroes anywhere.
  const uint64_t unit = std::max<uint64_t>(setup_.geometry.discard_granularity, setup_.geometry.io_alignment);
  const uint64_t most = discard ? round_up(kRangePiece, unit) : round_down(offset + kRangePiece, kRangePiece) - offset;
  const uint64_t length = std::min(most, request.scratch[1]);
  request.scratch[0] += length;
  request.scratch[1] -= length;
  if (discard) return discard_granules(offset, length);
  return request.spare_holes ? zero_where_data(offset, length) : zero_any(offset, length);
}

void FdStore::status_on_worker(IoRequest& request) {
  auto& store = *static_cast<FdStore*>(request.owner);
  request.error = store.extent_at(request.offset, request.length, request.mapped, request.extent_length);
}

// Edges that are parts of an io_alignment block are read, zeroed and written; the operation has their range alone.
int FdStore::zero_any(uint64_t offset, uint64_t length) {
  const uint64_t unit = setup_.geometry.io_alignment;
  const uint64_t end = offset + length;
  const uint64_t first = round_up(offset, unit);
  const uint64_t last = round_down(end, unit);
  if (first > last) return zero_part_of_block(last, offset, end);
  int error = 0;
  if (offset < first) error = zero_part_of_block(first - unit, offset, first);
  if (error == 0 && first < last) error = zero_aligned(first, last - first);
  if (error == 0 && last < end) error = zero_part_of_block(last, last, end);
  return error;
}

int FdStore::zero_part_of_block(uint64_t block, uint64_t from, uint64_t to) {
  const size_t unit = setup_.geometry.io_alignment;
  const AlignedBuffer buffer = make_aligned(unit);
  if (buffer == nullptr) return ENOMEM;
  const int error = read_fully(setup_.fd, buffer.get(), unit, block);
  if (error != 0) return error;
  memset(buffer.get() + (from - block), 0, to - from);
  return write_fully(setup_.fd, buffer.get(), unit, block);
}

int FdStore::zero_where_data(uint64_t offset, uint64_t length) {
  const uint64_t unit = setup_.geometry.io_alignment;
  const uint64_t chunk = std::clamp<uint64_t>(round_up(setup_.geometry.physical_block, unit), kLeastLook, kMostLook);
  const AlignedBuffer buffer = make_aligned(chunk);
  if (buffer == nullptr) return ENOMEM;
  for (uint64_t at = offset, end = offset + length; at < end;) {
    const uint64_t stop = std::min(end, round_down(at, chunk) + chunk);
    const uint64_t first = round_down(at, unit);
    const uint64_t whole = std::min(round_up(stop, unit), size_bytes()) - first;
    int error = read_fully(setup_.fd, buffer.get(), whole, first);
    uint8_t* const part = buffer.get() + (at - first);
    if (error == 0 && !all_zero(part, stop - at)) {
      memset(part, 0, stop - at);
      error = write_fully(setup_.fd, buffer.get(), whole, first);
    }
    if (error != 0) return error;
    at = stop;
  }
  return 0;
}

int FdStore::write_zeros(uint64_t offset, uint64_t length) {
  const size_t piece = std::min(length, kZeroPiece);
  const AlignedBuffer zeros = make_aligned(piece);
  if (zeros == nullptr) return ENOMEM;
  memset(zeros.get(), 0, piece);
  for (uint64_t done = 0; done < length; done += piece) {
    const int error = write_fully(setup_.fd, zeros.get(), std::min<uint64_t>(piece, length - done), offset + done);
    if (error != 0) return error;
  }
  return 0;
}

Result<uint64_t> FdStore::refresh_size() {
  Result<uint64_t> now = read_size();
  if (!now) return now;
  const uint64_t size = round_down(*now, setup_.geometry.io_alignment);
  if (size_.exchange(size, std::memory_order_relaxed) != size) notify_resize(size);
  return size;
}

}  // namespace zvolt::backing
