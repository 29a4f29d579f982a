// See registry.h.
#include "target/session/registry.h"

#include <algorithm>

#include "target/session/shard.h"

namespace zvolt::iscsi {

SessionRegistry::SessionRegistry(std::vector<Shard*> shards) : shards_(std::move(shards)) {}

SessionRegistry::Admission SessionRegistry::admit(const SessionParameters& parameters, uint16_t portal_group,
                                                  uint16_t requested_tsih, const std::string& peer) {
  const std::lock_guard lock(mutex_);
  Admission admission;
  if (requested_tsih != 0) {
    // A second connection of a session: MaxConnections is 1, so either there is no such session or it is full.
    admission.status =
        sessions_.contains(requested_tsih) ? LoginStatus::too_many_connections : LoginStatus::session_does_not_exist;
    return admission;
  }
  if (sessions_.size() >= limits::kConnections) {
    admission.status = LoginStatus::out_of_resources;
    return admission;
  }
  Entry entry;
  entry.key = {parameters.initiator_name, parameters.isid, parameters.target_name, portal_group};
  entry.peer = peer;
  entry.discovery = parameters.discovery;
  const auto load = [](const Shard* shard) {
    return std::pair(shard->short_of_memory.load(std::memory_order_relaxed),
                     shard->sessions.load(std::memory_order_relaxed));
  };
  entry.shard = *std::min_element(shards_.begin(), shards_.end(),
                                  [&](const Shard* a, const Shard* b) { return load(a) < load(b); });
  if (!parameters.discovery) {
    if (const auto old = by_port_.find(entry.key); old != by_port_.end()) entry.shard = sessions_.at(old->second).shard;
  }
  while (next_tsih_ == 0 || sessions_.contains(next_tsih_)) ++next_tsih_;
  admission.tsih = next_tsih_++;
  admission.shard = entry.shard;
  entry.shard->sessions.fetch_add(1, std::memory_order_relaxed);
  if (!parameters.discovery) by_port_[entry.key] = admission.tsih;
  sessions_.emplace(admission.tsih, std::move(entry));
  return admission;
}

SessionRegistry::TakeOver SessionRegistry::take_over(uint16_t tsih) const {
  const std::lock_guard lock(mutex_);
  TakeOver result;
  const auto it = sessions_.find(tsih);
  if (it == sessions_.end() || it->second.discovery) return result;
  result.superseded = by_port_.at(it->second.key) != tsih;
  if (result.superseded) return result;
  for (const auto& [other, entry] : sessions_) {
    if (other == tsih || entry.discovery || entry.key != it->second.key) continue;
    if (auto old = entry.connection.lock()) result.replaced.push_back(std::move(old));
  }
  return result;
}

void SessionRegistry::began(uint16_t tsih, std::weak_ptr<Connection> connection, uint64_t map_generation) {
  const std::lock_guard lock(mutex_);
  const auto it = sessions_.find(tsih);
  if (it == sessions_.end()) return;
  it->second.connection = std::move(connection);
  it->second.map_generation = map_generation;
}

void SessionRegistry::map_changed(uint16_t tsih, uint64_t map_generation) {
  const std::lock_guard lock(mutex_);
  if (const auto it = sessions_.find(tsih); it != sessions_.end()) it->second.map_generation = map_generation;
}

void SessionRegistry::ended(uint16_t tsih) {
  const std::lock_guard lock(mutex_);
  const auto it = sessions_.find(tsih);
  if (it == sessions_.end()) return;
  it->second.shard->sessions.fetch_sub(1, std::memory_order_relaxed);
  // A session that reinstates this one has taken its place there.
  if (const auto port = by_port_.find(it->second.key); port != by_port_.end() && port->second == tsih)
    by_port_.erase(port);
  sessions_.erase(it);
}

std::vector<SessionInfo> SessionRegistry::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionInfo> out;
  for (const auto& [tsih, entry] : sessions_) {
    SessionInfo info;
    info.initiator = std::get<0>(entry.key);
    info.target = entry.discovery ? "" : std::get<2>(entry.key);
    info.address = entry.peer;
    info.tsih = tsih;
    info.shard = entry.shard->index();
    info.map_generation = entry.map_generation;
    out.push_back(std::move(info));
  }
  return out;
}

size_t SessionRegistry::size() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

}  // namespace zvolt::iscsi
