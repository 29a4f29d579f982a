// See server.h. Accepting is done by one small thread (portals.h), which hands each socket to the shard with the fewest
// sessions; everything after that happens on shards.
#include "target/server.h"

#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "target/asio.h"
#include "target/limits.h"
#include "target/portals.h"
#include "target/session/connection.h"
#include "target/session/login_connection.h"
#include "target/session/registry.h"
#include "target/session/shard.h"
#include "target/session/target_table.h"

namespace zvolt::iscsi {

namespace {

constexpr uint64_t kMemoryMin = uint64_t{64} << 20;   // per shard: windows of four sessions and a little
constexpr uint64_t kMemoryMax = uint64_t{512} << 20;  // per shard, when the configuration says nothing
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

using UnitPtr = std::shared_ptr<scsi::LogicalUnit>;

std::vector<UnitPtr> units_only_in(const TargetTable& one, const TargetTable& other) {
  std::set<UnitPtr> units;
  for (const TargetNode& target : one.targets())
    for (const scsi::LunMap::Entry& entry : target.luns->entries) units.insert(entry.unit);
  for (const TargetNode& target : other.targets())
    for (const scsi::LunMap::Entry& entry : target.luns->entries) units.erase(entry.unit);
  return {units.begin(), units.end()};
}

// A volume may come back as another unit (another block size, say) over the same store: nothing of the old one may land
// there after something newer.
void fence_successors(const std::vector<UnitPtr>& gone, const std::vector<UnitPtr>& come) {
  for (const UnitPtr& next : come)
    for (const UnitPtr& old : gone)
      if (&next->store() == &old->store()) next->wait_for_end_of(*old);
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions server_options) : options(std::move(server_options)) {
    options.shards = std::max(1u, options.shards);
  }

  void accepted(TcpSocket::native_handle_type fd, const asio::ip::tcp& protocol, uint16_t group);
  void stop_shards();
  StopReport wait_idle(std::chrono::milliseconds limit);
  ChangeReport switch_sessions(const TargetTable& table);
  template <typename Work>
  uint64_t on_all_shards(Work work);

