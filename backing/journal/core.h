// Core: what the journal's parts share: the log, the order of records, the ring, who waits. Internal to
// backing/journal.
//
// Locks. *LUN lock* (Lun::mutex): the dirty map and the order of one LUN. *Journal lock* (Core::mutex): sequences, the
// commit queue, the ring, all waiters. LUN locks come before the journal lock; two LUN locks are taken only by hold(),
// in the order of Core::luns. Both are held for a few instructions (a copy of a record forward: a memcpy), never across
// a call of a store or an engine.
//
// Who runs what: append, admit, wait_durable, commits on any shard (and on threads of blocking functions, with engines
// of their own); passes, the tail and the leaving of LUNs on the write-back thread (write_back.h).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/aligned_buffer.h"
#include "backing/journal/dirty_map.h"
#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"
#include "backing/journal/owed.h"
#include "backing/journal/ring.h"

namespace zvolt::backing::journal {

class WriteBack;
class Pass;
using Mode = JournaledStore::Mode;

// One LUN: attached, or only known from the ring (then `store` is null).
struct Lun {
  explicit Lun(const Uuid& id) : uuid(id), name(uuid_text(id)) {}

  const Uuid uuid;

  std::mutex mutex;  // the LUN lock; guards:
  std::string name;
  DirtyMap map;
  Owed owed;                      // to the drain that runs, if one does
  uint64_t direct_in_flight = 0;  // changes on their way to the store in mode direct
  std::shared_ptr<BlockStore> store;
  std::function<Result<void>()> admit_replay;
  std::function<Result<void>()> made_durable;
  bool admitted = true;           // false: admit_replay has to be asked before anything is served
  uint64_t replayed_through = 0;  // live records up to this sequence are of an earlier life
  std::string store_problem;
  bool detach_untold = false;  // has left, and the keeper could not be told; guarded by Core::admin_mutex
  bool recorded = false;       // this life told the keeper of it, or tried to; guarded by Core::admin_mutex

  // Written under both locks, so stable under either.
  std::atomic<Mode> mode{Mode::journaled};
  std::atomic<bool> held{false};  // new changes wait
  std::atomic<bool> leaving_for_failure{false};

  // 0: a read goes straight to the store. Extents of the map, and kSlow when each request must be looked at. Published
  // under the LUN lock; with release, for who sees 0 must see in the store (memory, too) what write-back put there.
  static constexpr uint64_t kSlow = uint64_t{1} << 63;
  std::atomic<uint64_t> gate{0};
  void publish() {
    const bool slow = !admitted || mode.load(std::memory_order_relaxed) == Mode::refused;
    gate.store(map.extents() | (slow ? kSlow : 0), std::memory_order_release);
    live_ring.store(map.ring_bytes(), std::memory_order_relaxed);
    dirty_bytes.store(map.bytes(), std::memory_order_relaxed);
  }
  std::atomic<uint64_t> last_sequence{0};  // of its records; written under the LUN lock
  std::atomic<uint64_t> live_ring{0};      // bytes of the ring that its live records take
  std::atomic<uint64_t> dirty_bytes{0};
  std::atomic<bool> away{false};  // the store cannot be written to for now
  std::atomic<int> store_error{0};
  std::atomic<uint32_t> drains{0};  // callers that wait for everything to be written back

  // Guarded by the journal lock.
  uint64_t settled = 0;   // records up to here are done with: in the flushed store, or given up with ...
  int settled_error = 0;  // ... this errno
  size_t waiting = 0;     // its requests in Core::room_waiters
};

// The commit group on its way. Owned by the leader while Core::committing.
struct Commit {
  IoEngine* engine = nullptr;    // written under the journal lock
  std::vector<Record*> records;  // each with the queue's reference
  AlignedBuffer header;
  uint64_t header_capacity = 0;
  GroupSpan span;
  uint64_t promised = 0;
  std::vector<iovec> iov[2];  // two writes where the group runs over the end of the ring
  IoRequest write[2];
  IoRequest flush;
  unsigned parts = 0;
  unsigned pending = 0;
  int error = 0;
  uint64_t started_ns = 0;
  std::vector<IoRequest*> acknowledged;
  std::vector<Descriptor> descriptors;
};

struct Counters {
  using Count = std::atomic<uint64_t>;
  Count waited{0}, refused_busy{0}, commits{0}, records{0}, bytes_committed{0}, forwarded{0}, superblocks{0};
  Count bytes_in{0}, bytes_written_back{0}, write_backs{0}, partial_in{0}, partial_written_back{0};
  Count discards_dropped{0}, store_errors{0};
  std::array<Count, Statistics::kLatencyBuckets> commit_latency{};
};
inline void count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

struct Core {
  Core(std::shared_ptr<BlockStore> log_store, JournalOptions journal_options);
  ~Core();

  // --- constant after open ---
  std::shared_ptr<BlockStore> log;
  JournalOptions options;
  Uuid uuid{};
  uint64_t epoch = 0;
  uint32_t sector = 0;
  uint64_t ring_bytes = 0;
  uint64_t most_record = 0;      // bytes of payload
  uint64_t forward_reserve = 0;  // bytes of the ring that only copies forward may take
  uint64_t most_group = 0;  // bytes of the ring promised to the records of one group (one record alone may be more)
  ReplayReport report;

  PayloadPool pool;  // before everything that holds records

