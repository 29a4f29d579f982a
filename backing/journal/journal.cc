// See journal.h: attach, detach, drains, holds, close, statistics.
#include "backing/journal/journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/blocking.h"
#include "backing/journal/core.h"
#include "backing/journal/superblock.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

using State = StateKeeper::State;

Error problem(int code, const std::string& name, const std::string& what) {
  return Error{code, "volume " + name + ": " + what};
}

// What the state outside the ring says about records in it.
enum class Verdict : uint8_t { replay, stale };

Result<Verdict> judge(const Core& core, const std::optional<StateKeeper::Entry>& state, bool has_records, bool recorded,
                      const std::string& name) {
  if (!state) {
    if (!has_records) return Verdict::replay;
    return problem(EUCLEAN, name,
                   "the journal " + uuid_text(core.uuid) +
                       " holds records for it, but its own state does not know of a journal: replay or discard them");
  }
  if (state->state == State::detached) return Verdict::stale;
  if (state->journal != core.uuid) {
    if (state->state == State::attached) return Verdict::stale;
    return problem(EBUSY, name, "its newest data is in another journal, " + uuid_text(state->journal));
  }
  // The same epoch is this very life when it has written it, else another one: that of a copy.
  if (state->epoch > core.epoch || (state->epoch == core.epoch && !recorded)) {
    return problem(EUCLEAN, name,
                   "the journal " + uuid_text(core.uuid) + " is older than it was when the volume last used it");
  }
  return Verdict::replay;
}

// Everything is in the flushed store. For a LUN that is held, or must be.
bool written_back(Lun& lun) {
  const std::lock_guard lock(lun.mutex);
  return lun.map.oldest() == nullptr && (!lun.held.load(std::memory_order_relaxed) || lun.direct_in_flight == 0) &&
         lun.mode.load(std::memory_order_relaxed) != Mode::leaving;
}

// As long as it lives, everything of the LUNs is written back as soon as it can be.
class Draining {
 public:
  explicit Draining(std::vector<Lun*> luns) : luns_(std::move(luns)) {
    for (Lun* lun : luns_) lun->drains.fetch_add(1, std::memory_order_relaxed);
  }
  ~Draining() {
    for (Lun* lun : luns_) lun->drains.fetch_sub(1, std::memory_order_relaxed);
  }
  Draining(const Draining&) = delete;
  Draining& operator=(const Draining&) = delete;

 private:
  std::vector<Lun*> luns_;
};

// What LUNs owe the flushed stores at this moment. Not the highest sequence: a copy forward, or a newer write, gives
// bytes that are owed a sequence above it while the store has neither.
class Debt {
 public:
  explicit Debt(const std::vector<Lun*>& luns) : luns_(luns) {
    for (Lun* lun : luns_) {
      const std::lock_guard lock(lun->mutex);
      lun->owed.clear();
      lun->map.visit(0, UINT64_MAX, [&](uint64_t begin, uint64_t end, const Record& record) {
        lun->owed.add(begin, end, record.sequence);
        return true;
      });
    }
  }
  ~Debt() {
    for (Lun* lun : luns_) {
      const std::lock_guard lock(lun->mutex);
      lun->owed.clear();
    }
  }
  Debt(const Debt&) = delete;
  Debt& operator=(const Debt&) = delete;

  bool settled() const {
    return std::all_of(luns_.begin(), luns_.end(), [](Lun* lun) {
      const std::lock_guard lock(lun->mutex);
      return lun->owed.empty() && lun->mode.load(std::memory_order_relaxed) != JournaledStore::Mode::leaving;
    });
  }

 private:
  const std::vector<Lun*>& luns_;
};

std::vector<Lun*> luns_of(std::span<JournaledStore* const> stores) {
  std::vector<Lun*> luns;
  for (const JournaledStore* store : stores) luns.push_back(&store->lun());
  return luns;
}

std::string problem_of(Lun& lun) {
  const std::lock_guard lock(lun.mutex);
  return lun.name + (lun.store_problem.empty() ? "" : " (" + lun.store_problem + ")");
}

Error timed_out(const std::vector<Lun*>& luns) {
  std::string names;
  for (Lun* lun : luns) {
    if (!written_back(*lun)) names += (names.empty() ? "" : ", ") + problem_of(*lun);
  }
  return Error{ETIMEDOUT, "not everything could be written back in time: " + names};
}

