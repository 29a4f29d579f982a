// See volume_set.h.
#include "target/daemon/volume_set.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>
#include <set>

#include "target/daemon/follow.h"
#include "target/daemon/parallel.h"

namespace zvolt::daemon {
namespace {

constexpr std::chrono::milliseconds kCloseWait{5000};   // stores of an opening that is undone
constexpr std::chrono::milliseconds kWatcherEnd{1000};  // a thread that hangs longer is left behind

VolumeKey key_of(const config::Volume& volume) {
  VolumeKey key;
  key.name = volume.name;
  key.pinned = volume.uuid.value_or("");
  key.path = device_path(volume);
  switch (volume.kind) {
    case config::StoreKind::file:
      key.backing = "file:" + volume.path;
      break;
    case config::StoreKind::device:
      key.backing = "device:" + volume.path;
      break;
    case config::StoreKind::zvol:
      key.backing = "zvol:" + volume.path;
      key.dataset = volume.path;
      key.sight = ZvolSight::unseen;
      break;
    case config::StoreKind::memory:
    case config::StoreKind::null:
      break;
  }
  return key;
}

// The key of a volume that is open: the identity that hosts know is the one that counts, unless it was pinned and is no
// more.
VolumeKey key_of_open(const config::Volume& wanted, const OpenVolume& open) {
  VolumeKey key = key_of(wanted);
  if (!key.pinned.empty() || !open.uuid || key.sight == ZvolSight::none || open.config.uuid) return key;
  key.sight = ZvolSight::seen;
  key.property = uuid_text(*open.uuid);
  key.guid = open.zvol ? open.zvol->guid() : 0;
  return key;
}

void see(VolumeKey& key, const backing::ZvolProperties& properties) {
  key.sight = ZvolSight::seen;
  key.property = properties.uuid;
  key.guid = properties.guid;
}

bool may_create(const config::Volume& volume, const ZvolFacts& facts) {
  return volume.kind == config::StoreKind::zvol && volume.provision && !facts.found.contains(volume.path) &&
         !facts.silent.contains(backing::pool_of(volume.path));
}

Error in_context(const config::Volume& volume, const Error& error) {
  return {error.code, volume.where.file + ":" + std::to_string(volume.where.line) + ": volume " + volume.name + ": " +
                          error.message};
}

}  // namespace

// One volume on its way. Owned by the threads that work on it: they may outlast the limit.
struct VolumeSet::Job {
  OpenTools tools;
  Identity identity;
  bool create = false;  // the zvol is missing and is to be made
  OpenVolume volume;
  Made made;
  std::optional<Error> error;
  std::atomic<bool> ended{false};
};

struct VolumeSet::ArrivalSink {
  std::mutex mutex;
  Watcher::Arrived notice;
};

VolumeSet::VolumeSet(const StateDir& state, VolumeSetOptions options)
    : state_(state),
      zfs_(options.zfs),
      host_(std::make_shared<backing::ZvolHost>(options.zfs, options.search)),
      journals_(state, zfs_),
      arrivals_(std::make_shared<ArrivalSink>()),
      watcher_([sink = arrivals_](const std::string& name) {
        std::scoped_lock lock(sink->mutex);
        return sink->notice && sink->notice(name);
      }) {}

VolumeSet::~VolumeSet() {
  watcher_.stop(kWatcherEnd);
}

void VolumeSet::on_arrival(Watcher::Arrived notice) {
  std::scoped_lock lock(arrivals_->mutex);
  arrivals_->notice = std::move(notice);
}

ZvolFacts VolumeSet::ask_zfs(const std::vector<const config::Volume*>& volumes) const {
  std::map<std::string, std::vector<std::string>> pools;
  for (const config::Volume* volume : volumes)
    if (volume->kind == config::StoreKind::zvol) pools[backing::pool_of(volume->path)].push_back(volume->path);
  struct Shared {
    std::vector<std::pair<std::string, std::vector<std::string>>> questions;
    std::mutex mutex;
    ZvolFacts facts;
    std::set<std::string> answered;
  };
  auto shared = std::make_shared<Shared>();
  shared->questions = {pools.begin(), pools.end()};
  // A pool that hangs costs its own deadline, not the others' answers.
  const auto limit = zfs_.options().deadline * 2 + std::chrono::seconds(1);
  run_parallel(
      shared->questions.size(),
      [shared, zfs = zfs_](size_t index) {
        const auto& [pool, names] = shared->questions[index];
        const auto found = zfs.list(names);
        std::scoped_lock lock(shared->mutex);
        shared->answered.insert(pool);
        if (!found) {
          shared->facts.silent[pool] = found.error().message;
          return;
        }
        for (const backing::ZvolProperties& properties : *found) shared->facts.found[properties.name] = properties;
      },
      limit);
  std::scoped_lock lock(shared->mutex);
  for (const auto& [pool, names] : pools)
    if (!shared->answered.contains(pool)) shared->facts.silent[pool] = "no answer in time";
  return shared->facts;
}

Result<std::vector<Identity>> VolumeSet::identities(const std::vector<const config::Volume*>& wanted,
                                                    const std::map<std::string, const OpenVolume*>& kept,
                                                    const ZvolFacts& facts) const {
  std::vector<VolumeKey> keys;
  for (const config::Volume* volume : wanted) {
    const auto open = kept.find(volume->name);
    keys.push_back(open != kept.end() ? key_of_open(*volume, *open->second) : key_of(*volume));
    if (keys.back().sight != ZvolSight::unseen) continue;
    const auto found = facts.found.find(volume->path);
    if (found != facts.found.end()) see(keys.back(), found->second);
    if (open == kept.end() && may_create(*volume, facts)) keys.back().sight = ZvolSight::fresh;
  }
  return identify(state_, keys);
}

// On a helper thread: makes what is missing, then the store.
void VolumeSet::prepare(Job& job) {
  const config::Volume& config = job.volume.config;
  if (config.kind == config::StoreKind::file && config.provision && !config.read_only) {
    const auto made = provision_file(config.path, config.provision->size.value_or(0), job.made.files);
    if (!made) return void(job.error = made.error());
  }
  if (job.create) {
    const auto made = job.tools.zfs.create(create_spec(config, uuid_text(*job.identity.uuid)));
    if (!made) return void(job.error = made.error());
    job.made.zvols.push_back(config.path);
    job.tools.host->catalog.forget(backing::pool_of(config.path));
    spdlog::info("volume {}: made the zvol {}, {} bytes", config.name, config.path, *made);
  }
  const auto opened = daemon::open_store(job.volume, job.tools, job.identity.guid);
  if (!opened) job.error = opened.error();
}

Result<VolumeSet::Opened> VolumeSet::open(const std::vector<const config::Volume*>& wanted,
                                          const std::map<std::string, const OpenVolume*>& kept) {
  std::vector<const config::Volume*> asked;
  for (const config::Volume* volume : wanted) {
    const auto open = kept.find(volume->name);
    if (open == kept.end() || open->second->config.uuid != volume->uuid) asked.push_back(volume);
  }
  const ZvolFacts facts = ask_zfs(asked);
  for (const auto& [pool, why] : facts.silent)
    spdlog::warn("pool {}: ZFS does not tell about its volumes: {}; their LUNs wait", pool, why);
  const auto identity = identities(wanted, kept, facts);
  if (!identity) return identity.error();

  Jobs jobs;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const config::Volume& volume = *wanted[i];
    if (kept.contains(volume.name)) continue;
    auto job = std::make_shared<Job>();
    job->tools = {zfs_, host_, closer_, watcher_.waker(lane_of(volume), volume.kind == config::StoreKind::zvol)};
    job->identity = (*identity)[i];
    job->create = may_create(volume, facts);
    job->volume.config = volume;
    job->volume.uuid = job->identity.uuid;
    jobs.push_back(std::move(job));
  }
  run_parallel(
      jobs.size(),
      [jobs](size_t index) {
        Job& job = *jobs[index];
        prepare(job);
        job.ended = true;
      },
      kOpenLimit);
  auto opened = finish(jobs);
  if (opened)
    for (size_t i = 0; i < wanted.size(); ++i) opened->identities[wanted[i]->name] = (*identity)[i];
  return opened;
}

