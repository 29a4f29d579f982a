// LoginConnection: a connection until its login is decided (RFC 7143 section 6): a coroutine on whichever shard
// accepted it. It reads exactly the bytes of each Login Request, so nothing is read ahead when the socket moves to its
// session's shard, where a Connection carries on.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "target/asio.h"
#include "target/login/login.h"
#include "target/server.h"
#include "target/session/registry.h"
#include "target/session/target_table.h"

namespace zvolt::iscsi {

// What logins need of the server. Outlives all connections.
struct LoginContext {
  const TargetDirectory& targets;
  SessionRegistry& registry;
  std::atomic<size_t>& logins;  // connections that are not logged in
};

// Runs the login of an accepted socket; the coroutine keeps itself alive. Call on the shard's thread.
void start_login(Shard& shard, TcpSocket socket, uint16_t portal_group, LoginContext& context);

}  // namespace zvolt::iscsi
