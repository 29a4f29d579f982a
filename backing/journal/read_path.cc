// Reads and allocation status of a JournaledStore: memory over the store.
//
// What the dirty map has for the range is taken before the store is asked: write-back may meanwhile bring it to the
// store and out of the map. Newer changes that come meanwhile are concurrent with the read, and may show or not.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "backing/journal/core.h"
#include "backing/journal/journaled_store.h"

namespace zvolt::backing::journal {

namespace {

struct Overlay {
  uint64_t begin;
  uint64_t end;
  RecordRef record;
};

struct ReadOp {
  IoRequest& parent;
  IoRequest io{};
  std::vector<Overlay> overlays{};
};

// Bytes of `overlay` (zeros where its record has no payload) into the memory of a read.
void copy_in(const IoRequest& read, const Overlay& overlay) {
  uint64_t part_begin = read.offset;
  for (uint32_t i = 0; i < read.iov_count && part_begin < overlay.end; ++i) {
    const uint64_t part_end = part_begin + read.iov[i].iov_len;
    const uint64_t from = std::max(overlay.begin, part_begin);
    const uint64_t to = std::min(overlay.end, part_end);
    if (from < to) {
      uint8_t* target = static_cast<uint8_t*>(read.iov[i].iov_base) + (from - part_begin);
      const Record& record = *overlay.record;
      if (record.data == nullptr) {
        memset(target, 0, to - from);
      } else {
        memcpy(target, record.data + (from - record.offset), to - from);
      }
    }
    part_begin = part_end;
  }
}

void take_result(ReadOp& op) {
  op.parent.error = op.io.error;
  op.parent.error_offset = op.io.error_offset;
  if (op.io.error != 0) return;
  for (const Overlay& overlay : op.overlays) copy_in(op.parent, overlay);
}

// The same request, for the store.
void copy_request(const IoRequest& from, IoRequest& to) {
  to.kind = from.kind;
  to.offset = from.offset;
  to.length = from.length;
  to.iov = from.iov;
  to.iov_count = from.iov_count;
}

void on_read(IoRequest& io) noexcept {
  const std::unique_ptr<ReadOp> op(static_cast<ReadOp*>(io.context));
  take_result(*op);
  op->parent.done(op->parent);
}

void on_allocation(IoRequest& io) noexcept {
  const std::unique_ptr<ReadOp> op(static_cast<ReadOp*>(io.context));
  op->parent.error = io.error;
  op->parent.mapped = io.mapped;
  op->parent.extent_length = io.extent_length;
  op->parent.done(op->parent);
}

}  // namespace

int JournaledStore::range_fault(const IoRequest& request) const {
  const uint64_t size = size_bytes();
  if (size == 0) return ENOMEDIUM;  // the store has not been there yet
  return request.length > size || request.offset > size - request.length ? EINVAL : 0;
}

Submitted JournaledStore::read(IoRequest& request, IoEngine& engine) {
  const uint64_t gate = lun_->gate.load(std::memory_order_acquire);
  if (gate == 0) [[likely]]
    return inner_->submit(request, engine);
  request.error = 0;
  request.error_offset = request.offset;
  if ((gate & Lun::kSlow) != 0) return not_served(request);
  if (const int fault = range_fault(request)) {
    request.error = fault;
    return Submitted::done;
  }
  auto op = std::make_unique<ReadOp>(ReadOp{request});
  uint64_t covered = 0;
  {
    const std::lock_guard lock(lun_->mutex);
    lun_->map.visit(request.offset, request.offset + request.length, [&](uint64_t begin, uint64_t end, Record& record) {
      op->overlays.push_back({begin, end, RecordRef(record)});
      covered += end - begin;
      return true;
    });
  }
  if (covered == 0) return inner_->submit(request, engine);
  if (covered == request.length) {
    take_result(*op);
    return Submitted::done;
  }
  copy_request(request, op->io);
  op->io.context = op.get();
  op->io.done = on_read;
  if (inner_->submit(op->io, engine) == Submitted::pending) {
    op.release();  // on_read() deletes it
    return Submitted::pending;
  }
  take_result(*op);
  return Submitted::done;
}

// Zeros by write_zeroes count as data, for the store may keep them so; a discard counts as a hole.
Submitted JournaledStore::allocation(IoRequest& request, IoEngine& engine) {
  const uint64_t gate = lun_->gate.load(std::memory_order_acquire);
  if ((gate & Lun::kSlow) != 0) return not_served(request);
  if (gate == 0) return inner_->submit(request, engine);
  if (const int fault = range_fault(request)) {
    request.error = fault;
    return Submitted::done;
  }
  const uint64_t end = request.offset + request.length;
  uint64_t store_end = end;  // up to here only the store knows
  {
    const std::lock_guard lock(lun_->mutex);
    lun_->map.visit(request.offset, end, [&](uint64_t begin, uint64_t stop, const Record& record) {
      store_end = begin;
      request.mapped = record.kind != RecordKind::discard;
      request.extent_length = stop - begin;
      return false;
    });
  }
  if (store_end == request.offset && request.length != 0) return Submitted::done;
  auto op = std::make_unique<ReadOp>(ReadOp{request});
  copy_request(request, op->io);
  op->io.length = store_end - request.offset;
  op->io.context = op.get();
  op->io.done = on_allocation;
  if (inner_->submit(op->io, engine) == Submitted::pending) {
    op.release();  // on_allocation() deletes it
    return Submitted::pending;
  }
  request.error = op->io.error;
  request.mapped = op->io.mapped;
  request.extent_length = op->io.extent_length;
  return Submitted::done;
}

}  // namespace zvolt::backing::journal
