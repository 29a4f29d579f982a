// Connection, SCSI data: from ItNexus::start() to the response (RFC 7143 4.2.5, 11.7, 11.8). Media moves in pieces of
// up to 256 KiB: a piece is written as soon as it is received and sent as soon as it is read, so that a large command
// holds at most limits::kPieces buffers. Branching is here; what a command has to do next is decided in proceed() and
// check_out_complete().
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "scsi/logical_unit.h"
#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

namespace {

constexpr uint32_t kPieceBytes = static_cast<uint32_t>(backing::BufferPool::kMaxBuffer);
// Pieces of one read under way: half, so that the other half can be in the transmit queue.
constexpr uint32_t kReadPieces = limits::kPieces / 2;

// Target Transfer Tag: 9 bits of slot, 22 bits that make it new each time. Never 0xffffffff.
constexpr uint32_t kSlotBits = 9;
static_assert(limits::kSessionCommands <= (1u << kSlotBits));
uint32_t transfer_tag(const Command& c) {
  return ((c.next_transfer_id & 0x3fffff) << kSlotBits) | c.slot;
}

uint32_t round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// The unit has looked at the CDB. Data that nobody asked for is thrown away as it arrives.
void Connection::after_start(Command& c, uint32_t immediate_bytes, bool final) {
  const bool takes_data = c.phase == scsi::Phase::media_out || c.phase == scsi::Phase::data_out ||
                          (c.phase == scsi::Phase::pending && c.expected_out > 0);
  if (takes_data) {
    begin_media_out(c, immediate_bytes, final);
    return;
  }
  stop_taking(c);
  proceed(c);
}

void Connection::proceed(Command& c) {
  c.running = c.phase == scsi::Phase::pending;
  switch (c.phase) {
    case scsi::Phase::pending:
      // A flush, an unmap: the store works on it. Should the task only have been held back, that was no store time.
      c.stamps.started = shard_.now();
      return;
    case scsi::Phase::complete:
      stop_taking(c);
      if (c.store_pieces == 0) respond(c);
      return;
    case scsi::Phase::media_in:
      c.total = static_cast<uint32_t>(std::min<uint64_t>(c.expected_in, c.transfer_length));
      if (c.stamps.data_ready == 0) c.stamps.data_ready = c.stamps.received;
      c.stamps.started = 0;
      book_limit(c);
      issue_reads(c);
      return;
    case scsi::Phase::media_out:
    case scsi::Phase::data_out:
      // Only after a start() that had to wait: what has arrived meanwhile goes where it belongs now.
      c.total = static_cast<uint32_t>(std::min<uint64_t>(c.expected_out, c.transfer_length));
      if (c.phase == scsi::Phase::media_out) {
        book_limit(c);
        store_ready_pieces(c);
      } else {
        take_as_parameters(c);
      }
      check_out_complete(c);
      return;
  }
}

// ---- data-out ----

void Connection::begin_media_out(Command& c, uint32_t immediate_bytes, bool final) {
  c.running = c.phase == scsi::Phase::pending;
  c.parameter_data = c.phase == scsi::Phase::data_out;
  c.total = c.running ? c.expected_out : static_cast<uint32_t>(std::min<uint64_t>(c.expected_out, c.transfer_length));
  if (c.phase == scsi::Phase::media_out) book_limit(c);
  const uint32_t unsolicited = std::min(c.total, final ? immediate_bytes : c.unsolicited.end);
  c.solicited = unsolicited;
  if (c.parameter_data) {
    c.data.resize(c.total);
  } else if (unsolicited > 0) {
    // This memory was promised with the command window (Session::reserve_window).
    Piece& p = c.first;
    p.buffer = shard_.pool().allocate_reserved(unsolicited);
    if (!p.buffer) {
      c.status = scsi::Status::busy;
      c.failed = true;
      stop_taking(c);
      check_out_complete(c);
      return;
    }
    p.state = Piece::State::filling;
    p.offset = 0;
    p.length = unsolicited;
    p.filled = 0;
    p.data = p.buffer.data();
    ++c.used_pieces;
  }
  if (out_command_ != &c) check_out_complete(c);
}

uint8_t* Connection::out_target(Command& c, uint32_t offset, size_t* size) {
  if (offset >= c.total) return nullptr;
  *size = std::min<size_t>(*size, c.total - offset);
  if (c.parameter_data) return c.data.data() + offset;
  Piece* p = c.piece_at(offset);
  if (p == nullptr || p->state != Piece::State::filling) return nullptr;
  const auto in_piece = static_cast<uint32_t>(offset - p->offset);
  *size = std::min<size_t>(*size, p->length - in_piece);
  return p->data + in_piece;
}

void Connection::out_arrived(Command& c, uint32_t offset, size_t size) {
  if (offset >= c.total) return;
  c.received += static_cast<uint32_t>(std::min<size_t>(size, c.total - offset));
  if (c.received == c.total) c.stamps.data_ready = c.stamps.started = shard_.now();
  if (c.parameter_data) return;
  Piece* p = c.piece_at(offset);
  if (p == nullptr) return;
  p->filled += static_cast<uint32_t>(size);
  if (p->filled < p->length) return;
  p->state = Piece::State::ready;
  if (!c.running) submit_piece(c, *p);
}

void Connection::store_ready_pieces(Command& c) {
  for (size_t i = 0; i < c.piece_slots(); ++i) {
    Piece& p = *c.piece(i);
    if (p.state == Piece::State::free) continue;
    // total may have become smaller than what was taken in.
    if (p.offset >= c.total) {
      release_piece(c, p);
      continue;
    }
    p.length = std::min(p.length, static_cast<uint32_t>(c.total - p.offset));
    if (p.filled >= p.length) p.state = Piece::State::ready;
    if (p.state == Piece::State::ready) submit_piece(c, p);
  }
  c.received = std::min(c.received, c.total);
}

// What a held command has received into its piece turned out to be parameter data (a WRITE SAME's block): it must never
// reach the medium as if it were the media range.
void Connection::take_as_parameters(Command& c) {
  c.parameter_data = true;
  c.data.resize(c.total);
  Piece& p = c.first;
  if (p.state != Piece::State::free) {
    std::copy_n(p.data, std::min(p.filled, c.total), c.data.data());
    release_piece(c, p);
  }
  c.received = std::min(c.received, c.total);
  c.solicited = std::min(c.solicited, c.total);
}

DataSequence* Connection::find_sequence(const DataOut& pdu, Command** command) {
  const uint32_t tag = pdu.target_transfer_tag.value();
  if (tag == kReservedTag) {
    Command* c = find_by_tag(pdu.initiator_task_tag.value());
    *command = c;
    return c != nullptr && c->unsolicited.open ? &c->unsolicited : nullptr;
  }
  Command* c = session_->by_slot(tag & ((1u << kSlotBits) - 1));
  if (c == nullptr || c->initiator_task_tag != pdu.initiator_task_tag.value()) return nullptr;
  *command = c;
  for (DataSequence& sequence : c->sequences)
    if (sequence.open && sequence.transfer_tag == tag) return &sequence;
  return nullptr;
}

// A PDU with data of this command has been taken in whole; `takes`: the data was wanted.
void Connection::data_out_segment_done(Command& c, bool takes) {
  DataSequence* sequence = out_sequence_;
  out_command_ = nullptr;
  out_sequence_ = nullptr;
  sink_ = Sink::discard;
  if (sequence != nullptr && (bhs_.final() || sequence->next_offset >= sequence->end)) {
    const bool complete = sequence->next_offset >= sequence->end;
    sequence->open = false;
    if (sequence != &c.unsolicited && c.outstanding_r2ts > 0) --c.outstanding_r2ts;
    if (takes && !complete) {
      data_out_failed(c, scsi::sense::kIncorrectAmountOfData);
      return;
    }
  }
  if (takes) check_out_complete(c);
}

bool Connection::takes_data(const Command& c) const {
  return !c.failed && !c.no_answer && c.phase != scsi::Phase::complete && c.phase != scsi::Phase::media_in &&
         c.error == 0;
}

// RFC 7143 11.17.1: no answer before the last Data-Out that was announced or asked for. Initiators that are still
// sending would lose their place in the stream.
bool Connection::receiving(const Command& c) const {
  if (pdu_command_ == &c || c.unsolicited.open) return true;
  return std::any_of(c.sequences.begin(), c.sequences.end(), [](const DataSequence& s) { return s.open; });
}

// RFC 7143 11.4.7.2: the command ends with ABORTED COMMAND; what the initiator still sends for it finds no task.
void Connection::data_out_failed(Command& c, scsi::SenseCode code) {
  spdlog::warn("{}: ITT {:#x}: data-out against the negotiated rules, sense 0b/{:02x}/{:02x}", peer_,
               c.initiator_task_tag, code.asc, code.ascq);
  // The unit may not have seen the command yet.
  const scsi::LogicalUnit* unit = c.lu != nullptr ? c.lu : session_->nexus.unit(c.lun);
  c.status = scsi::Status::check_condition;
  c.sense = scsi::make_sense(code, {}, unit != nullptr && unit->descriptor_sense());
  c.failed = true;
  stop_taking(c);
  check_out_complete(c);
}

// Nothing more is wanted of this command. Data that was announced or asked for is still waited for, and thrown away.
void Connection::stop_taking(Command& c) {
  if (out_command_ != &c) return;
  out_command_ = nullptr;
  sink_ = Sink::discard;
}

// What a command that takes data does next, whenever something about it has changed.
void Connection::check_out_complete(Command& c) {
  if (c.no_answer || c.responded || c.finishing || c.running) return;
  if (c.failed || c.phase == scsi::Phase::complete) {
    if (c.waiting) shard_.forget_waiter(c);
    if (c.store_pieces == 0) respond(c);
    return;
  }
  if (c.error != 0) {
    stop_taking(c);
    if (c.store_pieces == 0) finish(c);
    return;
  }
  if (c.unsolicited.open) return;
  if (c.received < c.total) {
    solicit(c);
    return;
  }
  if (out_command_ == &c || c.store_pieces > 0 || c.waits_for_lane) return;
  if (c.stamps.data_ready == 0) c.stamps.data_ready = c.stamps.started = shard_.now();
  if (!c.parameter_data) {
    if (!waits_for_limit(c)) finish(c);
    return;
  }
  c.parameter_data = false;
  session_->nexus.data_out(c);
  proceed(c);
}

void Connection::solicit(Command& c) {
  if (waits_for_limit(c)) return;
  const uint32_t limit =
      std::min<uint32_t>(session_->parameters.max_outstanding_r2t, static_cast<uint32_t>(c.sequences.size()));
  while (c.solicited < c.total && c.outstanding_r2ts < limit) {
    uint32_t length = std::min({c.total - c.solicited, session_->parameters.max_burst_length, limits::kSolicitedBurst});
    if (!c.parameter_data && !prepare_burst(c, &length)) return;
    send_r2t(c, length);
  }
}

// Buffers for a burst; shortened to what there is. False: none now, the command waits for memory or for its own pieces.
bool Connection::prepare_burst(Command& c, uint32_t* length) {
  if (c.lane->full()) {
    if (c.used_pieces == 0) wait_for_lane(c);
    return false;
  }
  uint32_t ready = 0;
  while (ready < *length) {
    const uint32_t size = std::min(*length - ready, kPieceBytes);
    Piece* p = c.free_piece();
    if (p == nullptr) break;
    if (!take_buffer(c, *p, size)) break;
    p->state = Piece::State::filling;
    p->offset = c.solicited + ready;
    p->length = size;
    p->filled = 0;
    p->data = p->buffer.data();
    ++c.used_pieces;
    ready += size;
  }
  *length = ready;
  return ready > 0;
}

void Connection::send_r2t(Command& c, uint32_t length) {
  DataSequence* sequence = nullptr;
  for (DataSequence& s : c.sequences)
    if (!s.open) sequence = &s;
  ++c.next_transfer_id;
  *sequence = {true, transfer_tag(c), c.solicited, c.solicited + length, 0};
  TransmitPdu& out = queue_pdu(Opcode::r2t);
  auto& r2t = as<R2T>(out.bhs);
  r2t.flags = kFinal;
  std::copy(std::begin(c.lun_field), std::end(c.lun_field), std::begin(r2t.lun));
  r2t.initiator_task_tag = c.initiator_task_tag;
  r2t.target_transfer_tag = sequence->transfer_tag;
  r2t.stat_sn = stat_sn_;  // the next one, not used up (11.8.3)
  r2t.r2t_sn = c.next_r2t_sn++;
  r2t.buffer_offset = c.solicited;
  r2t.desired_data_transfer_length = length;
  c.solicited += length;
  ++c.outstanding_r2ts;
  last_data_out_ns_ = shard_.now();
  large_expected_ = large_expected_ || length >= limits::kLargeSegment;
}

// ---- data-in ----

void Connection::issue_reads(Command& c) {
  if (waits_for_limit(c)) return;
  while (c.issued < c.total && c.error == 0 && !c.no_answer && c.used_pieces < kReadPieces) {
    if (queued_bytes_ >= limits::kTransmitQueueBytes) {
      stall(c);
      break;
    }
    if (c.lane->full()) {
      wait_for_lane(c);
      break;
    }
    const uint32_t length = round_up(std::min(c.total - c.issued, kPieceBytes), c.block_size);
    Piece* p = c.free_piece();
    if (!take_buffer(c, *p, length)) break;
    p->offset = c.issued;
    p->length = length;
    p->data = p->buffer.data();
    ++c.used_pieces;
    c.issued += length;
    submit_piece(c, *p);
  }
  emit_reads(c);
}

void Connection::emit_reads(Command& c) {
  if (c.no_answer || c.responded) return;
  if (c.error != 0) {
    if (c.store_pieces == 0 && !c.finishing) finish(c);
    return;
  }
  while (c.emitted < c.total) {
    Piece* p = c.piece_at(c.emitted);
    if (p == nullptr || p->state != Piece::State::ready) return;
    const uint32_t length = std::min(p->length, c.total - c.emitted);
    const bool last = c.emitted + length == c.total;
    // Status rides in the last Data-In, so it must be known before that one is queued.
    if (last && receiving(c)) {
      c.deferred = true;
      return;
    }
    if (last && !c.finishing) {
      finish(c);
      return;
    }
    p->state = Piece::State::sending;
    queue_data_in(c, p->data, length, p, last);
    if (last) return;
  }
  if (c.total == 0 && !c.finishing) finish(c);
}

// ---- store ----

// Returns true when the piece is finished already.
bool Connection::submit_piece(Command& c, Piece& p) {
  if (c.phase != scsi::Phase::media_in && c.lane->full()) {  // it stays `ready`; a read does not get here then
    wait_for_lane(c);
    return false;
  }
  p.task = &c;
  p.done = &Connection::on_piece_done;
  p.state = Piece::State::in_store;
  ++c.store_pieces;
  ++c.lane->in_store;
  if (c.stamps.started == 0) c.stamps.started = shard_.now();
  if (!session_->nexus.media_io(c, p)) return false;
  shard_.tick();
  --c.store_pieces;
  --c.lane->in_store;
  if (c.phase == scsi::Phase::media_in) {
    p.state = Piece::State::ready;
  } else {
    release_piece(c, p);
  }
  return true;
}

void Connection::on_piece_done(scsi::MediaIo& io) noexcept {
  auto& piece = static_cast<Piece&>(io);
  auto& command = static_cast<Command&>(*io.task);
  command.connection->piece_finished(command, piece);
}

void Connection::piece_finished(Command& c, Piece& p) {
  UnitLane& lane = *c.lane;
  --c.store_pieces;
  --lane.in_store;
  if (p.held) {
    c.lu->release_range(c.media_offset + p.offset, p.length);
    p.held = false;
  }
  const bool read = c.phase == scsi::Phase::media_in;
  if (read && !c.no_answer) {
    p.state = Piece::State::ready;
    serve_lane(lane);
    issue_reads(c);
    return;
  }
  release_piece(c, p);
  serve_lane(lane);
  if (c.no_answer) {
    orphan_step(c);
  } else {
    check_out_complete(c);
  }
}

// General memory for a piece. False: none now. A command with pieces has events of its own to come back on; another one
// comes back when its session gives memory back, or in the shard's queue.
bool Connection::take_buffer(Command& c, Piece& p, uint32_t size) {
  const size_t bytes = backing::BufferPool::rounded(size);
  const size_t share = std::max(shard_.pool().budget() / limits::kSessionShare, limits::kSessionShareMin);
  if (general_bytes_ + bytes > share) {
    if (c.used_pieces == 0) stall(c);
    return false;
  }
  p.buffer = shard_.pool().allocate(size);
  if (!p.buffer) {
    if (c.used_pieces == 0) shard_.wait_for_buffer(c);
    return false;
  }
  p.general = bytes;
  general_bytes_ += bytes;
  return true;
}

void Connection::stall(Command& c) {
  if (!c.stalled) stalled_.push_back(&c);
  c.stalled = true;
}

void Connection::release_piece(Command& c, Piece& p) {
  p.buffer.release();
  general_bytes_ -= std::exchange(p.general, 0);
  if (!stalled_.empty()) wake_transmit();
  p.state = Piece::State::free;
  --c.used_pieces;
}

void Connection::release_pieces(Command& c) {
  for (size_t i = 0; i < c.piece_slots(); ++i) {
    Piece& p = *c.piece(i);
    if (p.state != Piece::State::free && p.state != Piece::State::in_store && p.state != Piece::State::sending)
      release_piece(c, p);
  }
}

// All pieces are done (or one failed and none is under way): the unit's last word, a flush for instance.
void Connection::finish(Command& c) {
  const bool read = c.phase == scsi::Phase::media_in;
  c.finishing = true;
  session_->nexus.finish(c);
  c.running = c.phase == scsi::Phase::pending;
  if (c.running) return;
  if (read && c.status == scsi::Status::good && c.total > 0) {
    emit_reads(c);
  } else {
    respond(c);
  }
}

void Connection::on_advanced(scsi::Task& task) noexcept {
  auto& c = static_cast<Command&>(task);
  Connection& self = *c.connection;
  c.running = false;
  if (c.no_answer) {
    self.orphan_step(c);
  } else if (!c.finishing) {
    self.proceed(c);
  } else if (c.expected_in > 0 && c.status == scsi::Status::good && c.total > 0 && c.used_pieces > 0) {
    self.emit_reads(c);
  } else {
    self.respond(c);
  }
}

// ---- commands that will not be answered ----

bool Connection::idle(const Command& c) const {
  return !c.running && c.store_pieces == 0 && c.queued_pdus == 0;
}

// Writes of a session that is gone can't be recalled: nobody may overtake them.
void Connection::hold(Command& c) {
  if (c.lu == nullptr) return;
  for (size_t i = 0; i < c.piece_slots(); ++i) {
    Piece& p = *c.piece(i);
    if (p.state != Piece::State::in_store || p.held || c.op_class == scsi::OpClass::read) continue;
    c.lu->hold_range(c.media_offset + p.offset, p.length);
    p.held = true;
  }
  const bool changes = c.op_class == scsi::OpClass::write || c.op_class == scsi::OpClass::unmap;
  if (c.running && changes && !c.held_whole) {
    c.lu->hold_range(0, UINT64_MAX);
    c.held_whole = true;
  }
}

void Connection::orphan_step(Command& c) {
  if (!idle(c)) return;
  if (c.held_whole) c.lu->release_range(0, UINT64_MAX);
  release_pieces(c);
  release(c);
  if (state_ != State::closed) {
    if (!ended_) answer_task_management();
    return;
  }
  if (orphans_ > 0 && --orphans_ == 0) {
    // Not from inside a callback of ours: the last reference goes when the shard gets to it.
    asio::post(shard_.context(), [self = std::move(self_)] {});
  }
}

}  // namespace zvolt::iscsi
