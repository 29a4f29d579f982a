// FollowedDevice: looking at the device, opening and closing it. See followed_device.h. All of it under look_mutex_, on
// the watcher's, the helper's or an operator's thread; any system call here may take as long as the pool lets it.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/followed_device.h"
#include "backing/open_probe.h"

namespace zvolt::backing {

namespace {

// How long a device that is there is waited for when it must be closed for a moment (reopened for writing).
constexpr std::chrono::milliseconds kReopenWait{1000};
// A completion is seen before the kernel has let go of the request's file: its claim may outlast our close by a moment.
constexpr std::chrono::milliseconds kOwnClaimWait{200};

// What the descriptor number refers to while the device is away: nothing can be read, written or asked of it (EBADF).
int place_holder() {
  static const int fd = open("/", O_PATH | O_CLOEXEC);
  return fd;
}

// A fresh open asks the driver, where the open descriptor tells nothing. By way of /proc it is the same device whatever
// its name has become.
int open_afresh(int fd, const std::string& path, int flags) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const int fresh = open(link.c_str(), flags | O_CLOEXEC);
  if (fresh >= 0 || errno != ENOENT || access("/proc/self/fd", F_OK) == 0) return fresh;
  return open(path.c_str(), flags | O_CLOEXEC);
}

int probe_device(int fd, const std::string& path) {
  const OpenDevice fresh(open_afresh(fd, path, O_RDONLY));
  if (fresh.fd() < 0) return errno;
  uint64_t size = 0;
  if (ioctl(fresh.fd(), BLKGETSIZE64, &size) != 0) return errno;
  return size == 0 ? ENOMEDIUM : 0;
}

std::string in_flight_words(int64_t count) {
  return "; closes when " + std::to_string(count) + (count == 1 ? " request" : " requests") + " in flight have ended";
}

}  // namespace

const char* presence_name(Presence presence) {
  static constexpr const char* kNames[] = {"present", "late", "gone", "refused", "offline"};
  return kNames[static_cast<size_t>(presence)];
}

bool says_gone(int error) {
  return error == ENXIO || error == ENODEV || error == ENOENT || error == ENOMEDIUM;
}

Result<std::shared_ptr<FollowedStore>> follow_device(FollowOptions options) {
  if (!options.locate) return Error{EINVAL, options.name + ": nothing says where its device is"};
  OpenDevice number(fcntl(place_holder(), F_DUPFD_CLOEXEC, 0));
  if (number.fd() < 0) {
    const int error = errno;
    return Error{error, failure("get a descriptor for", options.name, error)};
  }
  const auto device = std::make_shared<FollowedDevice>(std::move(options), std::move(number));
  device->first_look();
  return std::shared_ptr<FollowedStore>(device);
}

void FollowedDevice::first_look() {
  const std::lock_guard lock(look_mutex_);
  try_open(options_.busy_wait);
  publish();
}

FollowedStore::Report FollowedDevice::look() {
  const std::lock_guard lock(look_mutex_);
  look_briefly();
  if (device_ == nullptr && !offline_) try_open(just_closed_ ? kOwnClaimWait : std::chrono::milliseconds(0));
  return publish();
}

// Without opening: what has failed is answered before locate() is asked, which may wait for a zfs command.
FollowedDevice::Standing FollowedDevice::look_briefly() {
  look_wanted_.store(false, std::memory_order_relaxed);
  if (state_.load(std::memory_order_relaxed) == kOpen) follow_open();
  close_if_drained();
  publish();
  Standing standing;
  standing.open = state_.load(std::memory_order_relaxed) == kOpen;
  if (standing.open) standing.read_only = device_->read_only();
  standing.size = size_bytes();
  standing.generation = generation_;
  // Somebody should look for it again; the watcher's next look may open it.
  if (!standing.open && !offline_) look_wanted_.store(true, std::memory_order_relaxed);
  return standing;
}

void FollowedDevice::follow_open() {
  const int error = options_.probe ? options_.probe(number_.fd()) : probe_device(number_.fd(), path_);
  if (says_gone(error)) return begin_close(Presence::gone, path_ + " is gone: " + strerror(error));
  const Result<uint64_t> size = device_->refresh_size();
  if (size && *size == 0) return begin_close(Presence::gone, path_ + " has no size any more");
  if (size) set_size(*size);
  follow_read_only();
  if (state_.load(std::memory_order_relaxed) == kOpen) follow_flushes();
}