// An engine of the caller's thread, which runs the turns of write-back where there is no thread for them.
Blocking blocking_for(Core& core) {
  Blocking io(core.options.make_engine);
  if (!core.options.own_thread) {
    io.on_idle([&core] { core.write_back->turn(); });
  }
  return io;
}

// Durable when it returns 0: every earlier record of the LUN is void.
int void_records(Core& core, Lun& lun) {
  const uint64_t need = core.ring_need(RecordKind::superseded, 0);
  {
    const std::lock_guard lock(core.mutex);
    if (!core.ring.fits(need, 0)) return ENOSPC;
    core.ring.promise(need);
  }
  Blocking io = blocking_for(core);
  IoRequest request;
  return io.wait_for(request, [&](IoRequest& r) {
    const RecordRef record = core.new_record(lun, RecordKind::superseded, 0, 0);
    {
      const std::lock_guard lock(lun.mutex);
      lun.map.clear();
      core.append_locked(lun, *record);
    }
    core.write_back->commit();
    if (core.failed.load(std::memory_order_acquire)) r.error = EIO;
    if (r.error != 0) return Submitted::done;
    return core.wait_durable(lun, record->sequence, r, io.engine());
  });
}

int commit_all(Core& core) {
  Blocking io = blocking_for(core);
  for (const auto& lun : core.all_luns()) {
    IoRequest request;
    const int error = io.wait_for(request, [&](IoRequest& r) {
      core.write_back->commit();
      return core.wait_durable(*lun, lun->last_sequence.load(std::memory_order_acquire), r, io.engine());
    });
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

Journal::Journal(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Journal::~Journal() = default;

const Uuid& Journal::uuid() const {
  return core_->uuid;
}
uint64_t Journal::epoch() const {
  return core_->epoch;
}
const ReplayReport& Journal::replayed() const {
  return core_->report;
}
bool Journal::turn() {
  return core_->write_back->turn();
}
std::string Journal::failure() const {
  const std::lock_guard lock(core_->mutex);
  return core_->failure;
}

Result<std::shared_ptr<JournaledStore>> Journal::attach(AttachOptions options) {
  const std::lock_guard admin(core_->admin_mutex);
  Core& core = *core_;
  if (options.store == nullptr) return problem(EINVAL, options.name, "a journalled volume needs a store");
  if (core.failed.load(std::memory_order_acquire)) return problem(EIO, options.name, "its journal has failed");
  std::shared_ptr<Lun> lun = core.find_lun(options.uuid);
  if (lun != nullptr) {
    const std::lock_guard lock(lun->mutex);
    if (lun->store != nullptr && lun->mode.load(std::memory_order_relaxed) != Mode::direct) {
      return problem(EEXIST, options.name, "its UUID is in use by " + lun->name);
    }
  }
  Verdict verdict = Verdict::replay;
  if (core.options.keeper != nullptr) {
    const auto state = core.options.keeper->load(options.uuid);
    if (!state) return state.error();
    const bool has_records = lun != nullptr && lun->gate.load(std::memory_order_relaxed) != 0;
    const auto judged = judge(core, *state, has_records, lun != nullptr && lun->recorded, options.name);
    if (!judged) return judged.error();
    verdict = *judged;
  }
  if (lun == nullptr) {
    lun = std::make_shared<Lun>(options.uuid);
    const std::lock_guard lock(core.luns_mutex);
    core.luns.push_back(lun);
  } else if (verdict == Verdict::stale) {
    const int error = void_records(core, *lun);
    if (error != 0) return problem(error, options.name, "stale records could not be voided in its journal");
  }
  return attach_lun(lun, std::move(options));
}

Result<std::shared_ptr<JournaledStore>> Journal::attach_lun(const std::shared_ptr<Lun>& lun, AttachOptions options) {
  Core& core = *core_;
  // Before the first journalled write can be acknowledged.
  if (core.options.keeper != nullptr) {
    lun->recorded = true;  // an error does not say that nothing was kept
    lun->detach_untold = false;
    const auto saved = core.options.keeper->save({options.uuid, core.uuid, core.epoch, State::dirty});
    if (!saved) return problem(EROFS, options.name, "its journal cannot be recorded: " + saved.error().message);
  }
  // What was written past the journal, and acknowledged, before now.
  const int error = Blocking(core.options.make_engine).flush(*options.store);
  if (error != 0 && error != ENOMEDIUM) return problem(error, options.name, std::string("flush: ") + strerror(error));
  auto store = std::make_shared<JournaledStore>(core, lun, options.store);
  {
    const std::lock_guard luns_lock(core.luns_mutex);
    core.several_luns.store(core.luns.size() > 1, std::memory_order_relaxed);
  }
  const std::lock_guard lun_lock(lun->mutex);
  const std::lock_guard lock(core.mutex);
  if (!options.name.empty()) lun->name = options.name;
  lun->admitted = !options.admit_replay || lun->map.oldest() == nullptr;
  lun->admit_replay = std::move(options.admit_replay);
  lun->made_durable = std::move(options.made_durable);
  lun->store = std::move(options.store);
  lun->away.store(false, std::memory_order_relaxed);
  lun->mode.store(Mode::journaled, std::memory_order_release);
  lun->publish();
  return store;
}

Result<void> Journal::detach(JournaledStore& store, std::chrono::milliseconds limit) {
  const std::lock_guard admin(core_->admin_mutex);
  Core& core = *core_;
  Lun& lun = store.lun();
  if (lun.mode.load(std::memory_order_acquire) == Mode::direct) {
    return lun.detach_untold ? tell_detached(lun) : Result<void>();
  }
  core.hold({&lun}, true);
  Result<void> result = leave_for_good(lun, limit);
  core.hold({&lun}, false);
  core.serve_waiters();
  return result;
}

// The LUN is held: nothing new comes.
Result<void> Journal::leave_for_good(Lun& lun, std::chrono::milliseconds limit) {
  Core& core = *core_;
  const Draining draining({&lun});
  if (!core.write_back->wait(limit, [&] { return written_back(lun); })) return timed_out({&lun});
  if (lun.mode.load(std::memory_order_acquire) == Mode::direct) return {};  // the log has failed meanwhile
  // Records that stand in the ring are in the store, but must not be replayed over what is written there from now on.
  const int error = void_records(core, lun);
  if (error != 0) return problem(error, lun.name, "its records could not be voided in the journal");
  // From here on neither state can bring them back: as `dirty` the ring has nothing to replay, as `detached` it is not
  // asked. But which of them an error of save() leaves is not known, and `detached` would void what came later. So the
  // LUN has left, whatever save() says; it is told once more by the next detach().
  core.conclude(lun, Mode::direct, 0);
  return tell_detached(lun);
}

Result<void> Journal::tell_detached(Lun& lun) {
  if (core_->options.keeper == nullptr) return {};
  const auto saved = core_->options.keeper->save({lun.uuid, core_->uuid, core_->epoch, State::detached});
  lun.detach_untold = !saved;
  return saved;
}

Result<void> Journal::discard(const Uuid& uuid) {
  const std::lock_guard admin(core_->admin_mutex);
  const auto lun = core_->find_lun(uuid);
  if (lun == nullptr) return {};
  {
    const std::lock_guard lock(lun->mutex);
    if (lun->store != nullptr) return problem(EBUSY, lun->name, "it is in use");
  }
  const int error = void_records(*core_, *lun);
  if (error != 0) return problem(error, lun->name, std::string("its records could not be voided: ") + strerror(error));
  if (core_->options.keeper == nullptr) return {};
  lun->recorded = true;
  return core_->options.keeper->save({uuid, core_->uuid, core_->epoch, State::detached});
}

Result<void> Journal::drain(std::span<JournaledStore* const> stores, std::chrono::milliseconds limit) {
  const std::lock_guard admin(core_->admin_mutex);
  const auto luns = luns_of(stores);
  const Debt debt(luns);
  const Draining draining(luns);
  if (!core_->write_back->wait(limit, [&] { return debt.settled(); })) return timed_out(luns);
  return {};
}

Result<void> Journal::quiesce(std::span<JournaledStore* const> stores, std::chrono::milliseconds limit,
                              const std::function<Result<void>()>& run) {
  const std::lock_guard admin(core_->admin_mutex);
  const auto luns = luns_of(stores);
  core_->hold(luns, true);
  Result<void> result = run_quiesced(luns, limit, run);
  core_->hold(luns, false);
  core_->serve_waiters();
  return result;
}

Result<void> Journal::run_quiesced(const std::vector<Lun*>& luns, std::chrono::milliseconds limit,
                                   const std::function<Result<void>()>& run) {
  {
    const Draining draining(luns);
    const bool done = core_->write_back->wait(
        limit, [&] { return std::all_of(luns.begin(), luns.end(), [](Lun* lun) { return written_back(*lun); }); });
    if (!done) return timed_out(luns);
  }
  for (Lun* lun : luns) {  // write-back has flushed the others
    if (lun->mode.load(std::memory_order_acquire) != Mode::direct) continue;
    const int error = Blocking(core_->options.make_engine).flush(*lun->store);
    if (error != 0) return problem(error, lun->name, std::string("flush: ") + strerror(error));
  }
  return run();
}

Result<void> Journal::close(std::chrono::milliseconds limit) {
  const std::lock_guard admin(core_->admin_mutex);
  Core& core = *core_;
  std::vector<Lun*> luns;
  for (const auto& lun : core.all_luns()) {
    const std::lock_guard lock(lun->mutex);
    if (lun->store != nullptr) luns.push_back(lun.get());
  }
  commit_all(core);
  Result<void> result;
  {
    const Draining draining(luns);
    const bool done = core.write_back->wait(
        limit, [&] { return std::all_of(luns.begin(), luns.end(), [](Lun* lun) { return written_back(*lun); }); });
    if (!done) result = timed_out(luns);
  }
  core.write_back->stop();
  if (!core.options.own_thread) core.write_back->wait(limit, [&] { return core.write_back->idle(); });
  if (core.failed.load(std::memory_order_acquire)) return Error{EIO, failure()};
  const Result<void> marked = mark_closed();
  return result ? marked : result;
}

// The last superblock: the tail as far as it goes, and `clean` when nothing in the ring is needed.
Result<void> Journal::mark_closed() {
  Core& core = *core_;
  Superblock last = core.write_back->superblock();
  uint64_t needed = UINT64_MAX;
  std::vector<Lun*> clean_luns;
  for (const auto& lun : core.all_luns()) {
    const std::lock_guard lock(lun->mutex);
    if (const Record* oldest = lun->map.oldest()) {
      needed = std::min(needed, oldest->sequence);
    } else if (lun->store != nullptr && lun->mode.load(std::memory_order_relaxed) == Mode::journaled) {
      clean_luns.push_back(lun.get());
    }
  }
  {
    const std::lock_guard lock(core.mutex);
    const uint64_t watermark = core.watermark.load(std::memory_order_relaxed);
    if (core.queue_first != nullptr || core.committing) needed = std::min(needed, watermark + 1);
    last.clean = needed == UINT64_MAX;
    last.tail = core.ring.tail_for(std::min(needed, core.last_sequence + 1));
    last.watermark = watermark;
  }
  ++last.generation;
  Blocking io = blocking_for(core);
  const int error = write_superblock(last, *core.log, io);
  if (error != 0) return Error{error, "cannot write " + core.log->describe() + ": " + strerror(error)};
  if (core.options.keeper == nullptr) return {};
  for (const Lun* lun : clean_luns) {
    const auto saved = core.options.keeper->save({lun->uuid, core.uuid, core.epoch, State::attached});
    if (!saved) return saved.error();
  }
  return {};
}

Statistics Journal::statistics() const {
  const Core& core = *core_;
  const Counters& c = core.counters;
  Statistics s;
  {
    const std::lock_guard lock(core.mutex);
    s.ring_bytes = core.ring.limit();
    s.ring_used = core.ring.used() + core.ring.promised();
    s.waiting = core.room_waiters.size();
  }
  s.memory_used = core.pool.used();
  for (const auto& lun : core.all_luns()) s.dirty_bytes += lun->dirty_bytes.load(std::memory_order_relaxed);
  for (size_t i = 0; i < s.commit_latency.size(); ++i) s.commit_latency[i] = c.commit_latency[i].load();
  s.waited = c.waited;
  s.refused_busy = c.refused_busy;
  s.commits = c.commits;
  s.records = c.records;
  s.bytes_committed = c.bytes_committed;
  s.forwarded = c.forwarded;
  s.superblocks = c.superblocks;
  s.bytes_in = c.bytes_in;
  s.bytes_written_back = c.bytes_written_back;
  s.write_backs = c.write_backs;
  s.partial_in = c.partial_in;
  s.partial_written_back = c.partial_written_back;
  s.discards_dropped = c.discards_dropped;
  s.store_errors = c.store_errors;
  return s;
}

}  // namespace zvolt::backing::journal
