// See daemon.h.
#include "target/daemon/daemon.h"

#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "target/daemon/admin_api.h"
#include "target/daemon/admin_http.h"
#include "target/daemon/composition.h"
#include "target/daemon/final_flush.h"
#include "target/daemon/logging.h"
#include "target/daemon/notify.h"
#include "target/daemon/state_dir.h"

namespace zvolt::daemon {
namespace {

using std::chrono::milliseconds;

// How long the end may take. systemd kills after 90 s; what is still wrong by then must have been said before.
constexpr milliseconds kDrainLimit{10'000};  // commands in flight are answered
constexpr milliseconds kFlushLimit{20'000};  // stores make everything durable
constexpr milliseconds kStopLimit{75'000};   // all of it, with what the server waits for inside stop()

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

class Descriptors {
 public:
  Descriptors() {
    const sigset_t set = handled_signals();
    signals = ::signalfd(-1, &set, SFD_CLOEXEC);
    drained = ::eventfd(0, EFD_CLOEXEC);
  }
  ~Descriptors() {
    ::close(signals);
    ::close(drained);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  bool ok() const { return signals >= 0 && drained >= 0; }

  int signals = -1;
  int drained = -1;  // readable when the drain thread is done
};

// Next signal, 0 when `limit` (-1: none) has passed or `other` is readable.
int wait_signal(int signals, int other, int limit_ms) {
  pollfd waits[2] = {{signals, POLLIN, 0}, {other, POLLIN, 0}};
  const int n = ::poll(waits, other < 0 ? 1 : 2, limit_ms);
  if (n <= 0 || (waits[0].revents & POLLIN) == 0) return 0;
  signalfd_siginfo info{};
  if (::read(signals, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

void wait_for_end(int signals) {
  for (;;) {
    const int signal = wait_signal(signals, -1, -1);
    if (signal == SIGHUP) {
      spdlog::warn("SIGHUP: reloading the configuration is not supported yet; nothing changes");
    } else if (signal != 0) {
      spdlog::info("{}: draining", signal == SIGTERM ? "SIGTERM" : "SIGINT");
      return;
    }
  }
}

// Without running destructors: something of ours still belongs to the kernel or to a thread that does not end.
[[noreturn]] void leave_at_once() {
  stop_logging();
  ::_exit(1);
}

struct Outcome {
  uint64_t unanswered = 0;
  FlushReport flush;
};

void report(const Outcome& outcome) {
  if (outcome.unanswered > 0)
    spdlog::error("{} commands were not answered in time; what they wrote may be lost", outcome.unanswered);
  for (const std::string& lost : outcome.flush.lost) spdlog::error("{}", lost);
}

// The drain runs in a thread of its own, because stores can hang for ever: the main thread keeps the time and listens
// for the operator's second signal.
int drain(iscsi::Server& server, const Composition& composition, const Descriptors& fds) {
  notify_service_manager("STOPPING=1");
  Outcome outcome;
  std::thread worker([&] {
    outcome.unanswered = server.stop(kDrainLimit);
    outcome.flush = flush_all(composition.volumes, kFlushLimit);
    const uint64_t one = 1;
    static_cast<void>(!::write(fds.drained, &one, sizeof one));
  });
  const auto end = std::chrono::steady_clock::now() + kStopLimit;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int signal = left > 0 ? wait_signal(fds.signals, fds.drained, static_cast<int>(left)) : 0;
    if (signal == SIGHUP) continue;
    if (signal != 0) {
      spdlog::error("second signal: ended without waiting; writes in flight and what was not flushed may be lost");
      leave_at_once();
    }
    pollfd done{fds.drained, POLLIN, 0};
    if (::poll(&done, 1, 0) == 1) break;
    if (left > 0) continue;
    spdlog::error("the stores did not come to rest in time; writes in flight and what was not flushed may be lost");
    leave_at_once();
  }
  worker.join();
  report(outcome);
  if (outcome.flush.stuck) leave_at_once();
  const bool lost = outcome.unanswered > 0 || !outcome.flush.lost.empty();
  if (!lost) spdlog::info("drained and flushed, ending");
  return lost ? 1 : 0;
}

int fail(const Error& error) {
  spdlog::error("{}", error.message);
  return 1;
}

void log_start(const Composition& composition, const iscsi::Server& server) {
  for (const OpenVolume& volume : composition.volumes)
    spdlog::info("volume {}: {}, {} blocks of {}, uuid {}{}", volume.config.name, volume.store->describe(),
                 volume.unit->blocks(), volume.unit->block_size(), uuid_text(volume.uuid),
                 volume.unit->read_only() ? ", read-only" : "");
  const auto ports = server.ports();
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto& portal = composition.server.portals[i];
    const bool v6 = portal.address.find(':') != std::string::npos;
    spdlog::info("listening on {}{}{}:{}, portal group {}", v6 ? "[" : "", portal.address, v6 ? "]" : "", ports[i],
                 portal.group);
  }
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int run(const config::Config& config) {
  const Descriptors fds;
  if (!fds.ok()) return fail({errno, std::string("cannot wait for signals: ") + std::strerror(errno)});
  const auto state = StateDir::open(config.state_dir);
  if (!state) return fail(state.error());
  AdminHttp admin;
  const auto bound = admin.bind(config.admin_socket);
  if (!bound) return fail(bound.error());
  const auto composition = compose(config, *state);
  if (!composition) return fail(composition.error());
  iscsi::Server server(composition->server);
  const auto started = server.start();
  if (!started) return fail(started.error());
  const AdminApi api(config, *composition, server);
  admin.start([&api](const AdminRequest& request) { return api.handle(request); });

  log_start(*composition, server);
  spdlog::info("zvoltd {} ready: {} targets, {} threads, admin socket {}", ZVOLT_VERSION, config.targets.size(),
               composition->server.shards, config.admin_socket);
  notify_service_manager("READY=1");
  wait_for_end(fds.signals);
  const int status = drain(server, *composition, fds);
  admin.stop();
  return status;
}

}  // namespace zvolt::daemon
