// See journaled_store.h. Changes and flushes; reads are in read_path.cc.
#include "backing/journal/journaled_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/core.h"
#include "backing/journal/direct.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

// Copies `length` bytes that begin `from` bytes into the request's memory.
void copy_out(const IoRequest& request, uint64_t from, uint64_t length, uint8_t* into) {
  for (uint32_t i = 0; i < request.iov_count && length > 0; ++i) {
    const iovec& part = request.iov[i];
    if (from >= part.iov_len) {
      from -= part.iov_len;
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(length, part.iov_len - from);
    memcpy(into, static_cast<const uint8_t*>(part.iov_base) + from, bytes);
    into += bytes;
    length -= bytes;
    from = 0;
  }
}

// What a write of [begin, end) by itself would cost the store in read-modify-writes.
uint64_t partial_blocks(uint64_t begin, uint64_t end, uint64_t block) {
  if (block <= 1) return 0;
  const bool head = begin % block != 0;
  const bool tail = end % block != 0;
  if (head && tail && begin / block == (end - 1) / block) return 1;
  return (head ? 1U : 0U) + (tail ? 1U : 0U);
}

RecordKind kind_of(const IoRequest& request) {
  if (request.kind == IoKind::write) return RecordKind::write;
  return request.kind == IoKind::write_zeroes ? RecordKind::write_zeroes : RecordKind::discard;
}

// Of [begin, end) the whole granules: what a discard may change.
void shrink_to_granules(const Geometry& geometry, uint64_t& begin, uint64_t& end) {
  const uint64_t unit = std::max(geometry.discard_granularity, geometry.io_alignment);
  const uint64_t shift = geometry.discard_alignment % unit;
  begin = begin <= shift ? shift : (begin - shift + unit - 1) / unit * unit + shift;
  end = end <= shift ? shift : (end - shift) / unit * unit + shift;
}

Submitted ended(IoRequest& request, int error) {
  request.error = error;
  return Submitted::done;
}

// request.scratch: [0] bytes that are records already, [1] room was promised for the next piece.
constexpr size_t kDoneBytes = 0;
constexpr size_t kGranted = 1;

}  // namespace

JournaledStore::JournaledStore(Core& core, std::shared_ptr<Lun> lun, std::shared_ptr<BlockStore> inner)
    : core_(core), lun_(std::move(lun)), inner_(std::move(inner)), description_(inner_->describe() + ", journalled") {
  resize_target_->store = this;
  inner_->on_resize([target = resize_target_](uint64_t size) {
    const std::lock_guard lock(target->mutex);
    if (target->store != nullptr) target->store->notify_resize(size);
  });
}

JournaledStore::~JournaledStore() {
  const std::lock_guard lock(resize_target_->mutex);
  resize_target_->store = nullptr;
}

const Uuid& JournaledStore::uuid() const {
  return lun_->uuid;
}

const Geometry& JournaledStore::geometry() const {
  const Geometry& own = inner_->geometry();
  if (own.volatile_cache) return own;
  Geometry shown = own;
  shown.volatile_cache = true;
  const std::lock_guard lock(geometry_mutex_);
  for (const Geometry& given : geometries_) {
    if (given == shown) return given;
  }
  return geometries_.emplace_back(shown);
}

JournaledStore::Status JournaledStore::status() const {
  Status status;
  status.mode = lun_->mode.load(std::memory_order_relaxed);
  status.store_away = lun_->away.load(std::memory_order_relaxed);
  status.store_error = lun_->store_error.load(std::memory_order_relaxed);
  const std::lock_guard lock(lun_->mutex);
  status.dirty_bytes = lun_->map.bytes();
  status.dirty_extents = lun_->map.extents();
  status.ring_bytes = lun_->map.ring_bytes();
  status.store_problem = lun_->store_problem;
  const Record* oldest = lun_->map.oldest();
  status.replaying = oldest != nullptr && oldest->sequence <= lun_->replayed_through;
  return status;
}

Submitted JournaledStore::submit(IoRequest& request, IoEngine& engine) {
  if (request.kind == IoKind::read) return read(request, engine);
  request.error = 0;
  request.error_offset = request.offset;
  if (request.kind == IoKind::flush) return flush(request, engine);
  if (request.kind == IoKind::allocation_status) return allocation(request, engine);
  if (const int fault = range_fault(request)) return ended(request, fault);
  if (request.length == 0) return Submitted::done;
  const Geometry& geometry = inner_->geometry();
  if (geometry.read_only) return ended(request, EROFS);
  if (request.kind == IoKind::write) {
    count(core_.counters.bytes_in, request.length);
    count(core_.counters.partial_in,
          partial_blocks(request.offset, request.offset + request.length, geometry.physical_block));
  }
  request.scratch[kDoneBytes] = 0;
  request.scratch[kGranted] = 0;
  request.owner = this;
  request.step = nullptr;
  return change(request, engine);
}

// After a wait for room, on the request's shard.
void JournaledStore::on_turn(IoRequest& request) noexcept {
  request.step = nullptr;
  auto& store = *static_cast<JournaledStore*>(request.owner);
  if (store.change(request, *request.engine) == Submitted::done) request.done(request);
}