  // --- LUNs ---
  mutable std::mutex luns_mutex;  // guards the list; taken alone, or before any other lock
  std::vector<std::shared_ptr<Lun>> luns;
  std::vector<std::shared_ptr<Lun>> all_luns() const;
  std::shared_ptr<Lun> find_lun(const Uuid& id) const;

  // --- the journal lock ---
  mutable std::mutex mutex;  // guards down to the next dashes
  Ring ring;
  uint64_t last_sequence = 0;
  Record* queue_first = nullptr;  // to be committed, consecutive sequences
  Record* queue_last = nullptr;
  bool committing = false;
  std::string failure;

  struct DurabilityWaiter {
    uint64_t sequence;
    Lun* lun;
    IoRequest* request;
  };
  std::vector<DurabilityWaiter> durability_waiters;
  struct RoomWaiter {
    IoRequest* request;
    Lun* lun;
    uint64_t ring;
    uint64_t memory;
  };
  std::deque<RoomWaiter> room_waiters;  // in order of arrival
  bool room_blocked = false;            // the first of them waits for room of all: nobody overtakes it
  bool room_hopeless = false;  // all that is live is of LUNs whose stores take nothing: who needs room is told BUSY
  uint64_t room_granted = 0;   // how often there was room, for one who waited or at once
  // ---
  Commit commit;
  std::atomic<uint64_t> watermark{0};  // every record up to here is durable in the ring; written under the journal lock
  std::atomic<bool> failed{false};     // the log is not used any more; set under the journal lock
  Counters counters;

  std::unique_ptr<WriteBack> write_back;
  std::mutex progress_mutex;  // for progress alone
  std::condition_variable progress;
  std::mutex admin_mutex;  // the blocking functions exclude each other

  uint64_t now() const { return options.clock_ns(); }
  void tell(const std::string& text) const {
    if (options.report) options.report(text);
  }

  // --- append.cc, any thread ---
  uint64_t ring_need(RecordKind kind, uint64_t length) const;
  uint64_t memory_need(RecordKind kind, uint64_t length) const;
  // A record whose room was promised. `fill` copies the payload in. Null: the system has no memory.
  template <typename Fill>
  RecordRef make_record(const Lun& lun, RecordKind kind, uint64_t offset, uint64_t length, Fill&& fill) {
    RecordRef record = new_record(lun, kind, offset, length);
    if (record && record->data != nullptr) {
      fill(record->data);
      finish_payload(*record);
    }
    return record;
  }
  RecordRef new_record(const Lun& lun, RecordKind kind, uint64_t offset, uint64_t length);
  void finish_payload(Record& record) const;  // pads it and takes its CRC
  // Sequence, queue and dirty map in one step. False: the LUN's mode does not allow it now; nothing happened.
  bool append(Lun& lun, Record& record);
  void append_locked(Lun& lun, Record& record);  // with the LUN lock, whatever the mode
  void forget_room(uint64_t ring_need, uint64_t memory_need);

  // --- admission.cc, any thread ---
  enum class Admission : uint8_t { yes, waits, busy, again };
  // Room for a change. waits: `request` is parked, and its step runs with scratch[1] = 1 (room was promised) or 0 (look
  // at the LUN's mode again). again: do that now.
  Admission admit(Lun& lun, uint64_t ring_need, uint64_t memory_need, IoRequest& request, IoEngine& engine);
  void serve_waiters();
  std::atomic<bool> several_luns{false};                      // quotas count
  bool over_quota(const Lun& lun, uint64_t ring_need) const;  // with the journal lock
  size_t waiting() const;
  enum class Pressure : uint8_t { none, soft, hard };
  Pressure pressure() const;
  Pressure pressure_of(const Lun& lun) const;

  // --- commit.cc ---
  // At the end of the engine's burst; on its thread. The engine may lead groups of all shards from then on, for as long
  // as they come: it lives as long as the journal's requests do. Who has an engine for a moment only asks write-back
  // (WriteBack::commit).
  void want_commit(IoEngine& engine);
  bool leads(const IoEngine& engine) const;  // a group is on its way there
  // `request` completes when the LUN's records up to `sequence` are durable.
  Submitted wait_durable(Lun& lun, uint64_t sequence, IoRequest& request, IoEngine& engine);
  // Who waits for the LUN's records up to there is answered.
  void answer_waiters(Lun& lun, uint64_t up_to, int error);
  void fail(int error, const std::string& what);

  // --- leaving.cc ---
  void set_mode(Lun& lun, Mode mode);
  // The LUN is done with the journal: its store is up to date and flushed, and the keeper was told. Who waits for its
  // records gets `error`.
  void conclude(Lun& lun, Mode mode, int error);
  void hold(const std::vector<Lun*>& held, bool on);  // all of them in one instant

 private:
  enum class Turn : uint8_t { waits, granted, looks_again };
  Turn turn_of(const RoomWaiter& waiter, std::vector<Lun*>& stopped);
  bool has_room(uint64_t ring_need, uint64_t memory_need) const;
  void lead(IoEngine& engine);
  bool begin_commit(IoEngine& engine);
  void take_queue(uint64_t& sector_bytes);
  void build_group();
  void split_at_ring_end();
  Submitted submit_write();
  Submitted submit_flush();
  void part_done(int error);
  bool end_commit();
  void give_up_group();
};

}  // namespace zvolt::backing::journal
