// See zvol.h.
#include "backing/zfs/zvol.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace zvolt::backing {

namespace {

UseCheck without_claim(UseCheck check) {
  check.probe_claim = false;
  return check;
}

std::string quoted(const std::string& name) {
  return "zvol '" + name + "'";
}

// States of a pool in which its volumes do not work but may again; DEGRADED and ONLINE do.
bool pool_unusable(std::string_view state) {
  constexpr std::array kUnusable = {"SUSPENDED", "UNAVAIL", "FAULTED", "OFFLINE", "REMOVED"};
  return std::find(kUnusable.begin(), kUnusable.end(), state) != kUnusable.end();
}

bool changes_data(IoKind kind) {
  return kind != IoKind::read && kind != IoKind::allocation_status;
}

}  // namespace

ZvolHost::ZvolHost(ZfsOptions zfs, DeviceSearch device_search, UseCheck uses)
    : search(std::move(device_search)),
      use_check(without_claim(std::move(uses))),
      catalog(std::move(zfs)),
      devices(search) {}

FollowedZvol::FollowedZvol(ZvolOptions options, std::shared_ptr<ZvolHost> host)
    : options_(std::move(options)),
      host_(std::move(host)),
      sync_disabled_allowed_(options_.allow_sync_disabled),
      name_(options_.name),
      guid_(options_.guid) {
  host_->catalog.add(name_);
}

FollowedZvol::~FollowedZvol() {
  host_->catalog.remove(name_);
}

FollowOptions FollowedZvol::follow_options() {
  FollowOptions options;
  options.name = options_.name;
  options.read_only = options_.read_only;
  options.force = options_.force;
  options.busy_wait = options_.busy_wait;
  options.locate = [self = shared_from_this()] { return self->locate(); };
  options.claimant = [self = shared_from_this()](const std::string& path) {
    return zvol_claimant(path, self->host_->use_check);
  };
  options.admit = [self = shared_from_this()](int fd, const Geometry&) { return self->admit(fd); };
  options.explain = [self = shared_from_this()](int error, const IoRequest& request) {
    return self->explain(error, request);
  };
  return options;
}

std::string FollowedZvol::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

uint64_t FollowedZvol::guid() const {
  const std::lock_guard lock(mutex_);
  return guid_;
}

std::optional<ZvolProperties> FollowedZvol::properties() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

// The catalog's answer; kept as last seen.
Result<std::optional<ZvolProperties>> FollowedZvol::ask(const std::string& name, std::chrono::milliseconds wait,
                                                        std::chrono::milliseconds age) {
  Result<std::optional<ZvolProperties>> answer = host_->catalog.properties(name, wait, age);
  if (answer && answer->has_value()) {
    const std::lock_guard lock(mutex_);
    seen_ = **answer;
  }
  return answer;
}

// Under its present name; a volume that was renamed while it was open, and back while it was not, under the configured
// one. admit() looks at the GUID.
Result<std::string> FollowedZvol::find_device() {
  Result<std::string> device = host_->devices.find(name());
  if (device || name() == options_.name) return device;
  Result<std::string> as_configured = host_->devices.find(options_.name);
  return as_configured ? as_configured : device;
}

Result<std::string> FollowedZvol::locate() {
  const Result<std::string> device = find_device();
  if (!device) return device.error().code == ENOENT ? why_no_device() : device.error();
  if (options_.force) return *device;
  const Result<void> unused = check_zvol_unused(*device, host_->use_check);
  if (!unused) return Error{unused.error().code, quoted(name()) + " is not free: " + unused.error().message};
  return *device;
}

// Words for the operator. Always ENOENT: it is not there now, whatever the reason.
Error FollowedZvol::why_no_device() {
  const std::string now = name();
  const Result<std::optional<ZvolProperties>> properties = ask(now, kAdmitWait);
  const auto absent = [](const std::string& text) { return Error{ENOENT, text}; };
  if (properties && properties->has_value()) {
    const ZvolProperties& volume = **properties;
    if (!volume.problem.empty()) return absent("'" + now + "' cannot be served: it " + volume.problem);
    if (volume.key_missing) return absent(quoted(now) + " has no device: its encryption key is not loaded");
    if (volume.volmode == "none") return absent(quoted(now) + " has no device: its property volmode is none");
    return absent(quoted(now) + " exists, but its device has not appeared yet");
  }
  if (!properties) return absent(quoted(now) + " has no device, and " + properties.error().message);
  const std::string pool = pool_of(now);
  const Result<std::string> state = host_->catalog.pool_state(pool, kAdmitWait);
  if (!state && state.error().code == ENOENT) {
    return absent(quoted(now) + " is not there: pool '" + pool + "' is not imported");
  }
  return absent(quoted(now) + " does not exist" + (state && *state != "ONLINE" ? " (pool is " + *state + ")" : ""));
}

