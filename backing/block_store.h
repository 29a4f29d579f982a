// BlockStore: a range of bytes that can be read, written, flushed, zeroed and discarded: a block device, a zvol, a
// file, memory, or a test double around one of them. Knows nothing of SCSI.
//
// Threading: a store is opened once and shared by all shards; submit() may be called on any shard thread with that
// shard's IoEngine, at the same time as on others. A request completes on the shard that submitted it.
// Lifetime: the store outlives every request; a request, its iov array and its memory live until completion.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "backing/result.h"

namespace zvolt::backing {

class IoEngine;

enum class IoKind : uint8_t { read, write, flush, write_zeroes, discard, allocation_status };

// What a store is made of. All in bytes. Constant after open, except that the size is read by size_bytes().
struct Geometry {
  bool operator==(const Geometry&) const = default;

  uint32_t logical_block = 512;      // the smallest unit that is written atomically; a power of two
  uint32_t physical_block = 512;     // a write smaller than this costs a read-modify-write (a zvol: volblocksize)
  uint32_t optimal_io = 0;           // best transfer size, 0 when unknown
  uint32_t io_alignment = 1;         // offset and length of a read or write must be multiples (O_DIRECT), 1 = any
  uint32_t memory_alignment = 1;     // so must the address of each iov, 1 = any
  uint32_t discard_granularity = 0;  // 0: discard is not supported
  uint32_t discard_alignment = 0;    // offset of the first granule
  bool discard_zeroes = false;       // a discarded whole granule reads as zeros afterwards
  bool volatile_cache = true;        // a completed write may be lost at power cut until a flush; false: flush is free
  bool read_only = false;            // writes, zeroes and discards fail with EROFS
};

// One request. The caller owns it and fills the first part; the store and the engine use the last part as they like.
struct IoRequest {
  using Done = void (*)(IoRequest&) noexcept;

  // --- set by the caller, left alone until completion ---
  IoKind kind = IoKind::read;
  bool fua = false;            // write, write_zeroes, discard: durable before completion
  bool spare_holes = false;    // write_zeroes: what reads as zeros already is not written (a hole stays a hole)
  uint64_t offset = 0;         // bytes
  uint64_t length = 0;         // bytes; flush: ignored (everything)
  const iovec* iov = nullptr;  // read, write: sum of iov_len == length; never null when length > 0
  uint32_t iov_count = 0;
  // write_zeroes, discard: once it says true the rest is left undone (ECANCELED). Null: never.
  const std::atomic<bool>* cancel = nullptr;
  Done done = nullptr;      // called on the submitting shard when submit() returned pending
  void* context = nullptr;  // the caller's

  // --- result, valid at completion ---
  int error = 0;               // 0 or errno; a transfer is whole or an error: short I/O is carried on by the store
  uint64_t error_offset = 0;   // bytes; where a read failed, when known, else == offset
  bool mapped = true;          // allocation_status: state of the extent that starts at `offset` ...
  uint64_t extent_length = 0;  // ... and its length in bytes, <= length

  // --- scratch of store and engine ---
  IoRequest* next = nullptr;
  void* owner = nullptr;               // the store
  Done step = nullptr;                 // store's: called in place of `done`; null whenever the caller has the request
  IoEngine* engine = nullptr;          // where it was submitted
  void (*work)(IoRequest&) = nullptr;  // engine's: see IoEngine::offload
  uint64_t progress = 0;               // engine's: bytes done so far
  iovec single{};                      // a place for a one-entry iov; the caller may use it for its own
  iovec rest{};                        // engine's: the unfinished part of one iov after a short transfer
  uint64_t scratch[2] = {0, 0};        // store's
  bool again = false;                  // work's: call it once more, after others had their turn
  bool merged = false;                 // engine's: went to the kernel as part of a larger write
  bool retried = false;                // store's: false whenever the caller has the request
  int fd = -1;                         // engine's
  uint8_t stage = 0;                   // engine's: transfer or sync
  uint8_t retries = 0;                 // engine's: EINTR, EAGAIN
};

// What a store counted since it was opened. Sums of relaxed counters: exact when nothing is in flight.
struct StoreCounters {
  uint64_t rmw = 0;  // writes and zeroes of parts of an io_alignment block: read-modify-writes of ours
  uint64_t partial_writes =
      0;                       // writes that cover a physical block (volblock) in part: the device's read-modify-writes
  uint64_t merged_writes = 0;  // writes that reached the device as part of a larger one
  uint64_t space_retries = 0;  // zeroes tried once more after ENOSPC
};

enum class Submitted : uint8_t {
  done,     // finished before submit() returned: look at `error`; `done` is not and will not be called
  pending,  // `done` will be called once, later, on this shard, never from inside submit()
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // Contract per kind. All: offset + length <= size_bytes(), else EINVAL (checked here, never trusted). Requests may
  // complete in any order; overlapping requests that are in flight together have no defined order: callers order them.
  //   read               fills the iovs. EIO: media error, see error_offset.
  //   write              whole or error. With fua, or after a later successful flush, the bytes survive a power cut.
  //   Ranges not
  //                      aligned to io_alignment are allowed: the store does an atomic read-modify-write of the edges.
  //   flush              every write that completed before the flush was submitted is durable. A failed flush is never
  //                      forgotten: later flushes fail too until the store was reopened.
  //   write_zeroes       range reads as zeros; may or may not keep space allocated. With spare_holes nothing is
  //                      allocated where zeros are read already, and a followed zvol tries ENOSPC once more, later.
  //   discard            the store may free the range. What stays allocated keeps its data, unless discard_zeroes, in
  //                      which case whole granules read as zeros. Partly covered granules are left as they were.
  //   allocation_status  extent at offset: mapped (data) or not (hole). A store that cannot know says mapped.
  // ENOMEDIUM: not there now, may come back (followed_store.h).
  // ENOSPC, EDQUOT: no space. EROFS, EPERM: read only. ENODEV, ENXIO: the device is gone. EAGAIN, ENOMEM: try later.
  virtual Submitted submit(IoRequest& request, IoEngine& engine) = 0;

  virtual const Geometry& geometry() const = 0;
  virtual uint64_t size_bytes() const = 0;          // any thread; follows a resize
  virtual const std::string& describe() const = 0;  // for logs: "file /srv/a.img (O_DIRECT)"

  virtual StoreCounters counters() const { return {}; }  // any thread

  // Another number: the backing was closed and opened again in between. What was written before, and not flushed
  // before, may be lost, although a flush afterwards succeeds. Constant for a store that is never reopened. Any thread.
  virtual uint64_t generation() const { return 0; }

  // Looks at the backing once more (BLKGETSIZE64, fstat). Returns the size. May block: not on a shard thread.
  virtual Result<uint64_t> refresh_size() { return size_bytes(); }
  // Called (on any thread) after size_bytes() has changed. Set before the store is shared, at most one.
  void on_resize(std::function<void(uint64_t)> notice) { resize_notice_ = std::move(notice); }

 protected:
  void notify_resize(uint64_t size_bytes) const {
    if (resize_notice_) resize_notice_(size_bytes);
  }

 private:
  std::function<void(uint64_t)> resize_notice_;
};

}  // namespace zvolt::backing
