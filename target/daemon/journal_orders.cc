// What the operator and time do to journals and to volumes at rest: flush, discard, freeze; attaching what came late.
// See apply.h.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>

#include "target/daemon/apply.h"
#include "target/daemon/final_flush.h"
#include "target/daemon/journal_slot.h"

namespace zvolt::daemon {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFlushLimit{30'000};
constexpr milliseconds kRestLimit{5'000};  // to come to rest, in which hosts wait already (25 s of hold follow at most)
constexpr milliseconds kRestPoll{1};       // how often commands in flight are counted while a volume comes to rest

VolumeReport refuse(const std::string& name, unsigned status, const std::string& why) {
  return {name, why, {}, status};
}

unsigned status_of(const Error& error) {
  return error.code == ETIMEDOUT ? 503 : error.code == EBUSY ? 409 : 500;
}

Result<void> flush_store(const OpenVolume& volume) {
  const FlushReport flushed = flush_all({volume}, kFlushLimit);
  if (flushed.lost.empty()) return {};
  return Error{EIO, flushed.lost.front()};
}

// Holds the commands of units without a journal, for as long as it lives.
class UnitHold {
 public:
  explicit UnitHold(const std::vector<OpenVolume>& volumes) : volumes_(volumes) {
    for (const OpenVolume& volume : volumes_) volume.unit->hold_range(0, UINT64_MAX);
  }
  ~UnitHold() {
    for (const OpenVolume& volume : volumes_) volume.unit->release_range(0, UINT64_MAX);
  }
  UnitHold(const UnitHold&) = delete;
  UnitHold& operator=(const UnitHold&) = delete;

  // Until every command that had begun has ended. What looks only (INQUIRY and the like) is waited for too.
  bool rest_by(const iscsi::Server& server, Clock::time_point end) const {
    std::map<std::string, std::shared_ptr<stats::LunStats>> stats;
    for (const auto& each : server.lun_stats()) stats[each->name()] = each;
    // A shard that counts a command and one that looks for holds are not ordered against this thread: by the end of a
    // pause each has seen what the other wrote before it.
    std::this_thread::sleep_for(kRestPoll);
    for (const OpenVolume& volume : volumes_) {
      const auto found = stats.find(volume.config.name);
      if (found == stats.end()) continue;
      while (found->second->in_flight() > volume.unit->gate().kept()) {
        if (Clock::now() >= end) return false;
        std::this_thread::sleep_for(kRestPoll);
      }
    }
    return true;
  }

 private:
  const std::vector<OpenVolume>& volumes_;
};

}  // namespace

bool Control::journals_wait() const {
  const auto running = current();
  if (running->config.journals.empty()) return false;
  for (const JournalView& view : set_.journals().views())
    if (!view.open) return true;
  return std::any_of(running->volumes.begin(), running->volumes.end(),
                     [&](const OpenVolume& volume) { return set_.journals().wants_attach(volume); });
}

// Not behind a change or a freeze: those take long, and the workers that would wait here are needed to end them.
void Control::tend_journals() {
  const std::unique_lock one(change_mutex_, std::try_to_lock);
  if (!one.owns_lock() || stopping_) return;
  const auto running = current();
  static_cast<void>(set_.journals().open(running->config.journals));
  for (const OpenVolume& volume : running->volumes)
    if (set_.journals().wants_attach(volume)) set_.journals().attach(volume);
}

VolumeReport Control::flush(const std::string& name) {
  const auto running = current();
  const OpenVolume* volume = find_volume(*running, name);
  if (volume == nullptr) return refuse(name, 404, "there is no volume or LUN '" + name + "'");
  auto flushed = set_.journals().drain({*volume}, kFlushLimit);
  if (flushed) flushed = flush_store(*volume);
  if (!flushed) return refuse(volume->config.name, status_of(flushed.error()), flushed.error().message);
  return {volume->config.name, {}, "everything that was acknowledged is in its store", 200};
}

VolumeReport Control::discard(const std::string& name) {
  std::scoped_lock one(change_mutex_);
  const auto running = current();
  const OpenVolume* volume = find_volume(*running, name);
  if (volume == nullptr) return refuse(name, 404, "there is no volume or LUN '" + name + "'");
  const auto discarded = set_.journals().discard(*volume);
  if (!discarded) return refuse(volume->config.name, status_of(discarded.error()), discarded.error().message);
  set_.journals().attach(*volume);
  const auto view = volume->health->view();
  return {volume->config.name, {}, view.reason.empty() ? "served as its store is" : "not served: " + view.reason, 200};
}

Result<void> Control::freeze_volumes(const std::vector<OpenVolume>& volumes, const std::function<Result<void>()>& run) {
  std::vector<OpenVolume> plain, journaled;
  for (const OpenVolume& volume : volumes)
    (volume.slot && volume.slot->journaled() ? journaled : plain).push_back(volume);
  // Most of it while writes go on: what is left of it then takes little time under the hold.
  const auto drained = set_.journals().drain(journaled, kFlushLimit);
  if (!drained) return drained;
  const auto end = Clock::now() + kRestLimit;
  return set_.journals().quiesce(journaled, kRestLimit, [&]() -> Result<void> {
    const UnitHold hold(plain);
    if (!hold.rest_by(server_, end)) return Error{ETIMEDOUT, "commands in flight did not end in time"};
    for (const OpenVolume& volume : volumes) {
      const auto flushed = flush_store(volume);
      if (!flushed) return flushed;
    }
    return run();
  });
}

VolumeReport Control::freeze(const std::vector<std::string>& names, const std::function<Result<void>()>& run) {
  std::scoped_lock one(change_mutex_);
  if (stopping_) return refuse({}, 503, "the daemon is ending");
  const auto running = current();
  std::vector<OpenVolume> volumes;
  std::string all;
  for (const std::string& name : names) {
    const OpenVolume* volume = find_volume(*running, name);
    if (volume == nullptr || !volume->unit) return refuse(name, 404, "there is no volume or LUN '" + name + "'");
    const std::string away = volume->health->view().reason;
    if (!away.empty()) return refuse(volume->config.name, 409, "it is not served: " + away);
    const auto same = [&](const OpenVolume& other) { return other.unit == volume->unit; };
    if (std::any_of(volumes.begin(), volumes.end(), same)) continue;
    volumes.push_back(*volume);
    all += (all.empty() ? "" : ", ") + volume->config.name;
  }
  spdlog::info("freeze of {}", all);
  const auto done = freeze_volumes(volumes, run);
  if (!done) return refuse(all, status_of(done.error()), done.error().message);
  return {all, {}, "writes were held, and go on", 200};
}

}  // namespace zvolt::daemon