Result<void> FollowedZvol::same_dataset(const ZvolProperties& properties) const {
  const uint64_t wanted = guid();
  if (wanted == 0 || properties.guid == wanted) return {};
  return Error{ESTALE, quoted(properties.name) + " is another dataset than before (GUID " +
                           std::to_string(properties.guid) + ", not " + std::to_string(wanted) +
                           "): it was replaced, and hosts must not find other data on their disk"};
}

Result<void> FollowedZvol::keeps_flushes(const ZvolProperties& properties) const {
  if (properties.sync != "disabled" || sync_disabled_allowed_.load(std::memory_order_relaxed)) return {};
  return Error{EPERM,
               quoted(properties.name) +
                   " has sync=disabled: ZFS would answer every flush and keep nothing. Set sync=standard, or say "
                   "sync: disabled for the volume"};
}

// The name of the dataset behind the device, when that is one of ours.
Result<std::string> FollowedZvol::our_name_behind(int fd) const {
  if (host_->search.trust_links) return name();
  Result<std::string> behind = host_->search.name_of(fd);
  if (!behind) return Error{behind.error().code, quoted(name()) + " cannot be served: " + behind.error().message};
  if (*behind == name() || *behind == options_.name) return behind;
  return Error{ESTALE, "the device found for " + quoted(name()) + " is that of '" + *behind + "' now"};
}

Result<void> FollowedZvol::admit(int fd) {
  const Result<std::string> behind = our_name_behind(fd);
  if (!behind) return behind.error();
  const Result<std::optional<ZvolProperties>> asked = ask(*behind, kAdmitWait);
  if (!asked && options_.force) return {};
  if (!asked) {
    return Error{asked.error().code,
                 quoted(*behind) + " is not served before ZFS says that it keeps flushes: " + asked.error().message};
  }
  // An import or a create younger than the answer: asked again at the next look.
  if (!asked->has_value()) {
    host_->catalog.forget(pool_of(*behind));
    return Error{EAGAIN, quoted(*behind) + " has a device, but ZFS did not know it a moment ago"};
  }
  const ZvolProperties& volume = **asked;
  if (!volume.problem.empty()) return Error{EINVAL, "'" + *behind + "' cannot be served: it " + volume.problem};
  if (Result<void> same = same_dataset(volume); !same) return same;
  if (Result<void> keeps = keeps_flushes(volume); !keeps) return keeps;
  take_name(*behind);
  const std::lock_guard lock(mutex_);
  guid_ = volume.guid;
  return {};
}

int FollowedZvol::explain_space(const ZvolProperties& properties, const IoRequest& request, int error) {
  // A discard or a flush takes next to nothing, so it fails for want of space only when there is none at all.
  const bool writes = request.kind == IoKind::write || request.kind == IoKind::write_zeroes;
  const uint64_t length = writes ? std::min<uint64_t>(request.length, uint64_t{1} << 40) : 0;
  const uint64_t needed = std::max(length, properties.volblocksize) * kSpaceInflation + kSpaceSlack;
  if (properties.available >= needed) return error;
  const std::optional<uint64_t> pool = host_->catalog.last_pool_available(pool_of(properties.name));
  return pool && *pool >= needed ? EDQUOT : ENOSPC;
}

int FollowedZvol::explain(int error, const IoRequest& request) {
  const Result<std::optional<ZvolProperties>> asked = ask(name(), host_->explain_properties);
  if (asked && !asked->has_value()) return ENODEV;
  if (asked && (*asked)->volmode == "none") return ENODEV;
  const bool changes = changes_data(request.kind);
  if (asked && changes && (*asked)->read_only) return EROFS;
  if (asked && changes) {
    const int space = explain_space(**asked, request, error);
    if (space != error) return space;
  }
  // A suspended pool often keeps `zfs get` waiting, but `zpool list` answers.
  const Result<std::string> state = host_->catalog.pool_state(pool_of(name()), host_->explain_health);
  if (!state) return state.error().code == ENOENT ? ENODEV : error;
  return pool_unusable(*state) ? ENOMEDIUM : error;
}

// Returns the name it had until now, "" when it is the same.
std::string FollowedZvol::take_name(const std::string& now) {
  std::string before;
  {
    const std::lock_guard lock(mutex_);
    if (name_ == now) return "";
    before = std::exchange(name_, now);
  }
  host_->catalog.add(now);
  host_->catalog.remove(before);
  host_->catalog.forget(pool_of(now));
  return before;
}

FollowedZvol::Findings FollowedZvol::check(int fd) {
  Findings findings;
  if (fd < 0) return findings;
  if (!host_->search.trust_links) {
    const Result<std::string> behind = host_->search.name_of(fd);
    if (!behind) return findings;  // it is going away: look()'s matter
    findings.renamed_from = take_name(*behind);
  }
  const Result<std::optional<ZvolProperties>> asked = ask(name(), kAdmitWait, kCheckAge);
  if (asked && asked->has_value() && (*asked)->problem.empty()) findings.servable = keeps_flushes(**asked);
  return findings;
}

}  // namespace zvolt::backing
