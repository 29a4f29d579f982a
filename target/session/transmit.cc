// Connection, transmit side: a ring of PDUs that one gathered sendmsg empties at the end of a burst. Answers get their
// StatSN when they are queued (the ring is the order of the wire) and ExpCmdSN/MaxCmdSN when they are sent (RFC
// 7143 4.2.2).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

namespace {

constexpr size_t kFirstRing = 16;
constexpr uint8_t kPadding[4] = {};

// All PDUs to the initiator have these three at the same place.
struct TargetSequenceNumbers {
  uint8_t before[24];
  big_uint32_buf_t stat_sn;
  big_uint32_buf_t exp_cmd_sn;
  big_uint32_buf_t max_cmd_sn;
  uint8_t after[12];
};
static_assert(offsetof(ScsiResponse, exp_cmd_sn) == 28 && offsetof(DataIn, max_cmd_sn) == 32 &&
              offsetof(R2T, stat_sn) == 24);
static_assert(offsetof(TargetSequenceNumbers, max_cmd_sn) == 32 && sizeof(TargetSequenceNumbers) == kBhsLength);

}  // namespace

TransmitPdu& Connection::queue_pdu(Opcode opcode) {
  if (queued_ == ring_.size()) {
    // Growing a ring: unroll it so that it starts at 0.
    std::vector<TransmitPdu> larger(std::max(kFirstRing, ring_.size() * 2));
    for (size_t i = 0; i < queued_; ++i) larger[i] = std::move(ring_[(head_ + i) & (ring_.size() - 1)]);
    ring_.swap(larger);
    head_ = 0;
  }
  TransmitPdu& pdu = ring_[(head_ + queued_) & (ring_.size() - 1)];
  pdu = TransmitPdu{};
  pdu.bhs.opcode_byte = static_cast<uint8_t>(opcode);
  if (queued_++ == 0) last_sent_ns_ = shard_.now();
  queued_bytes_ += kBhsLength;
  wake_transmit();
  return pdu;
}

void Connection::attach(TransmitPdu& pdu, const uint8_t* data, uint32_t length) {
  pdu.data = data;
  pdu.length = length;
  pdu.bhs.data_segment_length = length;
  queued_bytes_ += pdu.wire_length() - kBhsLength;
}

void Connection::attach(TransmitPdu& pdu, std::vector<uint8_t> data) {
  pdu.owned = std::move(data);
  attach(pdu, pdu.owned.data(), static_cast<uint32_t>(pdu.owned.size()));
}

void Connection::fill_status_sn(TransmitPdu& pdu) {
  reinterpret_cast<TargetSequenceNumbers&>(pdu.bhs).stat_sn = stat_sn_++;
}

void Connection::wake_transmit() {
  if (in_transmit_list_ || state_ == State::closed) return;
  in_transmit_list_ = true;
  shard_.want_transmit(*this);
}

// RFC 7143 11.4.5: what the CDB wanted to move against what the initiator expected.
uint32_t Connection::residual(const Command& c, uint8_t* flags) const {
  const uint64_t expected = uint64_t{c.expected_in} + c.expected_out;
  uint64_t wanted = c.transfer_length;
  if (c.status != scsi::Status::good) wanted = std::min<uint64_t>(expected, c.expected_in > 0 ? c.emitted : c.received);
  if (wanted == expected) return 0;
  *flags |= wanted > expected ? ScsiResponse::kOverflow : ScsiResponse::kUnderflow;
  const uint64_t difference = wanted > expected ? wanted - expected : expected - wanted;
  return static_cast<uint32_t>(std::min<uint64_t>(difference, UINT32_MAX));
}

// The command has its answer: its slot in the window is free.
void Connection::mark_responded(Command& c) {
  c.responded = true;
  c.stamps.store_done = shard_.now();
  if (c.stamps.started == 0) c.stamps.started = c.stamps.store_done;
  if (c.stamps.data_ready == 0) c.stamps.data_ready = c.stamps.received;
  --(c.immediate ? session_->immediate : session_->in_flight);
}

