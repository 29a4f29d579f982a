// AdminHttp: HTTP/1.1 on a Unix socket: reads requests, asks the handler, writes its reply. Knows nothing of what is
// asked. Runs on one thread of its own, on which the handler is called too; the handler may answer later, on any
// thread, so that a long request holds up no other. Everything that a client can make grow is bounded, and a client
// that sends nothing loses its place to the next one that comes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backing/result.h"

namespace zvolt::daemon {

struct AdminRequest {
  std::string method;  // "GET"
  std::string target;  // "/api/stats?lun=a"
};

struct AdminReply {
  unsigned status = 200;
  std::string body;  // JSON
};

class AdminHttp {
 public:
  // Called once per request, from any thread; after stop() it does nothing.
  using Answer = std::function<void(AdminReply)>;
  using Handler = std::function<void(const AdminRequest&, Answer)>;

  AdminHttp();
  ~AdminHttp();  // stops, and removes the socket

  // Binds the socket (mode 0600). A socket file that nobody answers on is replaced; a missing directory is created.
  Result<void> bind(const std::string& path);
  // Starts to answer. The handler must be callable until stop().
  void start(Handler handler);
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zvolt::daemon
