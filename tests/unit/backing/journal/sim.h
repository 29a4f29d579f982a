// A hand-stepped world for tests of the journal: an engine that does nothing but what its tests let it, a store that
// loses what was not flushed, and verbs. One thread; everything that is random comes from the caller's generator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backing/io_engine.h"
#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"

namespace zvolt::backing::journal {

using Random = std::mt19937_64;

inline uint64_t below(Random& random, uint64_t limit) {
  return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random);
}

class SimEngine final : public IoEngine {
 public:
  explicit SimEngine(Random* random = nullptr) : random_(random) {}

  void queue(IoRequest&, int) override { ADD_FAILURE() << "no descriptors here"; }
  void queue_sync(IoRequest&, int) override { ADD_FAILURE() << "no descriptors here"; }
  void offload(IoRequest& request, void (*work)(IoRequest&)) override {
    request.work = work;
    park(request);
    ready_.push_back(&request);
  }
  void park(IoRequest& request) override {
    request.engine = this;
    ++in_flight_;
  }
  void finish_from_any_thread(IoRequest& request) override { ready_.push_back(&request); }
  void flush() override { run_before_flush(); }
  uint64_t submissions() const override { return 0; }
  // One request at a time, any of those that are ready (in order without a generator).
  size_t reap(size_t limit) override {
    size_t ran = 0;
    for (; ran < limit && !ready_.empty(); ++ran) {
      const size_t at = random_ == nullptr ? 0 : below(*random_, ready_.size());
      IoRequest* request = ready_[at];
      ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
      --in_flight_;
      if (request->work != nullptr) std::exchange(request->work, nullptr)(*request);
      (request->step != nullptr ? request->step : request->done)(*request);
      if (random_ != nullptr) return ran + 1;
    }
    return ran;
  }
  void post(void (*fn)(void*), void* arg) override { fn(arg); }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return in_flight_; }
  const std::string& description() const override { return description_; }

 private:
  Random* random_;
  std::deque<IoRequest*> ready_;
  size_t in_flight_ = 0;
  std::string description_ = "simulated";
};

// Requests take effect when the engine runs them. A power cut keeps of every write that was not flushed, and of those
// on their way, any sectors, in any order.
class SimStore final : public BlockStore {
 public:
  explicit SimStore(uint64_t size, uint32_t physical = 4096) : durable_(size), now_(size) {
    geometry_.physical_block = physical;
    geometry_.discard_granularity = physical;
    geometry_.discard_zeroes = true;
  }