std::optional<Error> VolumeSet::make_units(const Jobs& jobs) {
  for (const auto& job : jobs) {
    OpenVolume& volume = job->volume;
    if (!volume.uuid) continue;
    auto unit = make_unit(volume);
    if (!unit) return in_context(volume.config, unit.error());
    volume.unit = std::move(*unit);
    journals_.attach(volume);
  }
  return std::nullopt;
}

// What was prepared becomes open volumes, or is undone as a whole.
Result<VolumeSet::Opened> VolumeSet::finish(const Jobs& jobs) {
  Opened out;
  std::optional<Error> error;
  std::vector<OpenVolume> devices;  // copies: a look that hangs keeps its own
  for (const auto& job : jobs) {
    if (!job->ended) {
      if (!error) error = in_context(job->volume.config, {ETIMEDOUT, "opening it did not end in time"});
      continue;
    }
    out.made.files.insert(out.made.files.end(), job->made.files.begin(), job->made.files.end());
    out.made.zvols.insert(out.made.zvols.end(), job->made.zvols.begin(), job->made.zvols.end());
    if (job->error && !error) error = in_context(job->volume.config, *job->error);
    if (job->volume.followed) devices.push_back(job->volume);
  }
  if (!error) {
    const auto durable = sync_directories(out.made.files);
    if (!durable) error = durable.error();
  }
  if (!error) {
    run_parallel(
        devices.size(), [devices](size_t index) { first_look(devices[index]); }, kFirstLookLimit);
    devices.clear();
    error = make_units(jobs);
  }
  for (const auto& job : jobs)
    if (job->ended) out.volumes.push_back(std::move(job->volume));
  if (error) {
    const std::string stays = abandon(std::move(out));
    if (!stays.empty()) error->message += "; " + stays;
    return *error;
  }
  for (const OpenVolume& volume : out.volumes) {
    if (volume.unit) volume.health->set_unit(volume.unit);
    rewatch(volume);
  }
  return out;
}

