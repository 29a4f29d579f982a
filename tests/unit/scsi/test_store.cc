// See test_store.h.
#include "tests/unit/scsi/test_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace zvolt::scsi::test {

using backing::IoKind;
using backing::IoRequest;
using backing::Submitted;

void TestEngine::offload(IoRequest& request, void (*work)(IoRequest&)) {
  work(request);
  finish_from_any_thread(request);
}

void TestEngine::finish_from_any_thread(IoRequest& request) {
  post([](void* done) { static_cast<IoRequest*>(done)->done(*static_cast<IoRequest*>(done)); }, &request);
}

void TestEngine::post(void (*fn)(void*), void* arg) {
  std::scoped_lock lock(mutex_);
  queue_.push_back({fn, arg});
  posted_.notify_all();
}

size_t TestEngine::reap(size_t limit) {
  std::deque<Posted> turn;
  {
    std::scoped_lock lock(mutex_);
    turn.swap(queue_);
  }
  size_t ran = 0;
  for (const Posted& posted : turn) {
    if (ran++ < limit) posted.fn(posted.arg);
  }
  return ran;
}

bool TestEngine::idle() {
  std::scoped_lock lock(mutex_);
  return queue_.empty();
}

void TestEngine::wait_for_work() {
  std::unique_lock lock(mutex_);
  posted_.wait(lock, [&] { return !queue_.empty(); });
}

backing::Geometry TestStore::default_geometry() {
  backing::Geometry geometry;
  geometry.logical_block = 512;
  geometry.physical_block = 4096;
  geometry.discard_granularity = 4096;
  geometry.discard_zeroes = true;
  geometry.volatile_cache = true;
  return geometry;
}

TestStore::TestStore(uint64_t size, backing::Geometry geometry)
    : geometry_(geometry), bytes_(size), mapped_(size, false) {}

void TestStore::fill(uint8_t value) {
  std::fill(bytes_.begin(), bytes_.end(), value);
  std::fill(mapped_.begin(), mapped_.end(), true);
}

std::vector<uint8_t> TestStore::bytes(uint64_t offset, uint64_t length) const {
  const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
  return {from, from + static_cast<std::ptrdiff_t>(length)};
}

size_t TestStore::count(IoKind kind) const {
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [&](const Event& event) { return event.kind == kind; }));
}

Submitted TestStore::submit(IoRequest& request, backing::IoEngine& engine) {
  events.push_back({request.kind, request.offset, request.length});
  const auto error = errors.find(request.kind);
  request.error = error != errors.end() ? error->second : perform(request);
  if (timing == Timing::at_once) return Submitted::done;
  if (timing == Timing::withheld) {
    withheld_.push_back(&request);
  } else {
    engine.finish_from_any_thread(request);
  }
  return Submitted::pending;
}

void TestStore::release_withheld() {
  for (IoRequest* request : std::exchange(withheld_, {})) request->done(*request);
}

int TestStore::perform(IoRequest& request) {
  if (request.kind == IoKind::flush) return 0;
  if (request.offset > bytes_.size() || request.length > bytes_.size() - request.offset) return EINVAL;
  switch (request.kind) {
    case IoKind::read:
      return read(request);
    case IoKind::write:
      write(request);
      break;
    case IoKind::write_zeroes:
      std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(request.offset), request.length, uint8_t{0});
      break;
    case IoKind::discard:
      discard(request.offset, request.length);
      break;
    case IoKind::allocation_status:
      allocation_status(request);
      break;
    case IoKind::flush:
      break;
  }
  return 0;
}

int TestStore::read(IoRequest& request) {
  if (bad_offset >= request.offset && bad_offset < request.offset + request.length) {
    request.error_offset = bad_offset;
    return EIO;
  }
  uint64_t at = request.offset;
  for (uint32_t i = 0; i < request.iov_count; at += request.iov[i++].iov_len) {
    std::memcpy(request.iov[i].iov_base, bytes_.data() + at, request.iov[i].iov_len);
  }
  return 0;
}

void TestStore::write(const IoRequest& request) {
  uint64_t at = request.offset;
  for (uint32_t i = 0; i < request.iov_count; at += request.iov[i++].iov_len) {
    std::memcpy(bytes_.data() + at, request.iov[i].iov_base, request.iov[i].iov_len);
  }
  std::fill_n(mapped_.begin() + static_cast<std::ptrdiff_t>(request.offset), request.length, true);
}

// As a zvol: answers OK to part of a granule, and changes nothing there.
void TestStore::discard(uint64_t offset, uint64_t length) {
  const uint64_t granule = geometry_.discard_granularity;
  for (uint64_t at = geometry_.discard_alignment; at + granule <= bytes_.size(); at += granule) {
    if (at < offset || at + granule > offset + length) continue;
    const auto from = static_cast<std::ptrdiff_t>(at);
    std::fill_n(mapped_.begin() + from, granule, false);
    if (geometry_.discard_zeroes) std::fill_n(bytes_.begin() + from, granule, uint8_t{0});
  }
}

void TestStore::allocation_status(IoRequest& request) const {
  request.mapped = mapped_[request.offset];
  uint64_t length = 1;
  while (length < request.length && mapped_[request.offset + length] == request.mapped) ++length;
  request.extent_length = length;
}

}  // namespace zvolt::scsi::test
