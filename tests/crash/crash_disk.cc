// See crash_disk.h.
#include "tests/crash/crash_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/crash/sim_engine.h"

namespace zvolt::crash {

using backing::IoEngine;
using backing::IoKind;
using backing::IoRequest;
using backing::Submitted;

namespace {
bool is_shard(const IoEngine& engine) {
  return static_cast<const SimEngine&>(engine).is_shard();
}
}  // namespace

CrashDisk::CrashDisk(DiskOptions options, Power& power, Rng& rng)
    : options_(std::move(options)),
      power_(power),
      rng_(rng),
      reopens_(options_.reopen_seed),
      durable_(options_.size),
      now_(options_.size) {}

Submitted CrashDisk::submit(IoRequest& request, IoEngine& engine) {
  request.error = 0;
  request.error_offset = request.offset;
  if (request.kind != IoKind::flush &&
      (request.length > now_.size() || request.offset > now_.size() - request.length)) {
    request.error = EINVAL;
    return Submitted::done;
  }
  power_.tick();
  watch(request, engine);
  request.scratch[0] = completed_;
  if (!faults.stalled && rng_.percent(options_.at_once_percent)) {
    request.error = effect(request);
    if (Power::trace) tell(request);
    return Submitted::done;
  }
  request.owner = this;
  request.step = &CrashDisk::perform;
  in_flight_.push_back(&request);
  engine.park(request);
  if (faults.stalled) {
    stalled_.push_back(&request);
  } else {
    engine.finish_from_any_thread(request);
  }
  return Submitted::pending;
}

// block_store.h leaves the order of overlapping requests in flight undefined: who cares must not have any. Hosts (whose
// requests reach a store straight when there is no journal) may do as they like.
void CrashDisk::watch(const IoRequest& request, const IoEngine& engine) {
  if (!changes(request.kind)) return;
  const uint64_t unit = options_.log_sector;
  if (unit != 0 && (request.offset % unit != 0 || request.length % unit != 0)) {
    power_.fail("a write to the log that is not aligned to its sectors");
  }
  const bool by_host = unit == 0 && is_shard(engine);
  for (const IoRequest* other : in_flight_) {
    if (!changes(other->kind) || (by_host && is_shard(*other->engine))) continue;
    if (other->offset >= request.offset + request.length || request.offset >= other->offset + other->length) continue;
    power_.fail(options_.name + ": two writes in flight overlap at byte " + std::to_string(request.offset));
  }
}

void CrashDisk::perform(IoRequest& request) noexcept {
  auto& disk = *static_cast<CrashDisk*>(request.owner);
  disk.power_.tick();
  std::erase(disk.in_flight_, &request);
  request.step = nullptr;
  request.error = disk.effect(request);
  if (Power::trace) disk.tell(request);
  request.done(request);
}

void CrashDisk::tell(const IoRequest& request) const {
  constexpr const char* kKinds[] = {"read", "write", "flush", "write_zeroes", "discard", "allocation_status"};
  Power::tell("  " + options_.name + ": " + kKinds[static_cast<size_t>(request.kind)] + " at " +
              std::to_string(request.offset) + " length " + std::to_string(request.length) + ": " +
              std::to_string(request.error));
}

int CrashDisk::effect(IoRequest& request) {
  if (changes(request.kind)) return change(request);
  if (faults.away) return ENOMEDIUM;
  if (request.kind == IoKind::flush) return flush(request);
  if (request.kind == IoKind::read) return read(request);
  if (request.offset + request.length > now_.size()) return EINVAL;
  request.mapped = true;
  request.extent_length = request.length;
  return 0;
}

int CrashDisk::change(const IoRequest& request) {
  if (request.offset + request.length > now_.size()) return EINVAL;  // it shrank meanwhile
  Write write = as_write(request);
  write.order = ++completed_;
  const bool fails = faults.write_error != 0 && rng_.percent(faults.write_error_percent);
  if (faults.away || fails) {
    // Some of it may have happened. (Parts of zeroes too: they are pieces at the device.)
    if (rng_.one_in(2)) {
      const uint64_t begin = rng_.below(write.bytes.size() / 512 + 1) * 512;
      Write part{write.offset, write.order, {}};
      part.bytes.assign(write.bytes.begin(),
                        write.bytes.begin() + static_cast<ptrdiff_t>(std::min(begin, write.bytes.size())));
      keep(part, now_);
      volatile_.push_back(std::move(part));
    }
    return faults.away ? ENOMEDIUM : faults.write_error;
  }
  keep(write, now_);
  if (request.fua && (faults.flush_error != 0 || flush_failed_)) {  // FUA is a write and a flush
    flush_failed_ = true;
    volatile_.push_back(std::move(write));
    return EIO;
  }
  if (request.fua && !options_.flush_keeps_nothing) {
    sync_all();  // older writes of the range must not come after it, nor newer ones before those
    keep(write, durable_);
  } else {
    volatile_.push_back(std::move(write));
  }
  return 0;
}

int CrashDisk::flush(const IoRequest& request) {
  if (faults.flush_error != 0) {
    flush_failed_ = true;
    failed_up_to_ = request.scratch[0];
  }
  if (flush_failed_) return faults.flush_error != 0 ? faults.flush_error : EIO;
  if (options_.flush_keeps_nothing || rng_.percent(lying_flush_percent)) return 0;
  const uint64_t up_to = request.scratch[0];
  for (const Write& write : volatile_) {
    if (write.order <= up_to) keep(write, durable_);
  }
  std::erase_if(volatile_, [&](const Write& write) { return write.order <= up_to; });
  return 0;
}

int CrashDisk::read(IoRequest& request) const {
  if (faults.read_error != 0) return faults.read_error;
  if (request.offset + request.length > now_.size()) return EINVAL;
  uint64_t at = request.offset;
  for (uint32_t i = 0; i < request.iov_count; ++i) {
    memcpy(request.iov[i].iov_base, now_.data() + at, request.iov[i].iov_len);
    at += request.iov[i].iov_len;
  }
  return 0;
}

// What the request puts where. A discard is exact as a zvol's: whole granules become zeros, parts stay.
CrashDisk::Write CrashDisk::as_write(const IoRequest& request) const {
  Write write{request.offset, 0, std::vector<uint8_t>(request.length)};
  if (request.kind == IoKind::discard) {
    const uint64_t unit = std::max(options_.geometry.discard_granularity, 1U);
    const uint64_t begin = (request.offset + unit - 1) / unit * unit;
    const uint64_t end = (request.offset + request.length) / unit * unit;
    write.offset = begin;
    write.bytes.resize(options_.geometry.discard_zeroes && end > begin ? end - begin : 0);
  }
  uint64_t at = 0;
  for (uint32_t i = 0; request.kind == IoKind::write && i < request.iov_count; ++i) {
    memcpy(write.bytes.data() + at, request.iov[i].iov_base, request.iov[i].iov_len);
    at += request.iov[i].iov_len;
  }
  return write;
}

void CrashDisk::keep(const Write& write, std::vector<uint8_t>& image) {
  if (write.offset >= image.size() || write.bytes.empty()) return;  // it shrank; a discard of no whole granule
  memcpy(image.data() + write.offset, write.bytes.data(), std::min(write.bytes.size(), image.size() - write.offset));
}

// All, nothing, or some atomic units of it.
void CrashDisk::keep_parts(const Write& write, std::vector<uint8_t>& image) {
  const uint64_t fate = rng_.below(4);
  if (fate == 0) return;
  if (fate == 1) return keep(write, image);
  const uint64_t end = std::min<uint64_t>(write.offset + write.bytes.size(), image.size());
  const uint64_t torn_at = fate == 2 ? write.offset + rng_.below(write.bytes.size() + 1) : 0;  // a prefix, or any units
  for (uint64_t at = write.offset; at < end;) {
    const uint64_t stop = std::min(end, (at / options_.atomic + 1) * options_.atomic);
    const bool kept = fate == 2 ? stop <= torn_at : rng_.one_in(2);
    if (kept) memcpy(image.data() + at, write.bytes.data() + (at - write.offset), stop - at);
    at = stop;
  }
}

void CrashDisk::sync_all() {
  for (const Write& write : volatile_) keep(write, durable_);
  volatile_.clear();
}

void CrashDisk::release() {
  faults.stalled = false;
  for (IoRequest* request : std::exchange(stalled_, {})) request->engine->finish_from_any_thread(*request);
}

void CrashDisk::heal(bool lose_unflushed) {
  faults = {.stalled = faults.stalled};
  if (faults.stalled) release();
  if (flush_failed_ && lose_unflushed) {
    // A page that could not be written is clean after a failed fsync, and may be dropped.
    std::erase_if(volatile_, [&](const Write& write) { return write.order <= failed_up_to_ && rng_.one_in(2); });
    now_ = durable_;
    for (const Write& write : volatile_) keep(write, now_);
  }
  flush_failed_ = false;
  failed_up_to_ = 0;
}

void CrashDisk::reopen() {
  if (Power::trace) Power::tell(options_.name + " is reopened");
  ++generation_;
  std::erase_if(volatile_, [&](const Write&) { return reopens_.one_in(2); });
  now_ = durable_;
  for (const Write& write : volatile_) keep(write, now_);
}

void CrashDisk::resize(uint64_t size) {
  now_.resize(size);
  durable_.resize(size);
  for (Write& write : volatile_) {
    if (write.offset + write.bytes.size() > size) write.bytes.resize(write.offset < size ? size - write.offset : 0);
  }
  notify_resize(size);
}

bool CrashDisk::changing() const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [](const IoRequest* r) { return changes(r->kind); });
}