  ServerOptions options;  // targets and portals: as they were at start
  TargetDirectory directory;
  std::unique_ptr<SessionRegistry> registry;
  std::atomic<size_t> logins{0};
  std::unique_ptr<LoginContext> context;
  PortalSet portals{[this](int fd, const asio::ip::tcp& protocol, uint16_t group) { accepted(fd, protocol, group); }};
  std::mutex change_mutex;  // start, stop and reconfigure: one at a time; guards `running`
  bool running = false;
  // Last, so that they go first: connections in their queues look at what stands above.
  std::vector<std::unique_ptr<Shard>> shards;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

Result<void> Server::start() {
  Impl& s = *impl_;
  const std::lock_guard one_at_a_time(s.change_mutex);
  const auto bound = s.portals.prepare(s.options.portals);
  if (!bound) return bound.error();
  s.directory.replace(std::make_shared<const TargetTable>(s.options.targets, *bound, s.options.shards));
  const uint64_t memory = memory_per_shard(s.options);
  std::vector<Shard*> shards;
  for (unsigned i = 0; i < s.options.shards; ++i) {
    backing::EngineOptions engine;
    engine.allow_uring = s.options.allow_uring;
    s.shards.push_back(std::make_unique<Shard>(i, memory, engine));
    shards.push_back(s.shards.back().get());
  }
  s.registry = std::make_unique<SessionRegistry>(shards);
  s.context = std::make_unique<LoginContext>(LoginContext{s.directory, *s.registry, s.logins});
  for (Shard* shard : shards) shard->start();
  s.portals.commit();
  s.portals.start();
  // They hold the units: a volume that is unmapped later must be able to go.
  s.options.targets.clear();
  s.running = true;
  return {};
}

void Server::Impl::accepted(TcpSocket::native_handle_type fd, const asio::ip::tcp& protocol, uint16_t group) {
  if (logins.load(std::memory_order_relaxed) >= limits::kLoginConnections || registry->size() >= limits::kConnections) {
    spdlog::warn("too many connections: {} without a login, {} sessions; one refused",
                 logins.load(std::memory_order_relaxed), registry->size());
    ::close(fd);
    return;
  }
  Shard& shard = **std::min_element(shards.begin(), shards.end(), [](const auto& a, const auto& b) {
    return a->sessions.load(std::memory_order_relaxed) < b->sessions.load(std::memory_order_relaxed);
  });
  asio::post(shard.context(), [this, &shard, fd, protocol, group] {
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
  if (const auto table = impl_->directory.current())
    for (const PortalOptions& portal : table->portals()) out.push_back(portal.port);
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

StopReport Server::Impl::wait_idle(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    std::mutex mutex;
    Connection::Unanswered sum;
    on_all_shards([&](Shard& shard) -> uint64_t {
      const std::lock_guard lock(mutex);
      for (const auto& connection : shard.connections()) connection->count_unanswered(sum, shard.tick());
      return 0;
    });
    const bool idle = sum.changes + sum.reads + sum.hopeful == 0;
    if (idle || std::chrono::steady_clock::now() >= end) return {sum.changes, sum.reads, sum.peer};
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
  const StopReport report = stop_and_report(limit);
  return report.changes + report.reads + report.peer;
}

StopReport Server::stop_and_report(std::chrono::milliseconds limit) {
  Impl& s = *impl_;
  const std::lock_guard one_at_a_time(s.change_mutex);
  if (!s.running) return {};
  s.running = false;
  s.portals.stop();
  s.on_all_shards([](Shard& shard) -> uint64_t {
    const auto connections = shard.connections();
    for (const auto& connection : connections) connection->drain();
    return 0;
  });
  const StopReport left = s.wait_idle(limit);
  s.stop_shards();
  return left;
}

ChangeReport Server::Impl::switch_sessions(const TargetTable& table) {
  std::atomic<unsigned> changed{0}, leaving{0};
  on_all_shards([&](Shard& shard) -> uint64_t {
    const auto connections = shard.connections();
    for (const auto& connection : connections) {
      const Connection::Followed followed = connection->follow(table, options.logout_time);
      if (followed == Connection::Followed::changed) ++changed;
      if (followed == Connection::Followed::leaving) ++leaving;
    }
    return 0;
  });
  return {table.generation(), changed, leaving};
}

Result<ChangeReport> Server::reconfigure(ServerChange change) {
  Impl& s = *impl_;
  const std::lock_guard one_at_a_time(s.change_mutex);
  if (!s.running) return Error{ECANCELED, "the server does not run"};
  const auto bound = s.portals.prepare(change.portals);
  if (!bound) return bound.error();
  const auto before = s.directory.current();
  const auto after =
      std::make_shared<const TargetTable>(std::move(change.targets), *bound, s.options.shards, before.get());
  const std::vector<UnitPtr> gone = units_only_in(*before, *after);
  fence_successors(gone, units_only_in(*after, *before));
  s.directory.replace(after);
  s.portals.commit();
  const ChangeReport report = s.switch_sessions(*after);
  for (const UnitPtr& unit : gone) unit->give_up();
  spdlog::info("configuration {}: {} sessions have other LUNs, {} were asked to log out", report.generation,
               report.sessions_changed, report.sessions_leaving);
  return report;
}

std::vector<SessionInfo> Server::sessions() const {
  return impl_->registry ? impl_->registry->list() : std::vector<SessionInfo>();
}

std::vector<std::shared_ptr<stats::LunStats>> Server::lun_stats() const {
  const auto table = impl_->directory.current();
  return table == nullptr ? std::vector<std::shared_ptr<stats::LunStats>>() : table->all_stats();
}

}  // namespace zvolt::iscsi