void Connection::respond(Command& c) {
  stop_taking(c);
  release_pieces(c);
  if (c.waiting) shard_.forget_waiter(c);
  leave_waits(c);
  if (receiving(c)) {
    c.deferred = true;
    return;
  }
  const bool small_data = c.status == scsi::Status::good && !c.parameter_data && c.expected_in > 0 && !c.data.empty() &&
                          c.phase == scsi::Phase::complete && c.total == 0;
  if (small_data) {
    c.total = static_cast<uint32_t>(std::min<size_t>(c.expected_in, c.data.size()));
    queue_data_in(c, c.data.data(), c.total, nullptr, true);
    return;
  }
  mark_responded(c);
  TransmitPdu& out = queue_pdu(Opcode::scsi_response);
  auto& pdu = as<ScsiResponse>(out.bhs);
  pdu.flags = kFinal;
  pdu.status = static_cast<uint8_t>(c.status);
  pdu.initiator_task_tag = c.initiator_task_tag;
  pdu.residual_count = residual(c, &pdu.flags);
  pdu.exp_data_sn = c.next_data_sn + c.next_r2t_sn;
  if (c.status == scsi::Status::check_condition && c.sense.length > 0) {
    // SenseLength before the sense data (11.4.7.1).
    std::vector<uint8_t> segment{0, c.sense.length};
    const auto sense = c.sense.view();
    segment.insert(segment.end(), sense.begin(), sense.end());
    attach(out, std::move(segment));
  }
  out.command = &c;
  out.last = true;
  ++c.queued_pdus;
  fill_status_sn(out);
}

void Connection::queue_data_in(Command& c, const uint8_t* data, uint32_t length, Piece* piece, bool last) {
  const SessionParameters& p = session_->parameters;
  if (last) mark_responded(c);
  while (length > 0) {
    const uint32_t size = std::min({length, p.initiator_max_recv_data_segment_length, p.max_burst_length - c.burst});
    const bool ends_piece = size == length;
    const bool status = last && ends_piece;
    TransmitPdu& out = queue_pdu(Opcode::data_in);
    auto& pdu = as<DataIn>(out.bhs);
    c.burst += size;
    if (c.burst == p.max_burst_length || status) {
      pdu.flags = kFinal;
      c.burst = 0;
    }
    pdu.initiator_task_tag = c.initiator_task_tag;
    pdu.target_transfer_tag = kReservedTag;
    pdu.data_sn = c.next_data_sn++;
    pdu.buffer_offset = c.emitted;
    attach(out, data, size);
    out.command = &c;
    out.piece = ends_piece ? piece : nullptr;
    ++c.queued_pdus;
    c.emitted += size;
    data += size;
    length -= size;
    if (!status) continue;
    pdu.flags |= DataIn::kStatus;
    pdu.status = static_cast<uint8_t>(c.status);
    pdu.residual_count = residual(c, &pdu.flags);
    out.last = true;
    fill_status_sn(out);
  }
}

void Connection::transmit() {
  in_transmit_list_ = false;
  if (state_ == State::closed || waiting_writable_) return;
  while (queued_ > 0) {
    const bool all = send_some();
    if (state_ == State::closed) return;
    if (!all) {
      wait_writable();
      return;
    }
  }
  if (state_ == State::draining && unanswered() == 0) state_ = State::closing;
  if (state_ == State::closing) {
    linger();
    return;
  }
  if (!stalled_.empty()) {
    std::vector<Command*> turn;
    turn.swap(stalled_);
    for (Command* c : turn) c->stalled = false;
    for (Command* c : turn) resume(*c);
  }
  wait_readable();
}

