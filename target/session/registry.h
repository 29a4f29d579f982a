// SessionRegistry: all sessions of the daemon, for TSIHs, session reinstatement (RFC 7143 6.3.5) and reports. Any
// thread; a mutex, because logins are rare. Knows sessions by weak reference: their shards own them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "target/login/login.h"
#include "target/server.h"

namespace zvolt::iscsi {

class Connection;
class Shard;

class SessionRegistry {
 public:
  explicit SessionRegistry(std::vector<Shard*> shards);

  struct Admission {
    LoginStatus status = LoginStatus::success;
    uint16_t tsih = 0;
    Shard* shard = nullptr;  // where the session lives: the least loaded, or the old session's
  };
  // A login is about to be granted. On success the TSIH is taken until ended().
  Admission admit(const SessionParameters& parameters, uint16_t portal_group, uint16_t requested_tsih,
                  const std::string& peer);
  // An admitted session is about to begin, on its shard. Logins of one I_T nexus may overlap, so it is decided here who
  // stays: the last one admitted.
  struct TakeOver {
    bool superseded = false;                            // a later login has this session's place: it must not begin
    std::vector<std::shared_ptr<Connection>> replaced;  // on the same shard, to be terminated
  };
  TakeOver take_over(uint16_t tsih) const;
  void began(uint16_t tsih, std::weak_ptr<Connection> connection, uint64_t map_generation);
  void map_changed(uint16_t tsih, uint64_t map_generation);
  void ended(uint16_t tsih);

  std::vector<SessionInfo> list() const;
  size_t size() const;

 private:
  // RFC 7143 3.1: an I_T nexus is the initiator's name and ISID with the target's name and portal group.
  using Key = std::tuple<std::string, std::array<uint8_t, 6>, std::string, uint16_t>;
  struct Entry {
    Key key;
    std::string peer;
    Shard* shard = nullptr;
    std::weak_ptr<Connection> connection;
    uint64_t map_generation = 0;
    bool discovery = false;
  };
  mutable std::mutex mutex_;
  std::vector<Shard*> shards_;
  std::map<uint16_t, Entry> sessions_;
  std::map<Key, uint16_t> by_port_;
  uint16_t next_tsih_ = 1;
};

}  // namespace zvolt::iscsi
