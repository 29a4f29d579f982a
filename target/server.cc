// See server.h. Owns, in this order: targets, shards, registry, acceptors. Accepting is done by one small thread, which
// hands each socket to the shard with the fewest sessions; everything after that happens on shards.
#include "target/server.h"

#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "target/asio.h"
#include "target/limits.h"
#include "target/session/connection.h"
#include "target/session/login_connection.h"
#include "target/session/registry.h"
#include "target/session/shard.h"
#include "target/session/target_table.h"

namespace zvolt::iscsi {

namespace {

constexpr uint64_t kMemoryMin = uint64_t{64} << 20;            // per shard: windows of four sessions and a little
constexpr uint64_t kMemoryMax = uint64_t{512} << 20;           // per shard, when the configuration says nothing
constexpr auto kAcceptPause = std::chrono::milliseconds(200);  // after EMFILE and the like
constexpr auto kDrainPoll = std::chrono::milliseconds(10);

// One eighth of the machine's memory for data buffers unless the configuration says how much.
uint64_t memory_per_shard(const ServerOptions& options) {
  if (options.memory_bytes != 0) return std::max<uint64_t>(options.memory_bytes / options.shards, 4 << 20);
  struct sysinfo info {};
  sysinfo(&info);
  const uint64_t eighth = uint64_t{info.totalram} * info.mem_unit / 8 / options.shards;
  return std::clamp(eighth, kMemoryMin, kMemoryMax);
}

void keep_alive(TcpSocket& socket) {
  const int fd = socket.native_handle();
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &limits::kKeepAliveIdle, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &limits::kKeepAliveInterval, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &limits::kKeepAliveCount, sizeof(int));
}

}  // namespace

struct Server::Impl {
  struct Portal {
    Portal(asio::io_context& context, PortalOptions portal_options)
        : options(std::move(portal_options)), acceptor(context), retry(context) {}
    PortalOptions options;
    TcpAcceptor acceptor;
    Timer retry;
  };

  explicit Impl(ServerOptions server_options)
      : options(std::move(server_options)), targets(options.targets, options.shards) {
    options.shards = std::max(1u, options.shards);
  }

  Result<void> bind(Portal& portal);
  void accept(Portal& portal);
  void accepted(Portal& portal, TcpSocket::native_handle_type fd, const asio::ip::tcp& protocol);
  void stop_accepting();
  void stop_shards();
  uint64_t wait_idle(std::chrono::milliseconds limit);
  template <typename Work>
  uint64_t on_all_shards(Work work);

  ServerOptions options;
  TargetTable targets;
  std::unique_ptr<SessionRegistry> registry;
  std::vector<PortalOptions> bound;
  std::atomic<size_t> logins{0};
  std::unique_ptr<LoginContext> context;
  asio::io_context accept_context{1};
  std::vector<std::unique_ptr<Portal>> portals;
  std::thread accept_thread;
  bool running = false;
  // Last, so that they go first: connections in their queues look at what stands above.
  std::vector<std::unique_ptr<Shard>> shards;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() {
  if (impl_->running) stop(std::chrono::milliseconds(0));
}

Result<void> Server::Impl::bind(Portal& portal) {
  const std::string name = format_address(portal.options.address, portal.options.port);
  ErrorCode ec;
  const auto address = asio::ip::make_address(portal.options.address, ec);
  if (ec) return Error{EINVAL, "listen address " + name + " is not a literal IP address"};
  const asio::ip::tcp::endpoint endpoint(address, portal.options.port);
  portal.acceptor.open(endpoint.protocol(), ec);
  if (!ec) portal.acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), ec);
  // An IPv6 wildcard must not take the IPv4 port too: both may be configured.
  if (!ec && address.is_v6()) portal.acceptor.set_option(asio::ip::v6_only(true), ec);
  if (!ec) portal.acceptor.bind(endpoint, ec);
  if (!ec) portal.acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return Error{ec.value(), "cannot listen on " + name + ": " + ec.message()};
  portal.options.port = portal.acceptor.local_endpoint(ec).port();
  return {};
}

Result<void> Server::start() {
  Impl& s = *impl_;
  for (const PortalOptions& options : s.options.portals) {
    s.portals.push_back(std::make_unique<Impl::Portal>(s.accept_context, options));
    const Result<void> result = s.bind(*s.portals.back());
    if (!result) {
      s.portals.clear();
      return result.error();
    }
    s.bound.push_back(s.portals.back()->options);
  }
  const uint64_t memory = memory_per_shard(s.options);
  std::vector<Shard*> shards;
  for (unsigned i = 0; i < s.options.shards; ++i) {
    backing::EngineOptions engine;
    engine.allow_uring = s.options.allow_uring;
    s.shards.push_back(std::make_unique<Shard>(i, memory, engine));
    shards.push_back(s.shards.back().get());
  }
  s.registry = std::make_unique<SessionRegistry>(shards);
  s.context = std::make_unique<LoginContext>(LoginContext{s.targets, *s.registry, s.bound, s.logins});
  for (Shard* shard : shards) shard->start();
  for (auto& portal : s.portals) s.accept(*portal);
  s.accept_thread = std::thread([&s] {
    pthread_setname_np(pthread_self(), "accept");
    s.accept_context.run();
  });
  s.running = true;
  return {};
}

