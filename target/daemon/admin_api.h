// AdminApi: what the admin endpoint answers: JSON about the running daemon, and orders to change it. A table of paths.
// What only reads state is answered on the admin thread; what may block (plan, apply, offline, resize) is done by a
// worker and answered when it is done, so that it holds up nobody. zvoltctl is its client; the replies are documented
// in README.md here.
#pragma once

#include <chrono>
#include <string>

#include "target/daemon/admin_http.h"
#include "target/daemon/apply.h"
#include "target/daemon/worker.h"

namespace zvolt::daemon {

class AdminApi {
 public:
  // All must outlive this object.
  AdminApi(Control& control, const iscsi::Server& server, Worker& worker);
  // `answer` is called once, here or later on a worker's thread.
  void handle(const AdminRequest& request, AdminHttp::Answer answer) const;

 private:
  Control& control_;
  const iscsi::Server& server_;
  Worker& worker_;
  std::chrono::system_clock::time_point started_;
};

}  // namespace zvolt::daemon
