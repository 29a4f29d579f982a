// See transfer.h.
#include "backing/transfer.h"

#include <unistd.h>
#include <cerrno>
#include <climits>

#include <algorithm>

namespace zvolt::backing {

Remaining remaining(IoRequest& request) {
  constexpr unsigned kMost = IOV_MAX;  // the kernel's limit per call
  if (request.progress == 0) return {request.iov, std::min(request.iov_count, kMost), request.offset};
  uint64_t skip = request.progress;
  unsigned at = 0;
  while (at < request.iov_count && skip >= request.iov[at].iov_len) skip -= request.iov[at++].iov_len;
  const uint64_t offset = request.offset + request.progress;
  if (skip == 0) return {request.iov + at, std::min(request.iov_count - at, kMost), offset};
  request.rest.iov_base = static_cast<uint8_t*>(request.iov[at].iov_base) + skip;
  request.rest.iov_len = request.iov[at].iov_len - skip;
  return {&request.rest, 1, offset};
}

bool advance(IoRequest& request, size_t bytes) {
  request.progress += bytes;
  if (request.progress >= request.length) return true;
  if (bytes != 0) return false;
  request.error = EIO;  // end of file inside the store: somebody cut it short
  request.error_offset = request.offset + request.progress;
  return true;
}

ssize_t transfer_once(IoRequest& request, int fd, int flags) {
  const Remaining rest = remaining(request);
  const auto offset = static_cast<off_t>(rest.offset);
  const auto count = static_cast<int>(rest.count);
  ssize_t moved;
  if (flags == 0 && count == 1) {  // no iovec to copy in
    moved = request.kind == IoKind::read ? pread(fd, rest.iov->iov_base, rest.iov->iov_len, offset)
                                         : pwrite(fd, rest.iov->iov_base, rest.iov->iov_len, offset);
  } else {
    moved = request.kind == IoKind::read ? preadv2(fd, rest.iov, count, offset, flags)
                                         : pwritev2(fd, rest.iov, count, offset, flags);
  }
  return moved < 0 ? -errno : moved;
}

void transfer_all(IoRequest& request, int fd) {
  request.progress = 0;
  request.retries = 0;
  while (request.progress < request.length) {
    const ssize_t moved = transfer_once(request, fd, 0);
    if (moved >= 0) {
      if (advance(request, static_cast<size_t>(moved))) return;
    } else if (!worth_retry(static_cast<int>(-moved)) || request.retries++ >= kMaxRetries) {
      request.error = static_cast<int>(-moved);
      request.error_offset = request.offset + request.progress;
      return;
    }
  }
}

namespace {

int whole(int fd, void* data, size_t length, uint64_t offset, IoKind kind) {
  const iovec iov{data, length};
  IoRequest request;
  request.kind = kind;
  request.offset = offset;
  request.length = length;
  request.iov = &iov;
  request.iov_count = 1;
  transfer_all(request, fd);
  return request.error;
}

}  // namespace

int read_fully(int fd, uint8_t* data, size_t length, uint64_t offset) {
  return whole(fd, data, length, offset, IoKind::read);
}

int write_fully(int fd, const uint8_t* data, size_t length, uint64_t offset) {
  return whole(fd, const_cast<uint8_t*>(data), length, offset, IoKind::write);  // only read from
}

}  // namespace zvolt::backing