void CrashDisk::answer_shards() {
  std::vector<IoRequest*> answered;
  for (IoRequest* request : in_flight_) {
    if (is_shard(*request->engine)) answered.push_back(request);
  }
  in_flight_.clear();
  stalled_.clear();
  for (IoRequest* request : answered) {
    request->step = nullptr;
    request->error = EIO;
    request->done(*request);
  }
}

void CrashDisk::power_cut() {
  if (Power::trace) Power::tell(options_.name + " loses power");
  for (const IoRequest* request : in_flight_) {
    if (changes(request->kind)) volatile_.push_back(as_write(*request));
  }
  for (size_t i = volatile_.size(); i > 1; --i) std::swap(volatile_[i - 1], volatile_[rng_.below(i)]);
  for (const Write& write : volatile_) keep_parts(write, durable_);
  volatile_.clear();
  now_ = durable_;
  faults = {};
  flush_failed_ = false;
  failed_up_to_ = 0;
}

void CrashDisk::kill() {
  if (Power::trace) Power::tell(options_.name + " loses its process, with in flight:");
  if (Power::trace) {
    for (const IoRequest* request : in_flight_) tell(*request);
  }
  for (const IoRequest* request : in_flight_) {
    if (!changes(request->kind) || rng_.one_in(2)) continue;
    Write write = as_write(*request);
    if (rng_.one_in(3)) write.bytes.resize(rng_.below(write.bytes.size() / 512 + 1) * 512);
    write.order = ++completed_;
    keep(write, now_);
    volatile_.push_back(std::move(write));
  }
  faults = {};
  flush_failed_ = false;
  failed_up_to_ = 0;
}

}  // namespace zvolt::crash