  Submitted submit(IoRequest& request, IoEngine& engine) override {
    request.error = 0;
    request.error_offset = request.offset;
    if (request.kind != IoKind::flush && request.offset + request.length > now_.size()) {
      request.error = EINVAL;
      return Submitted::done;
    }
    ++submitted;
    request.owner = this;
    request.step = &SimStore::perform;
    if (!stalled) on_way_.push_back(&request);
    engine.park(request);
    if (stalled) {
      held_.push_back(&request);
    } else {
      engine.finish_from_any_thread(request);
    }
    return Submitted::pending;
  }
  const Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return now_.size(); }
  uint64_t generation() const override { return generation_; }
  const std::string& describe() const override { return description_; }

  // Before a request takes effect: an errno for it, 0 for none.
  std::function<int(const IoRequest&)> fault;
  std::function<void(const IoRequest&)> seen;  // of each that has taken effect
  bool stalled = false;                        // new requests wait for release()
  uint64_t submitted = 0;
  uint64_t flushes = 0;

  void release() {
    stalled = false;
    for (IoRequest* request : std::exchange(held_, {})) {
      on_way_.push_back(request);
      request->engine->finish_from_any_thread(*request);
    }
  }

  // The power goes and comes back. Nothing on its way will complete.
  void cut(Random& random) {
    abandon_reads();
    for (const IoRequest* request : on_way_) note(*request);
    std::shuffle(volatile_.begin(), volatile_.end(), random);
    for (const Write& write : volatile_) {
      for (uint64_t at = 0; at < write.bytes.size(); at += 512) {
        if (below(random, 2) == 0) continue;
        memcpy(durable_.data() + write.offset + at, write.bytes.data() + at,
               std::min<uint64_t>(512, write.bytes.size() - at));
      }
    }
    volatile_.clear();
    on_way_.clear();
    held_.clear();
    now_ = durable_;
    stalled = false;
  }
  // The device goes and comes back, as another one that has only what was flushed.
  void reopen() {
    ++generation_;
    volatile_.clear();
    now_ = durable_;
  }
  // All that was written is kept, as after kill -9.
  void kill() {
    abandon_reads();
    volatile_.clear();
    on_way_.clear();
    held_.clear();
    durable_ = now_;
  }

  std::vector<uint8_t>& bytes() { return now_; }
  std::vector<uint8_t>& durable() { return durable_; }
  Geometry& mutable_geometry() { return geometry_; }
  void resize(uint64_t size) {
    now_.resize(size);
    durable_.resize(size);
  }

 private:
  struct Write {
    uint64_t offset;
    std::vector<uint8_t> bytes;
  };

  // So that what was allocated for them goes.
  void abandon_reads() {
    for (auto* list : {&on_way_, &held_}) {
      const auto reads = std::partition(list->begin(), list->end(), [](const IoRequest* r) {
        return r->kind != IoKind::read && r->kind != IoKind::allocation_status;
      });
      const std::vector<IoRequest*> gone(reads, list->end());
      list->erase(reads, list->end());
      for (IoRequest* request : gone) {
        request->error = EIO;
        request->done(*request);
      }
    }
  }

  static void perform(IoRequest& request) noexcept {
    auto& store = *static_cast<SimStore*>(request.owner);
    std::erase(store.on_way_, &request);
    request.step = nullptr;
    request.error = store.fault ? store.fault(request) : 0;
    if (request.error == 0) store.apply(request);
    if (request.error == 0 && store.seen) store.seen(request);
    request.done(request);
  }

  void apply(IoRequest& request) {
    if (request.kind == IoKind::flush) {
      ++flushes;
      // Everything that took effect; what is on its way may be lost still.
      durable_ = now_;
      volatile_.clear();
      return;
    }
    if (request.kind == IoKind::read) {
      uint64_t at = request.offset;
      for (uint32_t i = 0; i < request.iov_count; ++i) {
        memcpy(request.iov[i].iov_base, now_.data() + at, request.iov[i].iov_len);
        at += request.iov[i].iov_len;
      }
      return;
    }
    if (request.kind == IoKind::allocation_status) {
      request.mapped = true;
      request.extent_length = request.length;
      return;
    }
    note(request);
    if (volatile_.empty()) return;
    const Write& write = volatile_.back();
    memcpy(now_.data() + write.offset, write.bytes.data(), write.bytes.size());
    if (!request.fua) return;
    durable_ = now_;  // more than FUA asks for: as a flush, which is how stores do it
    volatile_.clear();
  }

  void note(const IoRequest& request) {
    if (request.kind == IoKind::read || request.kind == IoKind::flush || request.kind == IoKind::allocation_status)
      return;
    Write write{request.offset, std::vector<uint8_t>(request.length)};
    if (request.kind == IoKind::discard) {
      const uint64_t unit = geometry_.discard_granularity;
      const uint64_t begin = (request.offset + unit - 1) / unit * unit;
      const uint64_t end = (request.offset + request.length) / unit * unit;
      write = {begin, std::vector<uint8_t>(end > begin ? end - begin : 0)};
    }
    uint64_t at = 0;
    for (uint32_t i = 0; request.kind == IoKind::write && i < request.iov_count; ++i) {
      memcpy(write.bytes.data() + at, request.iov[i].iov_base, request.iov[i].iov_len);
      at += request.iov[i].iov_len;
    }
    volatile_.push_back(std::move(write));
  }

  std::vector<uint8_t> durable_;
  std::vector<uint8_t> now_;
  std::vector<Write> volatile_;
  std::vector<IoRequest*> on_way_;
  std::vector<IoRequest*> held_;
  Geometry geometry_;
  uint64_t generation_ = 1;
  std::string description_ = "simulated store";
};

class MemoryKeeper final : public StateKeeper {
 public:
  Result<std::optional<Entry>> load(const Uuid& lun) override {
    for (const Entry& entry : entries) {
      if (entry.lun == lun) return std::optional<Entry>(entry);
    }
    return std::optional<Entry>();
  }
  Result<void> save(const Entry& entry) override {
    if (broken) return Error{EIO, "no state can be kept"};
    std::erase_if(entries, [&](const Entry& each) { return each.lun == entry.lun; });
    entries.push_back(entry);
    history.push_back(entry);
    if (on_save) on_save(entry);
    if (keeps_but_fails) return Error{EIO, "the state may have been kept"};
    return {};
  }
  std::vector<Entry> entries;
  std::vector<Entry> history;
  std::function<void(const Entry&)> on_save;
  bool broken = false;
  bool keeps_but_fails = false;  // save() says an error, and it was kept all the same
};

// A request with its memory.
struct Op {
  IoRequest request;
  std::vector<uint8_t> memory;
  iovec iov{};
  bool completed = false;

  Op(IoKind kind, uint64_t offset, uint64_t length, uint8_t fill = 0) {
    request.kind = kind;
    request.offset = offset;
    request.length = length;
    request.context = this;
    request.done = [](IoRequest& r) noexcept { static_cast<Op*>(r.context)->completed = true; };
    if (kind != IoKind::read && kind != IoKind::write) return;
    memory.assign(length, fill);
    iov = {memory.data(), memory.size()};
    request.iov = &iov;
    request.iov_count = 1;
  }
  bool holds(uint8_t value) const {
    return std::all_of(memory.begin(), memory.end(), [&](uint8_t byte) { return byte == value; });
  }
};

