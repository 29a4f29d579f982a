// The arithmetic of partly done transfers and the plain system calls for them. Used by the engines and by stores that
// do their I/O inline. No state, any thread.
#pragma once

#include <sys/types.h>

#include "backing/block_store.h"

namespace zvolt::backing {

// What is left of a read or write after request.progress bytes: iovs to hand to the kernel in one call, not necessarily
// all of the rest. `iov` may point to request.rest.
struct Remaining {
  const iovec* iov;
  unsigned count;
  uint64_t offset;
};
Remaining remaining(IoRequest& request);

// Adds `bytes` that one call moved; returns true when the request is complete. A zero is an unexpected end: EIO.
bool advance(IoRequest& request, size_t bytes);

// One preadv2/pwritev2 of what is left. Returns bytes or -errno. `flags`: RWF_*.
ssize_t transfer_once(IoRequest& request, int fd, int flags);

// The whole read or write in place; sets request.error and error_offset.
void transfer_all(IoRequest& request, int fd);

// Whole plain reads and writes of a buffer. 0 or errno; an end of file is EIO.
int read_fully(int fd, uint8_t* data, size_t length, uint64_t offset);
int write_fully(int fd, const uint8_t* data, size_t length, uint64_t offset);

// EINTR (not an error, at most kMaxRetries times) and EAGAIN of a completion are tried again.
constexpr uint8_t kMaxRetries = 16;
inline bool worth_retry(int error) {
  return error == EINTR || error == EAGAIN;
}

}  // namespace zvolt::backing
