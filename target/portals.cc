// See portals.h.
#include "target/portals.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>

#include "target/session/target_table.h"

namespace zvolt::iscsi {

namespace {
constexpr auto kAcceptPause = std::chrono::milliseconds(200);  // after EMFILE and the like

bool out_of_resources(const ErrorCode& ec) {
  return ec == asio::error::no_descriptors || ec == boost::system::errc::too_many_files_open_in_system ||
         ec == boost::system::errc::not_enough_memory || ec == asio::error::no_buffer_space;
}
}  // namespace

void PortalSet::run(const std::function<void()>& work) {
  if (!thread_.joinable()) return work();
  std::promise<void> done;
  asio::post(context_, [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

Result<std::vector<PortalOptions>> PortalSet::prepare(const std::vector<PortalOptions>& wanted) {
  Result<std::vector<PortalOptions>> result{std::vector<PortalOptions>()};
  run([&] { result = prepare_here(wanted); });
  return result;
}

Result<std::vector<PortalOptions>> PortalSet::prepare_here(const std::vector<PortalOptions>& wanted) {
  Change change;
  change.going = portals_;
  for (const PortalOptions& options : wanted) {
    const auto known = std::find_if(change.going.begin(), change.going.end(), [&](const PortalPtr& it) {
      return it->wanted.address == options.address && it->wanted.port == options.port;
    });
    change.groups.push_back(options.group);
    if (known != change.going.end()) {
      change.next.push_back(*known);
      change.going.erase(known);
      continue;
    }
    change.fresh.push_back(std::make_shared<Portal>(context_, options));
    change.next.push_back(change.fresh.back());
  }
  std::vector<PortalPtr> closed;
  const Result<void> bound = bind_fresh(change, closed);
  if (!bound) {
    for (const PortalPtr& portal : change.fresh) close(*portal);
    reopen(closed);
    return bound.error();
  }
  std::vector<PortalOptions> out;
  for (size_t i = 0; i < change.next.size(); ++i) {
    out.push_back(change.next[i]->bound);
    out.back().group = change.groups[i];
  }
  change_ = std::move(change);
  return out;
}

Result<void> PortalSet::bind_fresh(const Change& change, std::vector<PortalPtr>& closed) {
  for (const PortalPtr& portal : change.fresh) {
    Result<void> bound = bind(*portal, portal->wanted);
    if (!bound && bound.error().code == EADDRINUSE) {
      // Perhaps by one that goes.
      for (const PortalPtr& old : change.going) {
        if (!old->acceptor.is_open() || old->bound.port != portal->wanted.port) continue;
        close(*old);
        closed.push_back(old);
      }
      bound = bind(*portal, portal->wanted);
    }
    if (!bound) return bound;
  }
  return {};
}

void PortalSet::reopen(const std::vector<PortalPtr>& closed) {
  for (const PortalPtr& portal : closed) {
    const Result<void> again = bind(*portal, portal->bound);
    if (!again) {
      spdlog::error("{} after a change that failed", again.error().message);
      continue;
    }
    accept(portal);
  }
}

void PortalSet::commit() {
  run([&] {
    for (size_t i = 0; i < change_.next.size(); ++i)
      change_.next[i]->bound.group = change_.next[i]->wanted.group = change_.groups[i];
    for (const PortalPtr& portal : change_.going) close(*portal);
    for (const PortalPtr& portal : change_.fresh) accept(portal);
    portals_ = std::move(change_.next);
    change_ = {};
  });
}

void PortalSet::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "accept");
    const auto keep = asio::make_work_guard(context_);
    context_.run();
  });
}

void PortalSet::stop() {
  if (!thread_.joinable()) return;
  run([&] {
    for (const PortalPtr& portal : portals_) close(*portal);
  });
  context_.stop();
  thread_.join();
}

Result<void> PortalSet::bind(Portal& portal, const PortalOptions& where) {
  const std::string name = format_address(where.address, where.port);
  ErrorCode ec;
  const auto address = asio::ip::make_address(where.address, ec);
  if (ec) return Error{EINVAL, "listen address " + name + " is not a literal IP address"};
  const asio::ip::tcp::endpoint endpoint(address, where.port);
  close(portal);
  portal.acceptor.open(endpoint.protocol(), ec);
  if (!ec) portal.acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), ec);
  // An IPv6 wildcard must not take the IPv4 port too: both may be configured.
  if (!ec && address.is_v6()) portal.acceptor.set_option(asio::ip::v6_only(true), ec);
  if (!ec) portal.acceptor.bind(endpoint, ec);
  if (!ec) portal.acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return Error{ec.value(), "cannot listen on " + name + ": " + ec.message()};
  portal.bound.port = portal.acceptor.local_endpoint(ec).port();
  return {};
}

void PortalSet::close(Portal& portal) {
  ErrorCode ignored;
  portal.acceptor.close(ignored);
  portal.retry.cancel();
}

void PortalSet::accept(const PortalPtr& portal) {
  portal->acceptor.async_wait(TcpAcceptor::wait_read, [this, portal](ErrorCode ec) {
    if (ec || !portal->acceptor.is_open()) return;
    ErrorCode failed;
    asio::ip::tcp::endpoint peer;
    TcpSocket socket(context_);
    portal->acceptor.non_blocking(true, failed);
    portal->acceptor.accept(socket, peer, failed);
    if (!failed) {
      const int fd = socket.release(failed);
      accepted_(fd, peer.protocol(), portal->bound.group);
    } else if (out_of_resources(failed)) {
      spdlog::warn("accept on {}: {}; trying again", format_address(portal->bound.address, portal->bound.port),
                   failed.message());
      portal->retry.expires_after(kAcceptPause);
      portal->retry.async_wait([this, portal](ErrorCode stopped) {
        if (!stopped && portal->acceptor.is_open()) accept(portal);
      });
      return;
    }
    accept(portal);
  });
}

}  // namespace zvolt::iscsi
