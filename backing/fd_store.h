// FdStore: what a file and a block device have in common: the way each request takes (inline, ring, worker), alignment,
// FUA and flush. FileStore and DeviceStore open the descriptor, fill FdSetup and do their own zeroing and discarding.
// Threading as BlockStore; the virtual *_on_worker functions run on worker threads, several at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "backing/block_store.h"
#include "backing/flush_combiner.h"
#include "backing/io_engine.h"
#include "backing/store_tally.h"
#include "backing/write_gate.h"

namespace zvolt::backing {

// How a read or write reaches the kernel; decided at open (design: io_uring is not always asynchronous).
enum class Way : uint8_t {
  ring,        // may block: never on the shard's thread
  in_place,    // memory backed (tmpfs, ramfs): one pread or pwrite costs half of what the ring's worker thread does
  try_nowait,  // reads: what the page cache holds is copied in place (RWF_NOWAIT), the rest goes through the ring
};

struct FdSetup {
  int fd = -1;
  Geometry geometry;
  uint64_t size = 0;
  Way reads = Way::ring;
  Way writes = Way::ring;
  bool sync_needed = true;  // false: there is nothing a flush could do (tmpfs, ramfs)
  std::string description;

  // For a store whose descriptor may be taken away (followed_device.cc): `end` is the last step of each pending request
  // in place of its done, on the shard; `keeper` is for it to find back by. Null: no such thing.
  IoRequest::Done end = nullptr;
  void* keeper = nullptr;
  bool owns_fd = true;                // false: whoever made the store closes it
  int flush_error = 0;                // flushes fail with it from the start: what an earlier opening lost
  std::shared_ptr<StoreTally> tally;  // null: one of its own
};

class FdStore : public BlockStore {
 public:
  ~FdStore() override;

  Submitted submit(IoRequest& request, IoEngine& engine) final;
  const Geometry& geometry() const final { return setup_.geometry; }
  uint64_t size_bytes() const final { return size_.load(std::memory_order_relaxed); }
  const std::string& describe() const final { return setup_.description; }
  StoreCounters counters() const final { return tally_->sum(); }
  Result<uint64_t> refresh_size() final;

  // For OrderedOp.
  int fd() const { return setup_.fd; }
  WriteGate& gate() { return gate_; }
  StoreTally& tally() { return *tally_; }
  // A write, zero or discard has ended (request.error is set): syncs for FUA, then completes the request.
  void complete_change(IoRequest& request, IoEngine& engine);
  void end(IoRequest& request) const;                // completes a pending request
  static void change_on_worker(IoRequest& request);  // write_zeroes, discard: one piece; request.owner is the store
  static void plan_change(IoRequest& request);       // before the first of them

  // For the keeper.
  void* keeper() const { return setup_.keeper; }
  FlushCombiner& flushes() { return flushes_; }
  bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
  void set_read_only(bool read_only);  // any thread; geometry() keeps what it said at open

  uint64_t syncs() const { return flushes_.syncs(); }  // fdatasync calls so far (tests)

 protected:
  explicit FdStore(FdSetup setup);

  // All return 0 or errno. Ranges of zero_aligned are multiples of io_alignment, of discard whole granules.
  virtual int zero_aligned(uint64_t offset, uint64_t length) = 0;
  virtual int discard_granules(uint64_t offset, uint64_t length) = 0;
  virtual int extent_at(uint64_t offset, uint64_t length, bool& mapped, uint64_t& extent) = 0;
  virtual Result<uint64_t> read_size() = 0;
  int write_zeros(uint64_t offset, uint64_t length);  // aligned; where nothing better works

 private:
  Submitted read(IoRequest& request, IoEngine& engine);
  Submitted write(IoRequest& request, IoEngine& engine);
  Submitted flush(IoRequest& request, IoEngine& engine);
  Submitted change(IoRequest& request, IoEngine& engine);
  Submitted fua_or_done(IoRequest& request, IoEngine& engine);
  bool refused(IoRequest& request) const;
  bool read_in_cache(IoRequest& request);
  bool range_aligned(const IoRequest& request) const;
  bool memory_aligned(const IoRequest& request) const;
  int zero_any(uint64_t offset, uint64_t length);
  int zero_where_data(uint64_t offset, uint64_t length);
  int change_piece(IoRequest& request);
  int zero_part_of_block(uint64_t block, uint64_t from, uint64_t to);
  static void on_write(IoRequest& request) noexcept;
  static void on_change(IoRequest& request) noexcept;
  static void status_on_worker(IoRequest& request);

  FdSetup setup_;
  std::atomic<uint64_t> size_;
  std::atomic<bool> nowait_works_{true};
  std::atomic<bool> read_only_;      // refuses changes now
  std::atomic<bool> ever_writable_;  // a flush may have something to do
  const std::shared_ptr<StoreTally> tally_;
  WriteGate gate_;
  FlushCombiner flushes_;
};

}  // namespace zvolt::backing