std::string VolumeSet::abandon(Opened opened) {
  std::vector<std::string> names;
  for (const OpenVolume& volume : opened.volumes) {
    names.push_back(volume.config.name);
    const auto left = journals_.detach(volume, kDetachLimit);
    if (!left) spdlog::error("volume {}: {}", volume.config.name, left.error().message);
    if (volume.health) release(volume);
  }
  opened.volumes.clear();
  closer_.wait_for(names, kCloseWait);
  for (const MadeFile& file : opened.made.files) remove_untouched(file);
  return what_stays(opened.made);
}

Result<OpenVolume> VolumeSet::identify_arrival(const OpenVolume& volume, const std::vector<OpenVolume>& all) {
  const auto properties = volume.zvol ? volume.zvol->properties() : std::nullopt;
  if (!properties) return Error{EAGAIN, "ZFS has not told its properties yet"};
  std::vector<VolumeKey> keys;
  size_t own = 0;
  for (const OpenVolume& other : all) {
    if (other.health == volume.health) own = keys.size();
    keys.push_back(key_of_open(other.config, other));
  }
  see(keys[own], *properties);
  const auto identity = identify(state_, keys);
  if (!identity) return identity.error();
  OpenVolume out = volume;
  out.uuid = (*identity)[own].uuid;
  if (!out.uuid) return Error{EAGAIN, "it has no identity yet"};
  out.guard->expect(*out.uuid, (*identity)[own].guid);
  const auto noted = out.guard->check(*properties, *out.health);
  if (!noted) return noted.error();
  auto unit = make_unit(out);
  if (!unit) return unit.error();
  out.unit = std::move(*unit);
  journals_.attach(out);
  out.health->set_unit(out.unit);
  return out;
}

void VolumeSet::release(const OpenVolume& volume) {
  watcher_.remove(volume.health);
}

void VolumeSet::rewatch(const OpenVolume& volume) {
  volume.health->rename(volume.config.name);
  volume.health->change_limit(std::chrono::seconds(volume.config.not_ready_seconds));
  if (!volume.followed && volume.config.kind != config::StoreKind::file) return;  // memory does not change
  watcher_.add({volume.config.name, volume.config.path, lane_of(volume.config), volume.health, volume.store,
                volume.followed, volume.zvol});
}

}  // namespace zvolt::daemon