// One sendmsg. False when the socket takes no more for now.
bool Connection::send_some() {
  iovec iov[limits::kSendIovs];
  size_t entries = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < queued_ && entries + 3 <= limits::kSendIovs; ++i) {
    TransmitPdu& pdu = ring_[(head_ + i) & (ring_.size() - 1)];
    size_t skip = i == 0 ? sent_of_head_ : 0;
    if (skip == 0) {
      auto& numbers = reinterpret_cast<TargetSequenceNumbers&>(pdu.bhs);
      numbers.exp_cmd_sn = session_->exp_cmd_sn;
      numbers.max_cmd_sn = session_->max_cmd_sn();
    }
    const iovec parts[3] = {{&pdu.bhs, kBhsLength},
                            {const_cast<uint8_t*>(pdu.data), pdu.length},
                            {const_cast<uint8_t*>(kPadding), pdu.wire_length() - kBhsLength - pdu.length}};
    for (const iovec& part : parts) {
      if (skip >= part.iov_len) {
        skip -= part.iov_len;
        continue;
      }
      iov[entries++] = {static_cast<uint8_t*>(part.iov_base) + skip, part.iov_len - skip};
      bytes += part.iov_len - skip;
      skip = 0;
    }
  }
  msghdr message{};
  message.msg_iov = iov;
  message.msg_iovlen = entries;
  ssize_t n = 0;
  do {
    n = sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    terminate(std::strerror(errno));
    return false;
  }
  last_sent_ns_ = shard_.tick();
  const auto sent = static_cast<size_t>(n);
  advance_queue(sent);
  return sent == bytes;
}

void Connection::advance_queue(size_t sent) {
  sent_of_head_ += sent;
  while (queued_ > 0 && state_ != State::closed) {
    TransmitPdu& front = ring_[head_];
    const uint32_t length = front.wire_length();
    if (sent_of_head_ < length) return;
    sent_of_head_ -= length;
    queued_bytes_ -= length;
    // What is sent may queue more and move the ring: take what is needed first.
    const Sent done{front.command, front.piece, front.last};
    front.owned = {};
    head_ = (head_ + 1) & (ring_.size() - 1);
    --queued_;
    if (done.command != nullptr) pdu_sent(done);
  }
}

void Connection::pdu_sent(const Sent& done) {
  Command& c = *done.command;
  --c.queued_pdus;
  if (done.piece != nullptr) release_piece(c, *done.piece);
  if (done.last) {
    command_sent(c);
  } else if (c.no_answer) {
    orphan_step(c);
  } else if (done.piece != nullptr) {
    issue_reads(c);
  }
}

void Connection::command_sent(Command& c) {
  c.stamps.sent = shard_.now();
  if (c.lane != nullptr) c.lane->stats->record(c.op_class, c.stamps, c.total, c.status != scsi::Status::good);
  release(c);
}

void Connection::release(Command& c) {
  stop_taking(c);
  leave_stalled(c);
  leave_waits(c);
  if (c.waiting) shard_.forget_waiter(c);
  if (pdu_command_ == &c) {
    pdu_command_ = nullptr;
    out_sequence_ = nullptr;
  }
  release_pieces(c);
  if (!c.responded) --(c.immediate ? session_->immediate : session_->in_flight);
  if (c.lane != nullptr) c.lane->stats->count_finish();
  session_->give_back(c);
}

// A command that waits here may get on by itself meanwhile: when it ends, nothing may point to it.
void Connection::leave_stalled(Command& c) {
  if (!c.stalled) return;
  c.stalled = false;
  std::erase(stalled_, &c);
}

void Connection::clear_transmit_queue() {
  while (queued_ > 0) {
    TransmitPdu& front = ring_[head_];
    Command* c = front.command;
    if (c != nullptr) {
      --c->queued_pdus;
      if (front.piece != nullptr) release_piece(*c, *front.piece);
      if (front.last) release(*c);
    }
    front.owned = {};
    head_ = (head_ + 1) & (ring_.size() - 1);
    --queued_;
  }
  queued_bytes_ = sent_of_head_ = 0;
}

void Connection::wait_writable() {
  if (waiting_writable_) return;
  waiting_writable_ = true;
  socket_.async_wait(TcpSocket::wait_write, [self = shared_from_this()](ErrorCode ec) {
    self->waiting_writable_ = false;
    if (ec || self->state_ == State::closed) return;
    Burst burst(self->shard_);
    self->transmit();
  });
}

}  // namespace zvolt::iscsi