void FollowedDevice::follow_read_only() {
  int read_only = 0;
  if (ioctl(number_.fd(), BLKROGET, &read_only) != 0) return;
  if (!writable_open_) {
    if (!options_.read_only && read_only == 0 && can_write_now()) reopen_for_writing();
    return;
  }
  const bool now = options_.read_only || read_only != 0;
  if (now == device_->read_only()) return;
  device_->set_read_only(now);
  Geometry geometry = this->geometry();
  geometry.read_only = now;
  show(geometry, describe());
}

bool FollowedDevice::can_write_now() const {
  return OpenDevice(open_afresh(number_.fd(), path_, O_RDWR)).fd() >= 0;
}

// A flush that the device refused while it was read-only lost nothing: what was written before stands, and can be
// flushed once it is writable. One that failed with the device there and writable did.
void FollowedDevice::follow_flushes() {
  const int error = device_->flushes().sticky_error();
  if (error == 0 || error == flush_lost_) return;
  if (device_->read_only()) {
    device_->flushes().forgive();
    flush_failed_.store(true, std::memory_order_relaxed);
  } else {
    flush_lost_ = error;
  }
}

void FollowedDevice::begin_close(Presence presence, std::string reason) {
  if (flush_lost_ == 0 && device_->flushes().sticky_error() != 0) flush_failed_.store(true, std::memory_order_relaxed);
  left_ = false;
  state_.store(kClosing, std::memory_order_seq_cst);
  inside_.fence();
  set_away(presence, std::move(reason));
}

void FollowedDevice::wait_drained(std::chrono::milliseconds most) {
  Lock lock(help_mutex_);
  left_ = wake_.wait_for(lock, most, [this] { return inside_.zero(); });
}

void FollowedDevice::close_if_drained() {
  if (state_.load(std::memory_order_relaxed) != kClosing) return;
  // Once seen, it stands: whoever is counted afterwards is on its way to be refused.
  left_ = left_ || inside_.zero();
  if (!left_) return;
  if (offline_ && !device_->read_only() && fdatasync(number_.fd()) != 0) {
    flush_failed_.store(true, std::memory_order_relaxed);
  }
  device_.reset();
  state_.store(kClosed, std::memory_order_seq_cst);
  dup3(place_holder(), number_.fd(), O_CLOEXEC);  // closes the device
  just_closed_ = true;
}

// A descriptor that was opened for reading stays so. Requests meet ENOMEDIUM for the moment that it takes.
void FollowedDevice::reopen_for_writing() {
  begin_close(Presence::gone, path_ + " is being reopened for writing");
  wait_drained(kReopenWait);
  close_if_drained();
}

void FollowedDevice::set_away(Presence presence, std::string reason) {
  presence_ = presence;
  reason_ = std::move(reason);
}

FollowedStore::Report FollowedDevice::set_offline(bool offline) {
  const std::lock_guard lock(look_mutex_);
  if (offline) {
    offline_ = true;
    const std::string words = "taken offline by the operator";
    if (state_.load(std::memory_order_relaxed) == kOpen) {
      begin_close(Presence::offline, words);
      wait_drained(kOfflineWait);
    }
    set_away(Presence::offline, words);
    close_if_drained();
    return publish();
  }
  if (!offline_) return publish();
  offline_ = false;
  flush_lost_ = 0;  // the operator's word that what a flush lost is dealt with
  busy_since_ = {};
  set_away(away_presence(), "not looked for since it was taken offline");
  close_if_drained();
  if (device_ == nullptr) try_open(options_.busy_wait);
  return publish();
}

Result<OpenDevice> FollowedDevice::claim(const std::string& path, std::chrono::milliseconds busy_wait) {
  DeviceOptions device;
  device.path = path;
  device.read_only = options_.read_only;
  device.busy_wait = busy_wait;
  // The first opening waits for a claim here; later ones are tried with each look, and the time adds up.
  const auto now = std::chrono::steady_clock::now();
  const bool waited = busy_since_ != std::chrono::steady_clock::time_point{} && now - busy_since_ >= kForceWait;
  device.force = options_.force && (generation_ == 0 || waited);
  if (waited) device.force_wait = std::chrono::milliseconds(0);
  Result<OpenDevice> opened = claim_device(device);
  writable_open_ = !device.read_only;
  const bool no_writing = !opened && (opened.error().code == EROFS || opened.error().code == EACCES);
  if (no_writing && !options_.read_only) {
    device.read_only = true;
    writable_open_ = false;
    Result<OpenDevice> reading = claim_device(device);
    if (reading) return reading;
  }
  if (opened || opened.error().code != EBUSY) {
    busy_since_ = {};
  } else if (busy_since_ == std::chrono::steady_clock::time_point{}) {
    busy_since_ = now;
  }
  return opened;
}

