// Journal: one log device shared by the stores of many LUNs (JournaledStore, journaled_store.h). What is written to
// those is a record in the log's ring first, is read from memory while it is newer than the store, and is written back
// later, in whole volblocks where there are whole ones. Made by the daemon's composition root, zvoltctl and tests.
//
// Threading: requests come in through the JournaledStores, on shards. Every function here may block (I/O on the log, on
// stores, the state keeper) and is not called on a shard's thread, except statistics() and failure(): any thread. They
// exclude each other. Lifetime: the log store outlives the Journal, the Journal outlives its JournaledStores' requests.
//
// What it promises (README.md says where each is held):
//   1 A write that was acknowledged with FUA, or before a flush that was acknowledged, is in the durable ring or in the
//     flushed store: after a power cut at any moment, open() and attach() bring it back.
//   2 Per byte, the records of a LUN have one order: that in which reads saw them, replay applies them, and write-back
//     never undoes them.
//   3 The ring is reused only where every record is in its store, the store was flushed (and `made_durable` agreed),
//   and
//     a superblock that says so is durable.
//   4 A record of an earlier epoch, lap or journal is never taken for one of now.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "backing/io_engine.h"
#include "backing/journal/format.h"
#include "backing/result.h"

namespace zvolt::backing::journal {

class JournaledStore;
struct Core;
struct Lun;

// Where {LUN, journal, epoch, state} is kept outside the ring, so that records are never replayed over newer data, nor
// forgotten when the journal is not there. Implemented by the daemon (state directory, ZFS user property). May block;
// called on the caller's thread of attach(), detach() and close(), and on a worker of the write-back engine.
class StateKeeper {
 public:
  enum class State : uint8_t {
    attached,  // belongs to the journal, which needs not be there: everything is in the store
    dirty,     // the journal may hold acknowledged data: the store alone is not the LUN
    detached,  // the store alone is the LUN: records of epochs up to this one are stale
  };
  struct Entry {
    Uuid lun{};
    Uuid journal{};
    uint64_t epoch = 0;
    State state = State::detached;
    bool operator==(const Entry&) const = default;
  };
  virtual ~StateKeeper() = default;
  virtual Result<std::optional<Entry>> load(const Uuid& lun) = 0;  // nothing: the LUN never had a journal
  virtual Result<void> save(const Entry& entry) = 0;               // ok: durable
};

enum class FailurePolicy : uint8_t {
  write_through,  // requests go to the store; durable ones are flushed there
  read_only,      // writes fail with EROFS
};

struct JournalOptions {
  // Payloads of records that are not in their store yet, all LUNs. Also bounds how much of the ring is used, so that a
  // replay always fits into the memory of the life before.
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t lun_quota_percent = 50;  // of ring and memory: what one LUN may hold while others want some
  // A partly covered volblock is written back when its oldest byte is this old; whole ones go as soon as they are worth
  // a pass. Also how long acknowledged data stays out of the store at most, while the store takes it.
  std::chrono::milliseconds max_dirty_age{2000};
  size_t most_waiters = 4096;  // requests that wait for room, all LUNs: more are answered EAGAIN (BUSY)
  FailurePolicy on_failure = FailurePolicy::write_through;
  std::shared_ptr<StateKeeper> keeper;  // null: no state is kept (tests, tools)

  // Something an operator should read: a torn tail, a failed journal, a store that refuses. Any thread, must not call
  // the journal.
  std::function<void(const std::string&)> report;

  // --- seams for tests and simulation ---
  std::function<std::unique_ptr<IoEngine>()> make_engine;  // write-back and blocking I/O. Empty: the kernel's best
  std::function<uint64_t()> clock_ns;                      // monotonic. Empty: CLOCK_MONOTONIC
  // False: no write-back thread. Then the caller runs turn(), always on the same thread, as often as it likes;
  // functions that wait for write-back run it themselves.
  bool own_thread = true;
};

struct FormatOptions {
  Uuid uuid{};
  uint32_t sector = 0;  // 0: 4096, or 512 when the device has 512-byte physical blocks
  uint64_t bytes = 0;   // of the device to use; 0: all
};
constexpr uint64_t kLeastRing = uint64_t{64} << 10;  // bytes; a record may take an eighth of the ring

// Makes an empty journal on `log`; what was there is gone. Refused (EEXIST) when a journal with records that may be
// needed is there, unless `force`. Blocks; `engine` must be the calling thread's.
Result<void> format_journal(BlockStore& log, const FormatOptions& options, IoEngine& engine, bool force = false);

// What open() found in the ring.
struct ReplayReport {
  struct Lun {
    Uuid uuid{};
    uint64_t records = 0;
    uint64_t bytes = 0;  // that are newer than the store, as far as the ring knows
  };
  uint64_t groups = 0;
  uint64_t records = 0;
  uint64_t last_sequence = 0;
  bool torn = false;  // a bad group stood at the end: it was never acknowledged, and was dropped
  std::string torn_text;
  std::vector<Lun> luns;
};

struct AttachOptions {
  Uuid uuid{};
  std::string name;                   // for messages
  std::shared_ptr<BlockStore> store;  // may be away (ENOMEDIUM) for now
  // Is called once, before the first replayed record is written to the store (not without replayed records), on a
  // worker: says whether the store is the one that the records belong to (rollback, receive -F). ENOMEDIUM, EAGAIN: ask
  // again later. Another error: the LUN answers every request with EIO until it is detached; its records stay.
  std::function<Result<void>()> admit_replay;
  // Called after each flush of the store, on a worker, before the tail may pass what was flushed: waits until the store
  // really is durable (zpool sync where sync=disabled). An error counts as a failed flush. Empty: a flush is a flush.
  std::function<Result<void>()> made_durable;
};

struct Statistics {
  static constexpr size_t kLatencyBuckets = 24;  // bucket i: commits that took below 2^i us; the last: all others

