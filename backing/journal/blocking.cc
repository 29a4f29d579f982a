// See blocking.h.
#include "backing/journal/blocking.h"

#include <poll.h>

namespace zvolt::backing::journal {

namespace {

constexpr size_t kReap = 256;
constexpr int kWaitMs = 1000;  // looks again, should a wake-up have been another's

}  // namespace

void Blocking::wait(const bool& done) {
  IoEngine& own = engine();
  for (;;) {
    own.flush();
    if (done) return;
    if (own.reap(kReap) != 0) continue;
    if (done) return;
    if (idle_) {
      idle_();
      continue;
    }
    // A simulated engine has no descriptor: each reap() is a step of it.
    if (own.wait_fd() < 0) continue;
    pollfd waiting{own.wait_fd(), POLLIN, 0};
    poll(&waiting, 1, kWaitMs);
  }
}

int Blocking::wait_for(IoRequest& request, const std::function<Submitted(IoRequest&)>& submit) {
  bool done = false;
  request.context = &done;
  request.done = [](IoRequest& r) noexcept { *static_cast<bool*>(r.context) = true; };
  engine().flush();  // the engine is this thread's from here on
  if (submit(request) == Submitted::pending) wait(done);
  return request.error;
}

int Blocking::run(BlockStore& store, IoRequest& request) {
  return wait_for(request, [&](IoRequest& r) { return store.submit(r, engine()); });
}

int Blocking::read(BlockStore& store, uint64_t offset, uint8_t* data, uint64_t length) {
  IoRequest request;
  const iovec iov{data, length};
  request.kind = IoKind::read;
  request.offset = offset;
  request.length = length;
  request.iov = &iov;
  request.iov_count = 1;
  return run(store, request);
}

int Blocking::write(BlockStore& store, uint64_t offset, const uint8_t* data, uint64_t length) {
  IoRequest request;
  const iovec iov{const_cast<uint8_t*>(data), length};
  request.kind = IoKind::write;
  request.offset = offset;
  request.length = length;
  request.iov = &iov;
  request.iov_count = 1;
  return run(store, request);
}

int Blocking::flush(BlockStore& store) {
  IoRequest request;
  request.kind = IoKind::flush;
  return run(store, request);
}

}  // namespace zvolt::backing::journal
