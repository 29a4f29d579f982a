// MemoryStore and NullStore: everything happens inside submit(). Made by make_memory() and make_null(); threading as
// BlockStore (overlapping requests in flight together have no defined order, as everywhere).
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/io_engine.h"
#include "backing/stores.h"

namespace zvolt::backing {

namespace {

constexpr uint32_t kPage = 4096;                      // granule of discard
constexpr uint64_t kInlineRange = uint64_t{1} << 20;  // bytes; zeroing more than this takes a worker

bool beyond(const IoRequest& request, uint64_t size) {
  return request.length > size || request.offset > size - request.length;
}

std::string size_text(uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

class MemoryStore final : public BlockStore {
 public:
  MemoryStore(uint8_t* data, uint64_t size) : data_(data), size_(size), description_("memory, " + size_text(size)) {
    geometry_.discard_granularity = kPage;
    geometry_.discard_zeroes = true;
    geometry_.physical_block = kPage;
  }
  ~MemoryStore() override { munmap(data_, size_); }

  Submitted submit(IoRequest& request, IoEngine& engine) override;
  const Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return size_; }
  const std::string& describe() const override { return description_; }

 private:
  void transfer(IoRequest& request);
  void clear(IoRequest& request);

  uint8_t* data_;
  uint64_t size_;
  std::string description_;
  Geometry geometry_;
};

Submitted MemoryStore::submit(IoRequest& request, IoEngine& engine) {
  request.error = 0;
  request.error_offset = request.offset;
  if (request.kind == IoKind::flush) return Submitted::done;
  if (beyond(request, size_)) {
    request.error = EINVAL;
    return Submitted::done;
  }
  if (request.kind == IoKind::read || request.kind == IoKind::write) {
    transfer(request);
  } else if (request.kind == IoKind::allocation_status) {
    request.mapped = true;
    request.extent_length = request.length;
  } else if (request.length <= kInlineRange) {
    clear(request);
  } else {
    request.owner = this;
    engine.offload(request, [](IoRequest& r) { static_cast<MemoryStore*>(r.owner)->clear(r); });
    return Submitted::pending;
  }
  return Submitted::done;
}

void MemoryStore::transfer(IoRequest& request) {
  uint8_t* at = data_ + request.offset;
  for (uint32_t i = 0; i < request.iov_count; ++i) {
    const iovec& part = request.iov[i];
    if (request.kind == IoKind::read) {
      memcpy(part.iov_base, at, part.iov_len);
    } else {
      memcpy(at, part.iov_base, part.iov_len);
    }
    at += part.iov_len;
  }
}

// Whole pages are given back to the system and read as zeros; a discard leaves the edges alone.
void MemoryStore::clear(IoRequest& request) {
  const uint64_t end = request.offset + request.length;
  const uint64_t first = std::min(round_up(request.offset, kPage), end);
  const uint64_t last = std::max(round_down(end, kPage), first);
  if (last > first && madvise(data_ + first, last - first, MADV_DONTNEED) != 0) request.error = errno;
  if (request.kind == IoKind::discard) return;
  memset(data_ + request.offset, 0, first - request.offset);
  memset(data_ + last, 0, end - last);
}

class NullStore final : public BlockStore {
 public:
  explicit NullStore(uint64_t size) : size_(size), description_("null, " + size_text(size)) {
    geometry_.volatile_cache = false;
    geometry_.discard_granularity = kPage;
    geometry_.discard_zeroes = true;
  }

  Submitted submit(IoRequest& request, IoEngine&) override {
    request.error = 0;
    request.error_offset = request.offset;
    if (request.kind == IoKind::flush) return Submitted::done;
    if (beyond(request, size_)) request.error = EINVAL;
    // Zeroed, for the buffers held another session's data before.
    if (request.kind == IoKind::read && request.error == 0) {
      for (uint32_t i = 0; i < request.iov_count; ++i) memset(request.iov[i].iov_base, 0, request.iov[i].iov_len);
    }
    request.mapped = false;
    request.extent_length = request.length;
    return Submitted::done;
  }
  const Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return size_; }
  const std::string& describe() const override { return description_; }

 private:
  uint64_t size_;
  std::string description_;
  Geometry geometry_;
};

}  // namespace

Result<std::shared_ptr<BlockStore>> make_memory(uint64_t size_bytes) {
  if (size_bytes == 0) return Error{EINVAL, "a memory store needs a size above 0"};
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    return Error{error, "cannot map " + size_text(size_bytes) + " of memory: " + strerror(error)};
  }
  return std::shared_ptr<BlockStore>(std::make_shared<MemoryStore>(static_cast<uint8_t*>(data), size_bytes));
}

Result<std::shared_ptr<BlockStore>> make_null(uint64_t size_bytes) {
  if (size_bytes == 0) return Error{EINVAL, "a null store needs a size above 0"};
  return std::shared_ptr<BlockStore>(std::make_shared<NullStore>(size_bytes));
}

}  // namespace zvolt::backing
