// Connection, a change of the configuration: the session gets its target's new LUN map, or is asked to go because its
// target is gone or no longer its own (RFC 7143 11.9.1, event 1). Called by the server on the session's shard.
#include <spdlog/spdlog.h>

#include "target/session/connection.h"
#include "target/session/registry.h"
#include "target/session/target_table.h"

namespace zvolt::iscsi {

Connection::Followed Connection::follow(const TargetTable& table, std::chrono::seconds logout_time) {
  if (ended_ || leaving_ || session_->parameters.discovery) return Followed::unchanged;
  const scsi::NexusNames& names = session_->nexus.names();
  const LoginStatus status = table.check_target(names.target, names.initiator, names.relative_port);
  if (status != LoginStatus::success) {
    request_logout(logout_time);
    return Followed::leaving;
  }
  const TargetNode& target = *table.find(names.target);
  if (!session_->replace_map(target.luns, table.unit_stats(target))) return Followed::unchanged;
  registry_.map_changed(session_->tsih, table.generation());
  spdlog::info("{}: {} has another LUN map of {}: {} LUNs", peer_, names.initiator, names.target,
               target.luns->entries.size());
  return Followed::changed;
}

// From now on there are no LUNs. A peer that does not log out in time is cut off.
void Connection::request_logout(std::chrono::seconds time) {
  leaving_ = true;
  session_->replace_map(std::make_shared<const scsi::LunMap>(), {});
  if (state_ != State::full_feature && state_ != State::draining) return;
  spdlog::info("{}: {} may not use {} any more, asked to log out within {} s", peer_,
               session_->parameters.initiator_name, session_->parameters.target_name, time.count());
  Burst burst(shard_);
  constexpr uint8_t kLogoutRequest = 1;
  TransmitPdu& out = queue_pdu(Opcode::async_message);
  auto& message = as<AsyncMessage>(out.bhs);
  message.flags = kFinal;
  message.tag = kReservedTag;
  message.event = kLogoutRequest;
  message.parameter3 = static_cast<uint16_t>(time.count());
  fill_status_sn(out);
  linger_timer_.expires_after(time);
  linger_timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    if (!ec) self->terminate("asked to log out, did not");
  });
}

}  // namespace zvolt::iscsi