  uint64_t ring_bytes = 0;   // that may be used
  uint64_t ring_used = 0;    // between tail and head, and promised to records in memory
  uint64_t memory_used = 0;  // bytes of payloads
  uint64_t dirty_bytes = 0;  // all LUNs: newer than the store
  uint64_t waiting = 0;      // requests that wait for room
  uint64_t waited = 0;       // that ever did
  uint64_t refused_busy = 0;

  uint64_t commits = 0;
  uint64_t records = 0;          // committed
  uint64_t bytes_committed = 0;  // to the ring, headers and padding included
  std::array<uint64_t, kLatencyBuckets> commit_latency{};
  uint64_t forwarded = 0;  // records copied forward
  uint64_t superblocks = 0;

  uint64_t bytes_in = 0;            // written by hosts
  uint64_t bytes_written_back = 0;  // less: what was overwritten in memory never reached a store
  uint64_t write_backs = 0;         // writes to stores
  // Volblocks written in part, which cost the store a read-modify-write: what the hosts' writes would have cost one by
  // one, and what write-back cost.
  uint64_t partial_in = 0;
  uint64_t partial_written_back = 0;
  uint64_t discards_dropped = 0;  // of stores whose discard promises no zeros
  uint64_t store_errors = 0;
};

class Journal {
 public:
  // Reads the ring, raises the epoch (both superblocks, durable), starts write-back. Errors: not a journal; damage
  // below a later watermark (EBADMSG: what is lost is said); I/O. Replay itself happens behind the scenes: what is in
  // the ring is at once what reads see.
  static Result<std::unique_ptr<Journal>> open(std::shared_ptr<BlockStore> log, JournalOptions options);

  // As a power cut would: nothing is written, what is in memory only is gone. No request may be running in the log or a
  // store (in simulations: will never complete); those waiting for a commit or for room are forgotten.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const Uuid& uuid() const;
  uint64_t epoch() const;
  const ReplayReport& replayed() const;

  // Puts a JournaledStore in front of a store. Records that the ring holds for it are its newest data from this moment
  // on. Errors: the keeper's state says that the data is in another journal, that this journal is older than it was, or
  // that it cannot be kept (EROFS: the LUN must not be written); already attached. Flushes the store once.
  Result<std::shared_ptr<JournaledStore>> attach(AttachOptions options);

  // Holds new writes, writes everything back, flushes, and tells the keeper `detached`. From then on the JournaledStore
  // only hands requests on to its store. ETIMEDOUT: nothing changed, writes go on. An error of the keeper: the LUN has
  // left all the same (nothing is lost either way); another detach() tells the keeper again.
  Result<void> detach(JournaledStore& store, std::chrono::milliseconds limit);

  // Voids the records of a LUN that is not attached: they are lost. Durable when it returns.
  Result<void> discard(const Uuid& lun);

  // Writes everything of these LUNs to their stores and flushes: each byte that was dirty at the call, as it was then
  // or newer. Does not hold new writes: those may be left.
  Result<void> drain(std::span<JournaledStore* const> stores, std::chrono::milliseconds limit);

  // Holds new writes of all these LUNs from one instant on, writes everything back, flushes the stores, runs `run`,
  // lets the writes go. ETIMEDOUT: `run` was not called. Reads and flushes are served all the while.
  Result<void> quiesce(std::span<JournaledStore* const> stores, std::chrono::milliseconds limit,
                       const std::function<Result<void>()>& run);

  // Detached LUNs apart: drains all, tells the keeper `attached`, marks the journal clean. No requests may come. The
  // error names what could not be written back (it stays in the ring). The Journal can only be destroyed afterwards.
  Result<void> close(std::chrono::milliseconds limit);

  Statistics statistics() const;
  std::string failure() const;  // why the log device is not used any more; empty: it is

  // Without a thread of its own: goes on with write-back as far as it can without waiting. True while something is on
  // its way or due.
  bool turn();

 private:
  explicit Journal(std::unique_ptr<Core> core);
  Result<std::shared_ptr<JournaledStore>> attach_lun(const std::shared_ptr<Lun>& lun, AttachOptions options);
  Result<void> leave_for_good(Lun& lun, std::chrono::milliseconds limit);
  Result<void> tell_detached(Lun& lun);
  Result<void> run_quiesced(const std::vector<Lun*>& luns, std::chrono::milliseconds limit,
                            const std::function<Result<void>()>& run);
  Result<void> mark_closed();

  std::unique_ptr<Core> core_;
};

}  // namespace zvolt::backing::journal
