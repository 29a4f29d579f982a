// Pass: what a round takes from the dirty map, and how it becomes requests to the store (pass.h).
//
// Data that follow each other go out as one write, in whole volblocks as far as they are whole. Parts of volblocks stay
// until they are old (the rest may come), unless the round is forced. Only records that are durable go: were an older
// record of the range in the ring alone, a power cut would bring it back over the newer one in the middle of it.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/pass.h"

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kMostWrite = uint64_t{1} << 20;    // bytes of one request: what a zvol takes well
constexpr uint64_t kMostZeros = uint64_t{256} << 20;  // bytes of one discard
constexpr unsigned kMostInFlight = 8;                 // requests of a LUN at its store: write-back is not in a hurry
constexpr size_t kMostParts = 512;                    // iovs of a write

uint64_t down(uint64_t value, uint64_t unit) {
  return value / unit * unit;
}
uint64_t up(uint64_t value, uint64_t unit) {
  return down(value + unit - 1, unit);
}

uint64_t partial_blocks(uint64_t begin, uint64_t end, uint64_t block) {
  if (begin / block == (end - 1) / block) return end - begin == block ? 0 : 1;
  return (begin % block != 0 ? 1U : 0U) + (end % block != 0 ? 1U : 0U);
}

}  // namespace

void Pass::write_more() {
  ++in_flight_;  // this function: submit() may end requests
  while (in_flight_ <= kMostInFlight) {
    Run run;
    if (!next_run(run)) break;
    if (!run.parts.empty()) submit_run(run);
  }
  --in_flight_;
  if (in_flight_ == 0) writes_ended();
}

// The next parts of the map, in order of offset, that one request can carry. False: the map is done. A run without
// parts is possible: nothing of it is due.
bool Pass::next_run(Run& run) {
  {
    const std::lock_guard lock(lun_->mutex);
    lun_->map.visit(cursor_, UINT64_MAX,
                    [&](uint64_t begin, uint64_t end, Record& record) { return take_part(run, begin, end, record); });
  }
  if (run.parts.empty()) return false;
  cursor_ = run.end;
  const uint64_t block = std::max(store_->geometry().physical_block, 1U);
  if (run.kind == RecordKind::write) trim_to_blocks(run, block);
  return true;
}

// One more extent for the run. False: the run is complete.
bool Pass::take_part(Run& run, uint64_t begin, uint64_t end, Record& record) const {
  if (record.sequence > limit_sequence_) return run.parts.empty();
  if (run.parts.empty()) {
    run.kind = record.kind;
    run.begin = run.end = begin;
  } else if (begin != run.end || record.kind != run.kind || run.parts.size() >= kMostParts) {
    run.cut = begin == run.end && record.kind == run.kind;
    return false;
  }
  const uint64_t block = std::max(store_->geometry().physical_block, 1U);
  const uint64_t most = run.kind == RecordKind::write ? std::max(up(kMostWrite, block), block) : kMostZeros;
  const uint64_t room = run.begin + most - run.end;
  run.cut = end - begin >= room;
  run.end = begin + std::min(end - begin, room);
  run.parts.push_back({begin, run.end, RecordRef(record)});
  return !run.cut;
}

// Leaves whole blocks, and those parts of blocks at either end that are due. A run that was cut ends with a whole
// block: the next one begins there.
void Pass::trim_to_blocks(Run& run, uint64_t block) {
  uint64_t begin = run.begin;
  uint64_t end = run.end;
  if (run.cut && down(end, block) > begin) {
    end = down(end, block);
    cursor_ = end;
  }
  if (begin % block != 0) {
    const uint64_t stop = std::min(up(begin, block), end);
    if (!partial_is_due(run, begin, stop)) begin = stop;
  }
  if (end % block != 0 && begin < end) {
    const uint64_t start = std::max(begin, down(end, block));
    if (!partial_is_due(run, start, end)) end = start;
  }
  std::vector<Part> kept;
  for (Part& part : run.parts) {
    part.begin = std::max(part.begin, begin);
    part.end = std::min(part.end, end);
    if (part.begin < part.end) kept.push_back(std::move(part));
  }
  run.parts.swap(kept);
  run.begin = begin;
  run.end = end;
}

bool Pass::partial_is_due(const Run& run, uint64_t begin, uint64_t end) const {
  if (forced_) return true;
  return std::any_of(run.parts.begin(), run.parts.end(), [&](const Part& part) {
    return part.begin < end && begin < part.end && part.record->time_ns <= old_before_ns_;
  });
}