void FollowedDevice::try_open(std::chrono::milliseconds busy_wait) {
  const Result<std::string> path = options_.locate();
  if (!path) return set_away(away_presence(), path.error().message);
  Result<OpenDevice> opened = claim(*path, busy_wait);
  if (!opened) {
    const bool missing = says_gone(opened.error().code);
    const bool claimed = opened.error().code == EBUSY && options_.claimant;
    const std::string who = claimed ? options_.claimant(*path) : "";
    return set_away(missing ? away_presence() : Presence::refused,
                    who.empty() ? opened.error().message : *path + " " + who);
  }
  DeviceOptions device;
  device.path = *path;
  device.read_only = !writable_open_;
  Result<DeviceFacts> facts = read_device(device, opened->fd());
  if (!facts) return set_away(away_presence(), facts.error().message);
  if (options_.admit) {
    const Result<void> admitted = options_.admit(opened->fd(), facts->setup.geometry);
    if (!admitted) return set_away(Presence::refused, admitted.error().message);
  }
  install(*path, std::move(*opened), std::move(*facts));
}

void FollowedDevice::install(const std::string& path, OpenDevice opened, DeviceFacts facts) {
  if (dup3(opened.fd(), number_.fd(), O_CLOEXEC) < 0) {
    return set_away(away_presence(), failure("take over", path, errno));
  }
  FdSetup& setup = facts.setup;
  setup.fd = number_.fd();
  setup.owns_fd = false;
  setup.end = &FollowedDevice::on_end;
  setup.keeper = this;
  setup.tally = tally_;
  setup.flush_error = flush_lost_;
  show(setup.geometry, setup.description);
  const uint64_t size = setup.size;
  device_ = std::make_unique<DeviceStore>(std::move(setup), facts.punch);
  path_ = path;
  ++generation_;
  opened_.store(generation_, std::memory_order_release);  // before the first request of this opening
  just_closed_ = false;
  busy_since_ = {};
  set_size(size);
  set_away(Presence::present, "");
  state_.store(kOpen, std::memory_order_seq_cst);
}

void FollowedDevice::show(const Geometry& geometry, const std::string& description) {
  const auto same = [&](const Face& face) { return face.geometry == geometry && face.description == description; };
  auto face = std::find_if(faces_.begin(), faces_.end(), same);
  if (face == faces_.end()) face = faces_.insert(faces_.end(), Face{geometry, description});
  if (face_.exchange(&*face, std::memory_order_acq_rel) != &*face) face_changed_ = true;
}

void FollowedDevice::set_size(uint64_t size) {
  if (size_.exchange(size, std::memory_order_relaxed) != size) notify_resize(size);
}

FollowedStore::Report FollowedDevice::publish() {
  Report now;
  now.presence = presence_;
  now.reason = reason_;
  if (state_.load(std::memory_order_relaxed) == kClosing) now.reason += in_flight_words(inside_.sum());
  now.size = size_bytes();
  now.read_only = geometry().read_only;
  now.device = path_;
  now.generation = generation_;
  now.flush_failed_meanwhile = flush_failed_.load(std::memory_order_relaxed);
  now.flush_lost = flush_lost_ != 0;
  bool changed = std::exchange(face_changed_, false);
  {
    const std::lock_guard lock(report_mutex_);
    changed = changed || now.presence != report_.presence || now.size != report_.size ||
              now.read_only != report_.read_only || now.generation != report_.generation;
    report_ = now;
  }
  if (changed && changed_) changed_(now);
  return now;
}

FollowedStore::Report FollowedDevice::report() const {
  Report now;
  {
    const std::lock_guard lock(report_mutex_);
    now = report_;
  }
  now.flush_failed_meanwhile = flush_failed_.load(std::memory_order_relaxed);
  return now;
}

void FollowedDevice::set_flushes_told() {
  flush_failed_.store(false, std::memory_order_relaxed);
}

}  // namespace zvolt::backing
