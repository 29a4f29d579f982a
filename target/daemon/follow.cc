// See follow.h.
#include "target/daemon/follow.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "backing/stores.h"
#include "target/daemon/faults.h"
#include "target/daemon/journal_slot.h"

namespace zvolt::daemon {
namespace {

using backing::FollowOptions;
using backing::Presence;
using StorePtr = std::shared_ptr<backing::BlockStore>;

bool is_followed(config::StoreKind kind) {
  return kind == config::StoreKind::device || kind == config::StoreKind::zvol;
}

Result<StorePtr> open_plain(const config::Volume& volume) {
  switch (volume.kind) {
    case config::StoreKind::file:  // provisioned before, see provision.h
      return backing::open_file({.path = volume.path, .read_only = volume.read_only, .force = volume.force});
    case config::StoreKind::memory:
      return backing::make_memory(volume.size);
    case config::StoreKind::null:
      return backing::make_null(volume.size);
    case config::StoreKind::device:
    case config::StoreKind::zvol:
      break;
  }
  return Error{EINVAL, "unknown kind of store"};
}

Result<std::string> locate_device(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return Error{errno, path + ": " + std::strerror(errno)};
  if (!S_ISBLK(found.st_mode)) return Error{ENOTBLK, path + " is not a block device"};
  return path;
}

FollowOptions device_options(const config::Volume& volume) {
  FollowOptions options;
  options.name = volume.path;
  options.read_only = volume.read_only;
  options.force = volume.force;
  options.locate = [path = volume.path] { return locate_device(path); };
  return options;
}

FollowOptions zvol_options(OpenVolume& volume, const OpenTools& tools) {
  backing::ZvolOptions wanted;
  wanted.name = volume.config.path;
  wanted.read_only = volume.config.read_only;
  wanted.force = volume.config.force;
  wanted.allow_sync_disabled = volume.config.sync == config::Sync::disabled;
  volume.zvol = std::make_shared<backing::FollowedZvol>(wanted, tools.host);
  FollowOptions options = volume.zvol->follow_options();
  options.admit = [admit = std::move(options.admit), zvol = std::weak_ptr(volume.zvol), guard = volume.guard,
                   health = std::weak_ptr(volume.health)](int fd, const backing::Geometry& geometry) -> Result<void> {
    if (admit) {
      const auto admitted = admit(fd, geometry);
      if (!admitted) return admitted;
    }
    const auto alive = zvol.lock();
    const auto told = health.lock();
    const auto properties = alive ? alive->properties() : std::nullopt;
    return properties && told ? guard->check(*properties, *told) : Result<void>();
  };
  return options;
}

void tell_resizes(backing::BlockStore& store, const OpenVolume& volume) {
  store.on_resize([weak = std::weak_ptr(volume.health)](uint64_t size_bytes) {
    if (const auto health = weak.lock()) health->resized(size_bytes);
  });
}

// The store that is shared: closed on its lane's thread, whoever lets go of it last.
void share(OpenVolume& volume, const StoreCloser& closer, StorePtr store) {
  volume.store = closer.closing_later(std::move(store), lane_of(volume.config), volume.config.name);
}

Result<void> open_followed(OpenVolume& volume, const OpenTools& tools, StorePtr& store) {
  FollowOptions options =
      volume.config.kind == config::StoreKind::zvol ? zvol_options(volume, tools) : device_options(volume.config);
  // follow_device() looks at once, and that may hang: it finds nothing until the store stands.
  auto armed = std::make_shared<std::atomic<bool>>(false);
  options.locate = [armed, locate = std::move(options.locate)]() -> Result<std::string> {
    if (!armed->load()) return Error{ENOENT, "not looked for yet"};
    return locate();
  };
  auto followed = backing::follow_device(std::move(options));
  if (!followed) return followed.error();
  armed->store(true);
  backing::FollowedStore* plain = followed->get();
  // Weak: the health knows the unit, and the unit owns the store.
  plain->on_change([plain, weak = std::weak_ptr(volume.health)](const backing::FollowedStore::Report& report) {
    const auto health = weak.lock();
    if (health && health->report(report)) plain->set_flushes_told();
  });
  plain->on_look_wanted(tools.wake);
  store = *followed;
  return {};
}

}  // namespace

void IdentityGuard::expect(const Uuid& uuid, uint64_t guid) {
  std::scoped_lock lock(mutex_);
  expected_ = uuid;
  guid_ = guid;
}

void IdentityGuard::expect_journal(bool journaled) {
  std::scoped_lock lock(mutex_);
  journaled_ = journaled;
}

Result<void> IdentityGuard::check(const backing::ZvolProperties& properties, VolumeHealth& health) {
  std::scoped_lock lock(mutex_);
  if (!journaled_ && properties.journal.ends_with(",dirty"))
    return Error{EEXIST,
                 "the newest data of " + properties.name + " is in a journal (" + properties.journal +
                     ") and the configuration names none: put 'journal' back, or give that data up with 'zvoltctl "
                     "journal discard --lun'"};
  if (!expected_) return {};
  const std::string expected = uuid_text(*expected_);
  if (properties.uuid == expected) return {};
  if (!properties.uuid.empty() || (guid_ != 0 && properties.guid != guid_))
    return Error{EEXIST, properties.name + " is another disk (its identity is " +
                             (properties.uuid.empty() ? "none" : properties.uuid) +
                             ") than the one that hosts know as " + expected +
                             ": to serve it as what it is, take the volume out of the configuration and " +
                             "apply, then put it back"};
  const auto written = zfs_.set(properties.name, backing::kUuidProperty, expected);
  health.set_note("uuid", written ? ""
                                  : "its identity could not be written to " + properties.name + " (" +
                                        written.error().message + "): it is kept in the state directory only");
  return {};
}

Result<void> open_store(OpenVolume& volume, const OpenTools& tools, uint64_t guid) {
  const config::Volume& config = volume.config;
  const bool followed = is_followed(config.kind);
  volume.health = std::make_shared<VolumeHealth>(config.name, std::chrono::seconds(config.not_ready_seconds),
                                                 followed ? Presence::late : Presence::present);
  StorePtr store;
  if (followed) {
    volume.guard = std::make_shared<IdentityGuard>(tools.zfs, !config.journal.empty());
    if (volume.uuid && config.kind == config::StoreKind::zvol && !config.uuid) volume.guard->expect(*volume.uuid, guid);
    const auto opened = open_followed(volume, tools, store);
    if (!opened) return opened;
  } else {
    auto opened = open_plain(config);
    if (!opened) return opened.error();
    store = std::move(*opened);
  }
  auto* device = followed ? static_cast<backing::FollowedStore*>(store.get()) : nullptr;
  backing::FaultStore* faulty = nullptr;
  if (!config.faults.empty()) {
    auto made = with_faults(std::move(store), config.faults);
    if (!made) return made.error();
    faulty = made->get();
    store = std::move(*made);
  }
  tell_resizes(*store, volume);
  share(volume, tools.closer, std::move(store));
  // Under the same count: who holds one of them holds the store.
  if (device != nullptr) volume.followed = {volume.store, device};
  if (faulty != nullptr) volume.faults = {volume.store, faulty};
  if (!config.journal.empty()) make_slot(volume, tools.closer);
  return {};
}

void make_slot(OpenVolume& volume, const StoreCloser& closer) {
  if (volume.slot) return;
  auto made = std::make_shared<JournalSlot>(volume.store);
  JournalSlot* slot = made.get();
  volume.journaled = closer.closing_later(std::move(made), lane_of(volume.config), volume.config.name);
  volume.slot = {volume.journaled, slot};
}

Result<void> refit_faults(OpenVolume& volume, const StoreCloser& closer) {
  if (volume.faults) return change_faults(*volume.faults, volume.config.faults);
  if (volume.slot) return Error{ENOTSUP, "a test store cannot come under a journal that is in use"};
  auto made = with_faults(volume.store, volume.config.faults);
  if (!made) return made.error();
  backing::FaultStore* faulty = made->get();
  tell_resizes(*faulty, volume);
  share(volume, closer, std::move(*made));
  volume.faults = {volume.store, faulty};
  return {};
}

void first_look(const OpenVolume& volume) {
  const auto report = volume.followed->look();
  if (volume.health->report(report)) volume.followed->set_flushes_told();
}

}  // namespace zvolt::daemon
