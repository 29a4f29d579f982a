// Connection, receive side: bytes -> PDUs. One wake-up reads as many PDUs as have arrived into the shard's read-ahead
// and parses them there; payload of large segments is received straight into its final buffer together with what
// follows it.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

void Connection::wait_readable() {
  if (waiting_readable_ || state_ == State::closed || !may_read()) return;
  waiting_readable_ = true;
  socket_.async_wait(TcpSocket::wait_read, [self = shared_from_this()](ErrorCode ec) {
    self->waiting_readable_ = false;
    if (ec || self->state_ == State::closed) return;
    self->on_readable();
  });
}

// A peer that does not read its answers is not read either: this is what bounds the transmit queue.
bool Connection::may_read() const {
  if (state_ == State::lingering) return true;
  return (state_ == State::full_feature || state_ == State::draining) && queued_bytes_ < limits::kTransmitQueueBytes &&
         queued_ < limits::kTransmitQueuePdus && session_->commands() < limits::kSessionCommands - 1;
}

void Connection::on_readable() {
  Burst burst(shard_);
  size_t budget = limits::kReceiveBudget;
  while (budget > 0 && may_read()) {
    const size_t got = receive_once(budget);
    if (got == 0) break;
    budget -= std::min(budget, got);
  }
  wait_readable();
}

// One recvmsg. Returns the bytes taken when there may be more, 0 when the socket is empty or finished.
size_t Connection::receive_once(size_t budget) {
  iovec iov[2];
  size_t direct = 0;  // bytes that land in their final place
  int entries = 0;
  size_t room = 0;
  if (uint8_t* target = direct_target(&room); target != nullptr) {
    direct = std::min(room, budget);
    iov[entries++] = {target, direct};
  }
  const size_t ahead = read_ahead_size();
  iov[entries++] = {shard_.read_ahead(), ahead};
  msghdr message{};
  message.msg_iov = iov;
  message.msg_iovlen = static_cast<size_t>(entries);
  ssize_t n = 0;
  do {
    n = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (n <= 0) {
    if (state_ == State::lingering) {
      close_socket();
    } else {
      terminate(n == 0 ? "closed by the initiator" : std::strerror(errno));
    }
    return 0;
  }
  const auto got = static_cast<size_t>(n);
  const size_t in_place = std::min(got, direct);
  if (in_place > 0) payload_arrived(in_place);
  consume(shard_.read_ahead(), got - in_place);
  // A short read says that the socket is empty: asking again would only cost an EAGAIN.
  return got < direct + ahead ? 0 : got;
}

size_t Connection::read_ahead_size() const {
  return large_expected_ ? limits::kReadAheadLarge : limits::kReadAhead;
}

// Where the rest of the current payload can be received without a copy.
uint8_t* Connection::direct_target(size_t* size) {
  if (receive_ != Receive::payload || state_ == State::lingering) return nullptr;
  *size = payload_left_;
  if (sink_ == Sink::command) return out_target(*out_command_, out_offset_, size);
  if (sink_ == Sink::owned) return owned_.data() + (owned_.size() - payload_left_);
  return nullptr;
}

void Connection::consume(const uint8_t* data, size_t size) {
  while (size > 0 && (state_ == State::full_feature || state_ == State::draining)) {
    size_t used = 0;
    switch (receive_) {
      case Receive::header: {
        used = std::min<size_t>(size, header_need_ - header_have_);
        auto* header = reinterpret_cast<uint8_t*>(&bhs_);
        // The AHS follows the BHS; both are gathered byte by byte where a segment boundary cuts them.
        for (size_t i = 0; i < used;) {
          const bool in_bhs = header_have_ < kBhsLength;
          const size_t room = in_bhs ? kBhsLength - header_have_ : header_need_ - header_have_;
          const size_t n = std::min(used - i, room);
          std::memcpy(in_bhs ? header + header_have_ : ahs_.data() + (header_have_ - kBhsLength), data + i, n);
          header_have_ += static_cast<uint32_t>(n);
          i += n;
        }
        if (header_have_ == kBhsLength && header_need_ == kBhsLength) header_need_ += bhs_.ahs_bytes();
        if (header_have_ == header_need_) header_complete();
        break;
      }
      case Receive::payload:
        used = std::min<size_t>(size, payload_left_);
        consume_payload(data, used);
        break;
      case Receive::padding:
        used = std::min<size_t>(size, padding_left_);
        padding_left_ -= static_cast<uint32_t>(used);
        if (padding_left_ == 0) payload_complete();
        break;
    }
    data += used;
    size -= used;
  }
}

void Connection::consume_payload(const uint8_t* data, size_t size) {
  while (size > 0 && state_ != State::closed) {
    size_t room = 0;
    uint8_t* target = direct_target(&room);
    const size_t n = target == nullptr ? size : std::min(size, room);
    if (target != nullptr) std::memcpy(target, data, n);
    payload_arrived(n);
    data += n;
    size -= n;
  }
}

// `size` bytes of payload are where direct_target() said (or were thrown away).
void Connection::payload_arrived(size_t size) {
  payload_left_ -= static_cast<uint32_t>(size);
  if (sink_ == Sink::command) {
    const uint32_t offset = out_offset_;
    out_offset_ += static_cast<uint32_t>(size);
    out_arrived(*out_command_, offset, size);
  }
  if (payload_left_ > 0) return;
  if (padding_left_ > 0) {
    receive_ = Receive::padding;
  } else {
    payload_complete();
  }
}

void Connection::header_complete() {
  const uint32_t length = bhs_.data_bytes();
  if (length > session_->parameters.target_max_recv_data_segment_length) {
    protocol_error("data segment longer than MaxRecvDataSegmentLength");
    return;
  }
  payload_left_ = length;
  padding_left_ = bhs_.padded_data_bytes() - length;
  large_expected_ = length >= limits::kLargeSegment;
  sink_ = Sink::discard;
  out_command_ = nullptr;
  pdu_command_ = nullptr;
  out_sequence_ = nullptr;
  begin_pdu();
  if (state_ != State::full_feature && state_ != State::draining) return;
  receive_ = Receive::payload;
  if (length == 0) payload_complete();
}

void Connection::payload_complete() {
  receive_ = Receive::header;
  header_have_ = 0;
  header_need_ = kBhsLength;
  end_pdu();
}

}  // namespace zvolt::iscsi
