// See watcher.h.
#include "target/daemon/watcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

namespace zvolt::daemon {
namespace {

using Clock = Pulse::Clock;

constexpr std::chrono::seconds kHangs{5};          // a look that lasts longer is told of
constexpr std::chrono::seconds kArrivedEvery{10};  // a volume that cannot be announced is tried again

// The list of a lane, shared with its threads.
struct Members {
  std::vector<Watched> copy() const {
    std::scoped_lock lock(mutex);
    return list;
  }
  mutable std::mutex mutex;
  std::vector<Watched> list;
};

// A rename shows on the open device at once; true when it has another name than ZFS was asked about last.
bool renamed(const Watched& watched, const backing::FollowedStore& followed) {
  const int fd = followed.device_fd();
  if (watched.zvol == nullptr || fd < 0) return false;
  const auto name = backing::zvol_name_of(fd);
  return name && *name != watched.zvol->name();
}

// Returns whether ZFS should be asked before its time.
bool look_at(const Watched& watched, bool only_wanted) {
  if (const auto followed = watched.followed.lock()) {
    if (only_wanted && !followed->look_wanted()) return false;
    const auto report = followed->look();  // tells the health through on_change, but not of another reason
    if (report.presence != backing::Presence::present) watched.health->report(report);
    return renamed(watched, *followed);
  }
  if (only_wanted) return false;
  const auto store = watched.store.lock();
  if (!store) return false;
  const auto size = store->refresh_size();
  watched.health->set_note("size", size ? "" : size.error().message);
  return false;
}

// Called when a volume that hosts have not been told of is there.
class Arrivals {
 public:
  explicit Arrivals(Watcher::Arrived notice) : notice_(std::move(notice)) {}
  void check(const Watched& watched) {
    const auto view = watched.health->view();
    if (view.has_unit || view.presence != backing::Presence::present) return;
    auto& last = last_[watched.name];
    if (last != Clock::time_point() && Clock::now() - last < kArrivedEvery) return;
    if (notice_(watched.name)) last = Clock::now();
  }

 private:
  Watcher::Arrived notice_;
  std::map<std::string, Clock::time_point> last_;
};

void ask_properties(const Watched& watched) {
  const auto followed = watched.followed.lock();
  if (!followed || watched.zvol == nullptr) return;
  const auto findings = watched.zvol->check(followed->device_fd());
  watched.health->block(findings.servable ? "" : findings.servable.error().message);
  const std::string &configured = watched.configured, now = watched.zvol->name();
  watched.health->set_note(
      "rename", now == configured ? ""
                                  : "the zvol " + configured + " is called " + now + " now: write 'zvol: " + now +
                                        "' in the configuration and apply it, or the next start will not find it");
}

}  // namespace

struct Watcher::Lane {
  std::shared_ptr<Members> members = std::make_shared<Members>();
  std::shared_ptr<Pulse> looks, properties;
};

Watcher::Watcher(Arrived arrived) : arrived_(std::move(arrived)) {
  clock_ = std::make_unique<Pulse>("watch-clock", kLookEvery, [this](bool) {
    std::scoped_lock lock(mutex_);
    const auto now = Clock::now();
    for (const auto& [name, lane] : lanes_) {
      const bool hangs = lane->looks->busy_for() > kHangs;
      for (const Watched& watched : lane->members->copy()) {
        watched.health->tick(now);
        watched.health->set_note(
            "hangs", hangs ? "looking at the devices of " + name + " does not end: is the pool suspended?" : "");
      }
    }
  });
}

Watcher::~Watcher() {
  stop(std::chrono::milliseconds(0));
}

Watcher::Lane& Watcher::lane_locked(const std::string& name, bool zvols) {
  auto& lane = lanes_[name];
  if (lane) return *lane;
  lane = std::make_unique<Lane>();
  if (zvols)
    lane->properties = std::make_shared<Pulse>("zfs:" + name, kPropertiesEvery, [members = lane->members](bool) {
      for (const Watched& watched : members->copy()) ask_properties(watched);
    });
  lane->looks = std::make_shared<Pulse>(
      "w:" + name, kLookEvery,
      [members = lane->members, asks = lane->properties, arrivals = Arrivals(arrived_)](bool woken) mutable {
        bool ask = false;
        for (const Watched& watched : members->copy()) {
          ask = look_at(watched, woken) || ask;
          arrivals.check(watched);
        }
        if (ask && asks) asks->wake();
      });
  return *lane;
}

void Watcher::add(Watched watched) {
  std::scoped_lock lock(mutex_);
  Lane& lane = lane_locked(watched.lane, watched.zvol != nullptr);
  std::scoped_lock members(lane.members->mutex);
  std::erase_if(lane.members->list, [&](const Watched& old) { return old.health == watched.health; });
  lane.members->list.push_back(std::move(watched));
}

void Watcher::remove(const std::shared_ptr<VolumeHealth>& health) {
  std::scoped_lock lock(mutex_);
  for (const auto& [name, lane] : lanes_) {
    std::scoped_lock members(lane->members->mutex);
    std::erase_if(lane->members->list, [&](const Watched& old) { return old.health == health; });
  }
}

std::function<void()> Watcher::waker(const std::string& lane, bool zvols) {
  std::scoped_lock lock(mutex_);
  return [weak = std::weak_ptr<Pulse>(lane_locked(lane, zvols).looks)] {
    if (const auto pulse = weak.lock()) pulse->wake();
  };
}

bool Watcher::stop(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  if (clock_) {
    clock_->stop();
    clock_->join_until(end + std::chrono::seconds(5));  // does no I/O, and refers to this object
  }
  std::scoped_lock lock(mutex_);
  std::vector<Pulse*> pulses;
  for (const auto& [name, lane] : lanes_)
    for (Pulse* pulse : {lane->looks.get(), lane->properties.get()})
      if (pulse != nullptr) pulses.push_back(pulse);
  for (Pulse* pulse : pulses) pulse->stop();
  bool over = true;
  for (Pulse* pulse : pulses) over = pulse->join_until(end) && over;
  return over;
}

}  // namespace zvolt::daemon
