// AdminApi: what the admin endpoint answers: JSON about the running daemon. A table of paths; pure reads of state that
// other threads change. Called on the admin thread. zvoltctl is its client; the replies are documented in README.md
// here.
#pragma once

#include <chrono>
#include <string>

#include "config/model.h"
#include "target/daemon/admin_http.h"
#include "target/daemon/composition.h"

namespace zvolt::daemon {

class AdminApi {
 public:
  // All must outlive this object.
  AdminApi(const config::Config& config, const Composition& composition, const iscsi::Server& server);
  AdminReply handle(const AdminRequest& request) const;

 private:
  const config::Config& config_;
  const Composition& composition_;
  const iscsi::Server& server_;
  std::chrono::system_clock::time_point started_;
};

}  // namespace zvolt::daemon
