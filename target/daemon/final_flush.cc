// See final_flush.h.
#include "target/daemon/final_flush.h"

#include <poll.h>

#include <cstring>
#include <memory>
#include <thread>

#include "backing/io_engine.h"

namespace zvolt::daemon {
namespace {

struct Flush {
  backing::IoRequest io;
  std::string name;
  std::shared_ptr<backing::BlockStore> store;  // a flush that does not end keeps it
  bool done = false;
};

void on_done(backing::IoRequest& io) noexcept {
  static_cast<Flush*>(io.context)->done = true;
}

// A device that is away has nothing that a flush could reach.
bool needs_flush(const OpenVolume& volume) {
  if (volume.followed && volume.followed->report().presence != backing::Presence::present) return false;
  return !volume.store->geometry().read_only && volume.store->geometry().volatile_cache;
}

// True when everything has ended.
bool wait_all(backing::IoEngine& engine, const std::vector<std::unique_ptr<Flush>>& flushes,
              std::chrono::milliseconds limit) {
  constexpr size_t kReap = 64;
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    engine.flush();
    while (engine.reap(kReap) > 0) engine.flush();
    bool all = true;
    for (const auto& flush : flushes) all = all && flush->done;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (all || left.count() <= 0) return all;
    pollfd wait{engine.wait_fd(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left.count()));
  }
}

}  // namespace

FlushReport flush_all(const std::vector<OpenVolume>& volumes, std::chrono::milliseconds limit) {
  // Worker threads only: a ring may run a flush inside the submission, and then no deadline would hold.
  constexpr unsigned kWorkers = 8;  // flushes of different pools do not wait for each other
  auto engine = backing::make_engine({.worker_threads = kWorkers, .allow_uring = false});
  std::vector<std::unique_ptr<Flush>> flushes;
  for (const OpenVolume& volume : volumes) {
    if (!needs_flush(volume)) continue;
    auto flush = std::make_unique<Flush>();
    flush->name = volume.config.name;
    flush->store = volume.store;
    flush->io.kind = backing::IoKind::flush;
    flush->io.done = on_done;
    flush->io.context = flush.get();
    flush->done = volume.store->submit(flush->io, *engine) == backing::Submitted::done;
    flushes.push_back(std::move(flush));
  }
  FlushReport report;
  report.stuck = !wait_all(*engine, flushes, limit);
  for (const auto& flush : flushes) {
    const std::string name = "volume " + flush->name + ": ";
    if (!flush->done) {
      report.lost.push_back(name +
                            "the last flush did not end in time; writes that were not flushed by the host may be lost");
    } else if (flush->io.error != 0) {
      report.lost.push_back(name + "the last flush failed (" + std::strerror(flush->io.error) +
                            "); writes that were not flushed by the host may be lost");
    }
  }
  if (report.stuck) {
    // The store may come back, and others' flushes wait for the sync that this engine leads: somebody has to take it.
    std::thread([engine = std::move(engine), flushes = std::move(flushes)] {
      constexpr std::chrono::hours kAsLongAsItTakes{1};
      while (!wait_all(*engine, flushes, kAsLongAsItTakes)) continue;
    }).detach();
  }
  return report;
}

}  // namespace zvolt::daemon
