// PortalSet: the listening sockets of the server and the small thread that accepts on them. A change is made in two
// steps, so that one that cannot be made changes nothing: prepare() binds what is new, commit() begins to accept there
// and closes what goes. Calls: one at a time, on any thread but the accept thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "target/asio.h"
#include "target/server.h"

namespace zvolt::iscsi {

class PortalSet {
 public:
  // A connection was accepted on a portal of this group; on the accept thread. Takes the descriptor.
  using Accepted = std::function<void(int fd, const asio::ip::tcp& protocol, uint16_t group)>;
  explicit PortalSet(Accepted accepted) : accepted_(std::move(accepted)) {}
  ~PortalSet() { stop(); }

  // Binds the portals that are not there yet. Returns all that are wanted, in that order, with the ports they really
  // have. Where a new address overlaps one that goes (0.0.0.0 and 192.0.2.1 on one port), the old one is closed for it,
  // and bound again should something fail.
  Result<std::vector<PortalOptions>> prepare(const std::vector<PortalOptions>& wanted);
  void commit();
  void start();  // the thread; after the first prepare() and commit()
  void stop();   // no connection is accepted after it

 private:
  struct Portal {
    Portal(asio::io_context& context, PortalOptions options)
        : wanted(options), bound(std::move(options)), acceptor(context), retry(context) {}
    PortalOptions wanted, bound;  // bound: with the real port
    TcpAcceptor acceptor;
    Timer retry;
  };
  using PortalPtr = std::shared_ptr<Portal>;  // handlers share it: it may be closed under them
  struct Change {
    std::vector<PortalPtr> next, fresh, going;
    std::vector<uint16_t> groups;  // parallel to next
  };

  void run(const std::function<void()>& work);  // on the accept thread, while there is one
  Result<std::vector<PortalOptions>> prepare_here(const std::vector<PortalOptions>& wanted);
  Result<void> bind_fresh(const Change& change, std::vector<PortalPtr>& closed);
  void reopen(const std::vector<PortalPtr>& closed);
  static Result<void> bind(Portal& portal, const PortalOptions& where);
  static void close(Portal& portal);
  void accept(const PortalPtr& portal);

  Accepted accepted_;
  asio::io_context context_{1};
  std::vector<PortalPtr> portals_;
  Change change_;
  std::thread thread_;
};

}  // namespace zvolt::iscsi
