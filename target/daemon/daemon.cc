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

#include "target/daemon/admin_answer.h"
#include "target/daemon/admin_api.h"
#include "target/daemon/admin_http.h"
#include "target/daemon/apply.h"
#include "target/daemon/composition.h"
#include "target/daemon/final_flush.h"
#include "target/daemon/logging.h"
#include "target/daemon/notify.h"
#include "target/daemon/pulse.h"
#include "target/daemon/state_dir.h"
#include "target/daemon/worker.h"

namespace zvolt::daemon {
namespace {

using std::chrono::milliseconds;

// How long the end may take. systemd kills after 90 s; what is still wrong by then must have been said before.
constexpr milliseconds kOrderLimit{15'000};  // an apply that has begun comes to its end
constexpr milliseconds kDrainLimit{10'000};  // commands in flight are answered
constexpr milliseconds kFlushLimit{20'000};  // stores make everything durable
constexpr milliseconds kStopLimit{80'000};   // all of it, with what the server waits for inside stop()
constexpr milliseconds kTendEvery{2'000};    // journals and volumes that were not there are looked for
constexpr milliseconds kWatchLimit{2'000};   // watchers that look at a device right now
constexpr milliseconds kCloseLimit{5'000};   // stores are closed

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

void wait_for_end(int signals, Control& control, Worker& worker) {
  for (;;) {
    const int signal = wait_signal(signals, -1, -1);
    if (signal == SIGHUP) {
      spdlog::info("SIGHUP: applying the configuration");
      if (!worker.post([&control] { control.apply({}); }))
        spdlog::error("SIGHUP: too many orders wait; nothing changes");
    } else if (signal != 0) {
      spdlog::info("{}: draining", signal == SIGTERM ? "SIGTERM" : "SIGINT");
      return;
    }
  }
}

// Without running destructors: something of ours still belongs to the kernel or to a thread that does not end.
[[noreturn]] void leave_at_once(int status) {
  stop_logging();
  ::_exit(status);
}

struct Outcome {
  bool order_stuck = false;  // an apply or the like did not come to its end
  iscsi::StopReport unanswered;
  Journals::Closed journals;
  FlushReport flush;
  bool watcher_stuck = false;
};

void report(const Outcome& outcome) {
  if (outcome.order_stuck) spdlog::error("a change of the configuration did not end; ended without waiting for it");
  const iscsi::StopReport& left = outcome.unanswered;
  if (left.changes > 0)
    spdlog::error(
        "{} writes or flushes were not answered: the store did not end them in time; they were not acknowledged, and "
        "may or may not be done",
        left.changes);
  if (left.reads > 0) spdlog::error("{} reads were not answered: the store did not end them in time", left.reads);
  if (left.peer > 0)
    spdlog::info(
        "{} commands were not answered, because their initiators neither sent nor read: nothing of them was "
        "acknowledged",
        left.peer);
  for (const std::string& stays : outcome.journals.stays) spdlog::error("{}", stays);
  for (const std::string& lost : outcome.flush.lost) spdlog::error("{}", lost);
}

// Everything that lives while the daemon serves.
struct Serving {
  VolumeSet& set;
  iscsi::Server& server;
  Control& control;
  Worker& worker;
};

// On the drain thread. An apply that still runs would use the server that is stopped here.
void end_serving(Serving& serving, Outcome& outcome) {
  serving.control.stop();
  serving.set.on_arrival({});
  end_freezes();
  outcome.order_stuck = !serving.worker.stop(kOrderLimit);
  if (outcome.order_stuck) return;
  outcome.unanswered = serving.server.stop_and_report(kDrainLimit);
  outcome.journals = serving.set.journals().close(kFlushLimit);
  outcome.flush = flush_all(serving.control.current()->volumes, kFlushLimit);
  outcome.watcher_stuck = !serving.set.stop_watching(kWatchLimit);
}

// The drain runs in a thread of its own, because stores can hang for ever: the main thread keeps the time and listens
// for the operator's second signal.
int drain(Serving& serving, const Descriptors& fds) {
  notify_service_manager("STOPPING=1");
  Outcome outcome;
  std::thread worker([&] {
    end_serving(serving, outcome);
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
      leave_at_once(1);
    }
    pollfd done{fds.drained, POLLIN, 0};
    if (::poll(&done, 1, 0) == 1) break;
    if (left > 0) continue;
    spdlog::error("the stores did not come to rest in time; writes in flight and what was not flushed may be lost");
    leave_at_once(1);
  }
  worker.join();
  report(outcome);
  const iscsi::StopReport& left = outcome.unanswered;
  const bool lost = outcome.order_stuck || left.changes + left.reads > 0 || !outcome.flush.lost.empty() ||
                    !outcome.journals.stays.empty();
  if (!lost) spdlog::info("drained and flushed, ending");
  if (outcome.order_stuck || outcome.journals.stuck || outcome.flush.stuck || outcome.watcher_stuck)
    leave_at_once(lost ? 1 : 0);
  return lost ? 1 : 0;
}

int fail(const Error& error) {
  spdlog::error("{}", error.message);
  return 1;
}

void log_start(const Composition& composition, const iscsi::Server& server) {
  for (const OpenVolume& volume : composition.volumes) {
    if (!volume.unit) {
      spdlog::warn("volume {}: never seen before and not there: announced to hosts when it comes", volume.config.name);
      continue;
    }
    spdlog::info("volume {}: {}, {} blocks of {}, uuid {}{}", volume.config.name, volume.store->describe(),
                 volume.unit->blocks(), volume.unit->block_size(), uuid_text(*volume.uuid),
                 volume.unit->read_only() ? ", read-only" : "");
  }
  const auto ports = server.ports();
  const auto portals = portals_of(composition.config);
  for (size_t i = 0; i < ports.size(); ++i) {
    const bool v6 = portals[i].address.find(':') != std::string::npos;
    spdlog::info("listening on {}{}{}:{}, portal group {}", v6 ? "[" : "", portals[i].address, v6 ? "]" : "", ports[i],
                 portals[i].group);
  }
}

// From a started server to its end. Everything that serves is gone when this returns.
int serve(Composition composition, VolumeSet& set, iscsi::Server& server, AdminHttp& admin, const RunOptions& options,
          const Descriptors& fds) {
  const config::Config config = composition.config;
  log_start(composition, server);
  Worker worker;
  Control control(std::move(composition), set, server, options.load);
  set.on_arrival([&](const std::string& name) { return worker.post([&control, name] { control.announce(name); }); });
  const AdminApi api(control, server, worker);
  admin.start(
      [&api](const AdminRequest& request, AdminHttp::Answer answer) { api.handle(request, std::move(answer)); });
  worker.post([&control] { control.tell_differences(); });
  Pulse tending("journals", kTendEvery, [&control, &worker](bool) {
    if (control.journals_wait()) worker.post([&control] { control.tend_journals(); });
  });
  spdlog::info("zvoltd {} ready: {} targets, {} threads, admin socket {}", ZVOLT_VERSION, config.targets.size(),
               shard_count(config), config.admin_socket);
  notify_service_manager("READY=1");
  wait_for_end(fds.signals, control, worker);
  tending.stop();
  tending.join_until(Pulse::Clock::now() + kWatchLimit);  // its beat does not block
  Serving serving{set, server, control, worker};
  const int status = drain(serving, fds);
  admin.stop();
  return status;
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int run(const config::Config& config, const RunOptions& options) {
  const Descriptors fds;
  if (!fds.ok()) return fail({errno, std::string("cannot wait for signals: ") + std::strerror(errno)});
  const auto state = StateDir::open(config.state_dir);
  if (!state) return fail(state.error());
  AdminHttp admin;
  const auto bound = admin.bind(config.admin_socket);
  if (!bound) return fail(bound.error());
  VolumeSet set(*state, options.volumes);
  auto composed = compose(config, set);
  if (!composed) return fail(composed.error());
  int status = 1;
  bool served = false;
  {
    iscsi::Server server(server_options(composed->composition));
    const auto started = server.start();
    if (started) {
      served = true;
      status = serve(std::move(composed->composition), set, server, admin, options, fds);
    } else {
      fail(started.error());
    }
  }
  if (status != 0 && !composed->composition.volumes.empty()) {  // it did not start
    const std::string stays = set.abandon({std::move(composed->composition.volumes), std::move(composed->made)});
    if (!stays.empty()) spdlog::error("{}", stays);
  }
  if (!served) set.journals().close(kCloseLimit);
  set.journals().let_go();
  const auto open = set.closer().wait(kCloseLimit);
  if (!open.empty()) {
    spdlog::warn("{} stores are still closing (first: {}); left to the kernel", open.size(), open.front());
    leave_at_once(status);
  }
  return status;
}

}  // namespace zvolt::daemon