void Pass::submit_run(Run& run) {
  const uint64_t size = store_->size_bytes();
  uint64_t end = run.end;
  if (size != 0 && end > size) {  // the store was made smaller: what lay beyond its end is gone
    end = std::max(size, run.begin);
    drop_beyond(run, end);
  }
  if (end == run.begin) return;
  if (run.kind == RecordKind::write) return submit_part(run, run.begin, end, IoKind::write, false);
  const Geometry& geometry = store_->geometry();
  const uint64_t unit = std::max({geometry.discard_granularity, geometry.io_alignment, 1U});
  const uint64_t shift = geometry.discard_alignment % unit;
  const bool frees = run.kind == RecordKind::discard && geometry.discard_granularity != 0 && geometry.discard_zeroes;
  const uint64_t first = run.begin <= shift ? shift : up(run.begin - shift, unit) + shift;
  const uint64_t last = end <= shift ? shift : down(end - shift, unit) + shift;
  // A hole stays a hole: zeroing what a discard covers in part must not allocate.
  const bool spare = run.kind == RecordKind::discard;
  if (!frees || first >= last) return submit_part(run, run.begin, end, IoKind::write_zeroes, spare);
  if (run.begin < first) submit_part(run, run.begin, first, IoKind::write_zeroes, spare);
  submit_part(run, first, last, IoKind::discard, false);
  if (last < end) submit_part(run, last, end, IoKind::write_zeroes, spare);
}

void Pass::drop_beyond(const Run& run, uint64_t end) {
  auto op = make_op(run, end, run.end);
  op->ok = true;
  written_.push_back(std::move(op));
}

std::unique_ptr<Pass::WriteOp> Pass::make_op(const Run& run, uint64_t begin, uint64_t end) {
  auto op = std::make_unique<WriteOp>();
  op->pass = this;
  for (const Part& part : run.parts) {
    const uint64_t from = std::max(part.begin, begin);
    const uint64_t to = std::min(part.end, end);
    if (from < to) op->parts.push_back({from, to, RecordRef(*part.record)});
  }
  op->io.offset = begin;
  op->io.length = end - begin;
  return op;
}

void Pass::submit_part(const Run& run, uint64_t begin, uint64_t end, IoKind kind, bool spare_holes) {
  auto op = make_op(run, begin, end);
  op->io.kind = kind;
  op->io.spare_holes = spare_holes;
  op->io.context = op.get();
  op->io.done = &Pass::on_write;
  if (kind == IoKind::write) {
    fill_iov(*op);
    count(core_.counters.bytes_written_back, end - begin);
    count(core_.counters.partial_written_back,
          partial_blocks(begin, end, std::max(store_->geometry().physical_block, 1U)));
  }
  count(core_.counters.write_backs);
  submit(std::move(op));
}

// The records' own memory, where the store takes it so; else a copy.
void Pass::fill_iov(WriteOp& op) const {
  const Geometry& geometry = store_->geometry();
  uintptr_t wrong = 0;
  for (const Part& part : op.parts) {
    uint8_t* data = part.record->data + (part.begin - part.record->offset);
    op.iov.push_back({data, part.end - part.begin});
    wrong |= reinterpret_cast<uintptr_t>(data) & (geometry.memory_alignment - 1);
    wrong |= (part.end - part.begin) & (geometry.io_alignment - 1);
  }
  if (wrong != 0) op.bounce = make_aligned(op.io.length);
  if (op.bounce != nullptr) {  // else: no memory, or no need; the store finds its own way
    uint8_t* at = op.bounce.get();
    for (const iovec& piece : op.iov) {
      memcpy(at, piece.iov_base, piece.iov_len);
      at += piece.iov_len;
    }
    op.iov.assign(1, {op.bounce.get(), op.io.length});
  }
  op.io.iov = op.iov.data();
  op.io.iov_count = static_cast<uint32_t>(op.iov.size());
}

void Pass::submit(std::unique_ptr<WriteOp> op) {
  WriteOp& started = *op;
  written_.push_back(std::move(op));
  ++in_flight_;
  if (store_->submit(started.io, engine_) == Submitted::done) write_done(started);
}

void Pass::write_done(WriteOp& op) {
  --in_flight_;
  submitted_ns_ = core_.now();
  op.ok = op.io.error == 0;
  if (!op.ok) failed_round(op.io.error, strerror(op.io.error));
}

void Pass::on_write(IoRequest& io) noexcept {
  WriteOp& op = *static_cast<WriteOp*>(io.context);
  Pass& pass = *op.pass;
  pass.write_done(op);
  pass.write_more();
}

}  // namespace zvolt::backing::journal