constexpr Uuid kJournalUuid{0xaa, 1};
inline Uuid lun_uuid(uint8_t number) {
  return Uuid{0xbb, number};
}

// A log, stores, a journal over them, and one shard.
class World {
 public:
  explicit World(uint64_t ring = uint64_t{256} << 10, uint32_t sector = 512, Random* generator = nullptr)
      : random(generator),
        log(std::make_shared<SimStore>(kRingStart + ring)),
        shard(std::make_unique<SimEngine>(generator)) {
    SimEngine engine;
    const auto made = format_journal(*log, {kJournalUuid, sector, 0}, engine, true);
    EXPECT_TRUE(made.ok());
    options.make_engine = [generator] { return std::make_unique<SimEngine>(generator); };
    options.clock_ns = [this] { return now_ns; };
    options.own_thread = false;
    options.report = [this](const std::string& text) { reports.push_back(text); };
    options.memory_bytes = uint64_t{64} << 20;
  }

  void add_store(uint64_t size = uint64_t{1} << 20, uint32_t physical = 4096) {
    stores.push_back(std::make_shared<SimStore>(size, physical));
    luns.push_back(nullptr);
  }
  // The error's text; empty: open, and every store attached.
  std::string open() {
    auto opened = Journal::open(log, options);
    if (!opened) return opened.error().message;
    journal = std::move(*opened);
    for (size_t i = 0; i < stores.size(); ++i) {
      const std::string fault = attach(i);
      if (!fault.empty()) return fault;
    }
    return {};
  }
  std::string attach(size_t i) {
    AttachOptions attach_options;
    attach_options.uuid = lun_uuid(static_cast<uint8_t>(i));
    attach_options.name = "lun" + std::to_string(i);
    attach_options.store = stores[i];
    auto attached = journal->attach(std::move(attach_options));
    if (!attached) return attached.error().message;
    luns[i] = *attached;
    return {};
  }
  void drop() {
    for (auto& lun : luns) lun.reset();
    journal.reset();
    shard = std::make_unique<SimEngine>(random);
  }
  void cut_power(Random& generator) {
    log->cut(generator);
    for (auto& store : stores) store->cut(generator);
    drop();
  }
  void kill() {
    log->kill();
    for (auto& store : stores) store->kill();
    drop();
  }

  // --- running ---
  void shard_turn() {
    shard->flush();
    shard->reap(64);
    shard->flush();
  }
  void run(int turns = 20) {
    for (int i = 0; i < turns; ++i) {
      now_ns += 100'000;  // time goes on: retries and ages are due some day
      shard_turn();
      journal->turn();
    }
  }
  // False: not completed after many turns.
  bool finish(const Op& op) {
    for (int i = 0; i < 20000 && !op.completed; ++i) run(1);
    return op.completed;
  }
  void submit(size_t lun, Op& op) {
    if (luns[lun]->submit(op.request, *shard) == Submitted::done) op.completed = true;
  }
  int run_op(size_t lun, Op& op) {
    op.completed = false;
    submit(lun, op);
    EXPECT_TRUE(finish(op)) << "no completion";
    return op.request.error;
  }
  int write(size_t lun, uint64_t offset, uint64_t length, uint8_t value, bool fua = true) {
    Op op(IoKind::write, offset, length, value);
    op.request.fua = fua;
    return run_op(lun, op);
  }
  int plain(size_t lun, IoKind kind, uint64_t offset = 0, uint64_t length = 0, bool fua = false) {
    Op op(kind, offset, length);
    op.request.fua = fua;
    return run_op(lun, op);
  }
  bool reads(size_t lun, uint64_t offset, uint64_t length, uint8_t value) {
    Op op(IoKind::read, offset, length);
    EXPECT_EQ(run_op(lun, op), 0);
    return op.holds(value);
  }
  // Everything is in the stores.
  bool drain() {
    std::vector<JournaledStore*> all;
    for (auto& lun : luns) all.push_back(lun.get());
    return journal->drain(all, std::chrono::seconds(5)).ok();
  }
  bool store_holds(size_t lun, uint64_t offset, uint64_t length, uint8_t value) const {
    const auto& bytes = stores[lun]->bytes();
    const auto first = bytes.begin() + static_cast<ptrdiff_t>(offset);
    return std::all_of(first, first + static_cast<ptrdiff_t>(length), [&](uint8_t byte) { return byte == value; });
  }

  Random* random;
  std::shared_ptr<SimStore> log;
  std::vector<std::shared_ptr<SimStore>> stores;
  JournalOptions options;
  uint64_t now_ns = uint64_t{100} * 1'000'000'000;
  std::vector<std::string> reports;
  std::unique_ptr<SimEngine> shard;
  std::unique_ptr<Journal> journal;
  std::vector<std::shared_ptr<JournaledStore>> luns;
};

}  // namespace zvolt::backing::journal