void Server::Impl::accept(Portal& portal) {
  portal.acceptor.async_wait(TcpAcceptor::wait_read, [this, &portal](ErrorCode ec) {
    if (ec) return;
    ErrorCode failed;
    asio::ip::tcp::endpoint peer;
    TcpSocket socket(accept_context);
    portal.acceptor.non_blocking(true, failed);
    portal.acceptor.accept(socket, peer, failed);
    if (!failed) {
      const int fd = socket.release(failed);
      accepted(portal, fd, peer.protocol());
    } else if (failed == asio::error::no_descriptors || failed == boost::system::errc::too_many_files_open_in_system ||
               failed == boost::system::errc::not_enough_memory || failed == asio::error::no_buffer_space) {
      spdlog::warn("accept on {}: {}; trying again", format_address(portal.options.address, portal.options.port),
                   failed.message());
      portal.retry.expires_after(kAcceptPause);
      portal.retry.async_wait([this, &portal](ErrorCode stopped) {
        if (!stopped) accept(portal);
      });
      return;
    }
    accept(portal);
  });
}

void Server::Impl::accepted(Portal& portal, TcpSocket::native_handle_type fd, const asio::ip::tcp& protocol) {
  if (logins.load(std::memory_order_relaxed) >= limits::kLoginConnections || registry->size() >= limits::kConnections) {
    spdlog::warn("too many connections: {} without a login, {} sessions; one refused",
                 logins.load(std::memory_order_relaxed), registry->size());
    ::close(fd);
    return;
  }
  Shard& shard = **std::min_element(shards.begin(), shards.end(), [](const auto& a, const auto& b) {
    return a->sessions.load(std::memory_order_relaxed) < b->sessions.load(std::memory_order_relaxed);
  });
  asio::post(shard.context(), [this, &shard, fd, protocol, group = portal.options.group] {
    TcpSocket socket(shard.context());
    ErrorCode ec;
    socket.assign(protocol, fd, ec);
    if (ec) {
      ::close(fd);
      return;
    }
    socket.set_option(asio::ip::tcp::no_delay(true), ec);
    keep_alive(socket);
    start_login(shard, std::move(socket), group, *context);
  });
}

std::vector<uint16_t> Server::ports() const {
  std::vector<uint16_t> out;
  for (const PortalOptions& portal : impl_->bound) out.push_back(portal.port);
  return out;
}

// Runs work(shard) on every shard thread and adds up what it returns.
template <typename Work>
uint64_t Server::Impl::on_all_shards(Work work) {
  std::vector<std::future<uint64_t>> answers;
  for (auto& shard : shards) {
    auto task = std::make_shared<std::packaged_task<uint64_t()>>([&work, &shard] { return work(*shard); });
    answers.push_back(task->get_future());
    asio::post(shard->context(), [task] { (*task)(); });
  }
  uint64_t sum = 0;
  for (auto& answer : answers) sum += answer.get();
  return sum;
}

void Server::Impl::stop_accepting() {
  asio::post(accept_context, [this] {
    for (auto& portal : portals) {
      ErrorCode ignored;
      portal->acceptor.close(ignored);
      portal->retry.cancel();
    }
  });
  if (accept_thread.joinable()) accept_thread.join();
}

uint64_t Server::Impl::wait_idle(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const uint64_t left = on_all_shards([](Shard& shard) {
      uint64_t n = 0;
      for (const auto& connection : shard.connections()) n += connection->unanswered();
      return n;
    });
    if (left == 0 || std::chrono::steady_clock::now() >= end) return left;
    std::this_thread::sleep_for(kDrainPoll);
  }
}

void Server::Impl::stop_shards() {
  on_all_shards([](Shard& shard) -> uint64_t {
    const auto connections = shard.connections();
    for (const auto& connection : connections) connection->terminate("the target stops");
    return 0;
  });
  // What the store still works on must be over before its buffers go.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    const uint64_t busy = on_all_shards([](Shard& shard) { return uint64_t{shard.engine().in_flight()}; });
    if (busy == 0) break;
    std::this_thread::sleep_for(kDrainPoll);
  }
  for (auto& shard : shards) shard->stop();
  for (auto& shard : shards) shard->join();
}

uint64_t Server::stop(std::chrono::milliseconds limit) {
  Impl& s = *impl_;
  if (!s.running) return 0;
  s.running = false;
  s.stop_accepting();
  s.on_all_shards([](Shard& shard) -> uint64_t {
    const auto connections = shard.connections();
    for (const auto& connection : connections) connection->drain();
    return 0;
  });
  const uint64_t left = s.wait_idle(limit);
  s.stop_shards();
  return left;
}

std::vector<SessionInfo> Server::sessions() const {
  return impl_->registry ? impl_->registry->list() : std::vector<SessionInfo>();
}

std::vector<std::shared_ptr<stats::LunStats>> Server::lun_stats() const {
  return impl_->targets.all_stats();
}

}  // namespace zvolt::iscsi
