// Connection, life: from the final Login Response to the close of the socket, and what remains of it afterwards.
#include "target/session/connection.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "target/session/registry.h"

namespace zvolt::iscsi {

Connection::Connection(TcpSocket socket, std::unique_ptr<Session> session, SessionRegistry& registry, std::string peer,
                       uint32_t stat_sn)
    : socket_(std::move(socket)),
      session_(std::move(session)),
      shard_(session_->shard),
      registry_(registry),
      peer_(std::move(peer)),
      stat_sn_(stat_sn),
      linger_timer_(shard_.context()) {}

Connection::~Connection() = default;

void Connection::begin(LoginStep response) {
  Burst burst(shard_);
  TransmitPdu& out = queue_pdu(Opcode::login_response);
  out.bhs = response.header;
  as<LoginResponse>(out.bhs).tsih = session_->tsih;
  attach(out, std::move(response.text));
  fill_status_sn(out);
  spdlog::info("{}: {} logged in to {} (TSIH {}, shard {}, window {})", peer_, session_->parameters.initiator_name,
               session_->parameters.discovery ? "discovery" : session_->parameters.target_name, session_->tsih,
               shard_.index(), session_->window());
  wait_readable();
}

void Connection::drain() {
  if (state_ != State::full_feature) return;
  Burst burst(shard_);
  state_ = State::draining;
  // Nobody comes after them: a rate limit would only make the end late.
  for (size_t i = 0; i < session_->table().size(); ++i) {
    Command* c = session_->table()[i];
    if (c == nullptr || !c->in_limit_queue) continue;
    shard_.limit_queue().forget(*c);
    c->limit_due = 0;
    c->stamps.limit_to = shard_.now();
    resume(*c);
  }
  wake_transmit();
}

// The session is over: the registry forgets it, its commands end. What the store still has runs on.
void Connection::end_session(const std::string& why) {
  if (ended_) return;
  ended_ = true;
  spdlog::info("{}: session of {} ended: {}", peer_, session_->parameters.initiator_name, why);
  registry_.ended(session_->tsih);
  for (size_t i = 0; i < session_->table().size(); ++i) {
    Command* c = session_->table()[i];
    if (c == nullptr || c->responded) continue;
    hold(*c);
    abort_command(*c);
  }
}

void Connection::linger() {
  end_session("logged out or drained");
  state_ = State::lingering;
  shutdown(socket_.native_handle(), SHUT_WR);
  linger_timer_.expires_after(limits::kLingerTimeout);
  linger_timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    if (!ec) self->close_socket();
  });
  wait_readable();
}

void Connection::check_progress() {
  const auto limit = static_cast<uint64_t>(std::chrono::nanoseconds(limits::kStallTimeout).count());
  const uint64_t now = shard_.tick();
  if (state_ == State::closed) return;
  if (queued_ > 0 && now - last_sent_ns_ > limit) {
    terminate("takes no answers");
    return;
  }
  if (now - last_data_out_ns_ <= limit) return;
  for (const Command* c : session_->table()) {
    if (c == nullptr || c->outstanding_r2ts == 0) continue;
    terminate("does not send the data that it was asked for");
    return;
  }
}

void Connection::count_unanswered(Unanswered& sum, uint64_t now) const {
  const auto patience = static_cast<uint64_t>(std::chrono::nanoseconds(limits::kDrainPatience).count());
  const uint64_t moved = std::max(last_sent_ns_, last_data_out_ns_);
  for (const Command* c : session_->table()) {
    if (c == nullptr || c->responded) continue;
    const bool in_store = c->running || c->store_pieces > 0 || c->in_limit_queue || c->waits_for_lane;
    const bool reads = c->op_class == scsi::OpClass::read || c->op_class == scsi::OpClass::other;
    if (in_store) {
      ++(reads ? sum.reads : sum.changes);
    } else {
      ++sum.peer;
      if (now - std::min(now, moved) < patience) ++sum.hopeful;
    }
  }
}

void Connection::terminate(const std::string& why) {
  if (state_ == State::closed) return;
  Burst burst(shard_);
  clear_transmit_queue();
  end_session(why);
  close_socket();
}

void Connection::close_socket() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  clear_transmit_queue();
  pending_tasks_.clear();
  ErrorCode ignored;
  linger_timer_.cancel();
  socket_.close(ignored);
  orphans_ = session_->commands();
  session_->keep_memory_for(orphans_);
  if (orphans_ > 0) self_ = shared_from_this();
  shard_.remove(*this);
}

}  // namespace zvolt::iscsi