// Piece by piece until all of the range is records; then durability, where it was asked for.
Submitted JournaledStore::change(IoRequest& request, IoEngine& engine) {
  uint64_t begin = request.offset;
  uint64_t end = request.offset + request.length;
  const RecordKind kind = kind_of(request);
  if (kind == RecordKind::discard) {
    const Geometry& geometry = inner_->geometry();
    if (geometry.discard_granularity == 0) return ended(request, EOPNOTSUPP);
    if (geometry.discard_zeroes) {
      shrink_to_granules(geometry, begin, end);
    } else {
      count(core_.counters.discards_dropped);
      end = begin;
    }
    if (begin >= end) return ended(request, 0);
  }
  uint64_t sequence = 0;
  for (uint64_t at = begin + request.scratch[kDoneBytes]; at < end; at = begin + request.scratch[kDoneBytes]) {
    const Mode mode = lun_->mode.load(std::memory_order_relaxed);
    if (mode != Mode::journaled && mode != Mode::leaving) return unjournaled(request, engine, mode);
    if ((lun_->gate.load(std::memory_order_relaxed) & Lun::kSlow) != 0) return not_served(request);
    const uint64_t length = has_payload(kind) ? std::min(end - at, core_.most_record) : end - at;
    const Piece piece = make_piece(request, engine, kind, at, length, sequence);
    if (piece == Piece::waits) return Submitted::pending;
    if (piece == Piece::failed) {
      core_.want_commit(engine);  // the pieces before it are queued: nobody else may come to commit them
      return Submitted::done;
    }
    if (piece == Piece::made) request.scratch[kDoneBytes] += length;
  }
  core_.want_commit(engine);
  if (!request.fua) return ended(request, 0);
  return core_.wait_durable(*lun_, sequence, request, engine);
}

JournaledStore::Piece JournaledStore::make_piece(IoRequest& request, IoEngine& engine, RecordKind kind, uint64_t at,
                                                 uint64_t length, uint64_t& sequence) {
  const uint64_t ring = core_.ring_need(kind, length);
  const uint64_t memory = core_.memory_need(kind, length);
  if (std::exchange(request.scratch[kGranted], 0) == 0) {
    request.step = &JournaledStore::on_turn;
    const Core::Admission admission = core_.admit(*lun_, ring, memory, request, engine);
    if (admission == Core::Admission::waits) {
      core_.want_commit(engine);  // what is made already must not wait for the rest
      return Piece::waits;
    }
    request.step = nullptr;
    if (admission == Core::Admission::again) return Piece::again;
    if (admission == Core::Admission::busy) {
      request.error = EAGAIN;
      return Piece::failed;
    }
  }
  const RecordRef record = core_.make_record(
      *lun_, kind, at, length, [&](uint8_t* into) { copy_out(request, at - request.offset, length, into); });
  if (!record) {
    core_.forget_room(ring, memory);
    request.error = ENOMEM;
    return Piece::failed;
  }
  if (!core_.append(*lun_, *record)) {  // held, or the mode has changed meanwhile: looks again
    core_.forget_room(ring, 0);         // the memory goes with the record
    return Piece::again;
  }
  sequence = record->sequence;
  return Piece::made;
}

Submitted JournaledStore::unjournaled(IoRequest& request, IoEngine& engine, Mode mode) {
  if (mode == Mode::direct) {
    request.step = &JournaledStore::on_turn;  // should it have to wait
    const Submitted submitted = submit_direct(core_, *lun_, *inner_, request, engine);
    if (submitted == Submitted::done) request.step = nullptr;
    return submitted;
  }
  return ended(request, mode == Mode::read_only ? EROFS : EIO);
}

// Not admitted yet, or refused.
Submitted JournaledStore::not_served(IoRequest& request) const {
  return ended(request, lun_->mode.load(std::memory_order_relaxed) == Mode::refused ? EIO : ENOMEDIUM);
}

// The newest record of each byte is at least as new as every other of that byte: durable up to those, all are.
Submitted JournaledStore::flush(IoRequest& request, IoEngine& engine) {
  request.step = nullptr;
  if ((lun_->gate.load(std::memory_order_relaxed) & Lun::kSlow) != 0) return not_served(request);
  const Mode mode = lun_->mode.load(std::memory_order_acquire);
  if (mode == Mode::direct) return inner_->submit(request, engine);
  uint64_t sequence = lun_->last_sequence.load(std::memory_order_acquire);
  if (request.length > 0 && sequence > core_.watermark.load(std::memory_order_acquire)) {
    sequence = newest_of(request.offset, request.offset + request.length, sequence);
  }
  core_.want_commit(engine);
  return core_.wait_durable(*lun_, sequence, request, engine);
}

// Only while the log is used does a record leave the map no earlier than it is durable. While the LUN leaves a failed
// log, and where it could not, the map may be empty although the ring still counts and has older bytes: then nothing
// less than all will do.
uint64_t JournaledStore::newest_of(uint64_t begin, uint64_t end, uint64_t all) const {
  const std::lock_guard lock(lun_->mutex);
  if (lun_->mode.load(std::memory_order_relaxed) != Mode::journaled) return all;
  uint64_t newest = 0;
  lun_->map.visit(begin, end, [&](uint64_t, uint64_t, const Record& record) {
    newest = std::max(newest, record.sequence);
    return true;
  });
  return newest;
}

}  // namespace zvolt::backing::journal
