// See machine.h.
#include "tests/crash/machine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/format.h"

namespace zvolt::crash {

using backing::IoKind;
using backing::IoRequest;
using backing::Submitted;
using backing::journal::AttachOptions;
using backing::journal::JournalOptions;
using backing::journal::Uuid;

namespace {

constexpr Uuid kJournal{0x4a, 0x51};

std::string kind_name(IoKind kind) {
  constexpr const char* kNames[] = {"read", "write", "flush", "write_zeroes", "discard", "allocation_status"};
  return kNames[static_cast<size_t>(kind)];
}

std::string tell(const Op& op) {
  return kind_name(op.request.kind) + " of lun " + std::to_string(op.lun) + " sectors " + std::to_string(op.first) +
         "+" + std::to_string(op.count) + (op.fua ? " fua" : "") + " issued " + std::to_string(op.issued);
}

}  // namespace

void on_answer(IoRequest& request) noexcept {
  Op& op = *static_cast<Op*>(request.context);
  op.machine->answered(op);
}

Machine::Machine(const Plan& the_plan, Rng& the_rng, Mutant the_mutant)
    : plan(the_plan), rng(the_rng), mutant(the_mutant) {
  power.off = [this] { settle_disks(); };
  between_hook_ = [this] {
    if (between) between();
  };
  DiskOptions options;
  options.name = "log";
  options.size = backing::journal::kRingStart + plan.ring_bytes;
  options.atomic = plan.log_atomic;
  options.log_sector = plan.sector;
  options.geometry.physical_block = plan.sector;
  options.geometry.io_alignment = 512;
  options.at_once_percent = plan.has(kAtOnce) ? 30 : 0;
  log = std::make_shared<CrashDisk>(options, power, rng);
  if (mutant == Mutant::log_flush_lies) log->lying_flush_percent = 50;
  keeper = std::make_shared<CrashKeeper>(power, rng);
  keeper->forgets_leaving = mutant == Mutant::keeper_forgets_leaving;
  for (unsigned i = 0; i < plan.luns; ++i) {
    SimLun lun;
    lun.uuid = Uuid{0x1e, static_cast<uint8_t>(i)};
    lun.disk = make_store(i);
    luns.push_back(std::move(lun));
    model.add_lun(plan.lun_bytes / kSectorBytes);
  }
  SimEngine engine(power, rng, &between_hook_);
  const auto made = backing::journal::format_journal(*log, {kJournal, plan.sector, 0}, engine);
  if (!made) power.fail("format: " + made.error().message);
}

Machine::~Machine() {
  if (alive_) {
    settle_disks();
    end_life();
  }
}

std::shared_ptr<CrashDisk> Machine::make_store(size_t number) {
  DiskOptions options;
  options.name = "store " + std::to_string(number);
  options.size = plan.lun_bytes;
  options.atomic = plan.store_atomic;
  options.geometry.physical_block = plan.volblock;
  options.geometry.discard_granularity = plan.granule;
  options.geometry.discard_zeroes = plan.discard_zeroes;
  options.geometry.io_alignment = plan.store_atomic;
  options.geometry.memory_alignment = number % 2 == 0 ? 1 : 512;
  options.geometry.volatile_cache = number % 3 != 2;
  options.at_once_percent = plan.has(kAtOnce) ? 30 : 0;
  options.flush_keeps_nothing = plan.has(kTxgSync);
  options.reopen_seed = plan.reopen_seed + number;
  auto disk = std::make_shared<CrashDisk>(options, power, rng);
  if (mutant == Mutant::store_flush_lies) disk->lying_flush_percent = 50;
  disk->silent_reopens = mutant == Mutant::reopens_silently;
  return disk;
}

// --- lives ---

void Machine::begin_life() {
  ++life;
  ++tally.lives;
  tick();
  log_faulted = keeper_faulted = slow = false;
  ordered = true;
  alive_ = true;
  changed_ = false;
  running_ = 0;
  held_luns_ = 0;
  keeper->broken = false;
  for (SimLun& lun : luns) {
    lun.unchecked = true;
    lun.faulted = lun.resized = lun.left = false;
    lun.in_flight = 0;
  }
  for (unsigned i = 0; i < plan.shards; ++i) shards.push_back(std::make_unique<SimEngine>(power, rng, nullptr));
}

Result<void> Machine::open() {
  JournalOptions options;
  options.memory_bytes = plan.memory_bytes;
  options.lun_quota_percent = plan.lun_quota_percent;
  options.max_dirty_age = std::chrono::milliseconds(plan.max_dirty_age_ms);
  options.most_waiters = plan.most_waiters;
  options.on_failure = plan.policy;
  options.keeper = keeper;
  options.report = [](const std::string&) {};
  options.make_engine = [this] { return std::make_unique<SimEngine>(power, rng, &between_hook_); };
  options.clock_ns = [this] { return now_ns; };
  options.own_thread = false;
  auto opened = Journal::open(log, std::move(options));
  if (!opened) return opened.error();
  journal = std::move(*opened);
  tally.torn += journal->replayed().torn ? 1 : 0;
  tally.replayed += journal->replayed().records;
  return {};
}

Result<void> Machine::attach(size_t number) {
  SimLun& lun = luns[number];
  AttachOptions options;
  options.uuid = lun.uuid;
  options.name = "lun" + std::to_string(number);
  options.store = lun.disk;
  if (plan.has(kTxgSync)) {
    options.made_durable = [this, disk = lun.disk]() -> Result<void> {
      power.tick();
      if (rng.one_in(8)) return Error{EIO, "the pool did not sync"};
      disk->sync_all();
      return {};
    };
  }
  if (plan.has(kLateStores)) {
    options.admit_replay = [this]() -> Result<void> {
      power.tick();
      if (rng.one_in(2)) return Error{EAGAIN, "the pool's history cannot be read yet"};
      return {};
    };
  }
  const auto state = keeper->entries.find(lun.uuid);
  const bool left = state != keeper->entries.end() && state->second.state == StateKeeper::State::detached;
  auto attached = journal->attach(std::move(options));
  if (!attached) return attached.error();
  ++tally.attaches;
  lun.left = false;
  if (left) ++tally.stale_voided;
  lun.journaled = std::move(*attached);
  lun.served = wrap(mutant, lun.journaled, lun.disk, rng);
  return {};
}

void Machine::serve_raw(size_t number) {
  SimLun& lun = luns[number];
  lun.disk->sync_all();  // whoever opens a store that another process may have written to flushes it first
  lun.served = lun.disk;
  ordered = false;
}

// The power goes, or only the process.
void Machine::settle_disks() {
  if (!alive_) return;
  const bool kill = plan.has(kKill) && rng.one_in(3);
  ++(kill ? tally.kills : tally.cuts);
  if (strcmp(where, "open") == 0) ++tally.cuts_in_open;
  if (strcmp(where, "attach") == 0) ++tally.cuts_in_attach;
  if (strcmp(where, "admin") == 0) ++tally.cuts_in_admin;
  where = "";
  alive_ = false;
  for (CrashDisk* disk : {log.get()}) kill ? disk->kill() : disk->power_cut();
  for (SimLun& lun : luns) kill ? lun.disk->kill() : lun.disk->power_cut();
  log->forget_requests();
  for (SimLun& lun : luns) lun.disk->answer_shards();
}

void Machine::end_life() {
  alive_ = false;
  where = "";
  tick();
  model.cut(time_);
  if (journal != nullptr) {
    const auto s = journal->statistics();
    tally.commits += s.commits;
    tally.waited += s.waited;
    tally.busy += s.refused_busy;
    tally.forwarded += s.forwarded;
    tally.superblocks += s.superblocks;
    tally.store_errors += s.store_errors;
    if (!journal->failure().empty()) ++tally.log_failures;
  }
  ops_.clear();
  for (SimLun& lun : luns) {
    lun.served.reset();
    lun.journaled.reset();
  }
  journal.reset();
  shards.clear();
  tally.events += power.events() - last_cut_events_;
  last_cut_events_ = power.events();
  if (mutant == Mutant::forgets_the_ring) {
    SimEngine engine(power, rng, &between_hook_);
    (void)backing::journal::format_journal(*log, {kJournal, plan.sector, 0}, engine, true);
  }
}

// --- hosts ---

void Machine::submit(IoKind kind, size_t number, uint64_t first, uint64_t count, bool fua) {
  SimLun& lun = luns[number];
  ops_.push_back(std::make_unique<Op>());
  Op& op = *ops_.back();
  op.machine = this;
  op.lun = number;
  op.store = lun.served;
  op.first = first;
  op.count = count;
  op.issued = tick();
  op.request.kind = kind;
  op.request.offset = first * kSectorBytes;
  op.request.length = count * kSectorBytes;
  op.request.context = &op;
  op.request.done = on_answer;
  prepare(op, fua);
  ++running_;
  ++lun.in_flight;
  ++tally.requests;
  SimEngine& shard = *shards[rng.below(shards.size())];
  if (Power::trace) Power::tell(std::to_string(time_) + " submit " + name_of(op));
  if (op.store->submit(op.request, shard) == Submitted::done) answered(op);
}

void Machine::prepare(Op& op, bool fua) {
  IoRequest& request = op.request;
  if (request.kind == IoKind::read || request.kind == IoKind::write) {
    op.memory.resize(request.length);
    // Two parts, cut anywhere on a sector.
    const uint64_t half = rng.below(op.count) * kSectorBytes;
    op.iov = {iovec{op.memory.data(), half}, iovec{op.memory.data() + half, request.length - half}};
    request.iov = half == 0 ? &op.iov[1] : op.iov.data();
    request.iov_count = half == 0 ? 1 : 2;
  }
  if (!changes(request.kind)) return;
  request.fua = op.fua = fua;
  if (request.kind == IoKind::discard) {
    const uint64_t unit = plan.granule / kSectorBytes;
    const uint64_t begin = (op.first + unit - 1) / unit * unit;
    const uint64_t end = plan.discard_zeroes ? (op.first + op.count) / unit * unit : begin;
    op.first = begin;
    op.count = end > begin ? end - begin : 0;
  }
  op.version = model.issue(op.lun, op.first, op.count, request.kind != IoKind::write, op.issued, life);
  op.has_version = true;
  changed_ = true;
  if (request.kind != IoKind::write) return;
  const uint64_t id = model.version(op.version).id;
  for (uint64_t i = 0; i < op.count; ++i) Model::stamp(op.memory.data() + i * kSectorBytes, id, op.lun, op.first + i);
}

// Also from callbacks: nothing is thrown here.
void Machine::answered(Op& op) {
  if (!alive_) return;
  if (op.answered) return power.fail("answered twice: " + tell(op));
  op.answered = true;
  tick();
  --running_;
  SimLun& lun = luns[op.lun];
  --lun.in_flight;
  const IoRequest& request = op.request;
  const bool ok = request.error == 0;
  if (Power::trace)
    Power::tell(std::to_string(time_) + " answer " + name_of(op) + ": " + std::to_string(request.error));
  if (!ok) ++tally.errors;
  if (!ok && !explained(op)) {
    power.fail(tell(op) + " was answered with " + strerror(request.error) + ", and nothing explains it");
  }
  if (ok && op.has_version && op.count != 0 && held(op.lun) && op.issued > held_since_) {
    power.fail("done while its LUN was held: " + tell(op));
  }
  if (op.has_version) {
    model.answered(op.lun, op.first, op.count, op.version, ok, op.fua, time_);
    if (ok && op.fua) model.prune(op.lun, op.first, op.count, oldest_read());
  } else if (request.kind == IoKind::flush && ok) {
    ++tally.flushes;
    const bool all = request.length == 0 || lun.served == lun.disk;
    model.flushed(op.lun, all ? 0 : op.first, all ? model.sectors(op.lun) : op.count, op.issued, life);
  } else if (request.kind == IoKind::read && ok && !op.checks) {
    judge_read(op);
  }
  if (!op.checks) std::vector<uint8_t>().swap(op.memory);
}

uint64_t Machine::oldest_read() const {
  uint64_t oldest = time_;
  for (auto it = ops_.rbegin(); it != ops_.rend(); ++it) {
    if (!(*it)->answered) oldest = std::min(oldest, (*it)->issued);
  }
  return oldest;
}

void Machine::judge_read(const Op& op) {
  ++tally.reads;
  for (uint64_t i = 0; i < op.count; ++i) {
    if (op.first + i >= model.sectors(op.lun)) return;  // it shrank meanwhile
    const auto fault = model.judge(op.lun, op.first + i, op.memory.data() + i * kSectorBytes, op.issued, life);
    if (!fault.empty()) return power.fail(tell(op) + ": " + fault);
  }
}

// Is there a reason for the error? A LUN whose store had a fault, a log or a state that failed, too many waiters.
bool Machine::explained(const Op& op) const {
  const SimLun& lun = luns[op.lun];
  const int error = op.request.error;
  if (lun.left && error == EROFS) return false;
  if (lun.faulted || lun.resized) return true;
  if (error == ENOMEDIUM && plan.has(kLateStores)) return true;  // not admitted yet
  if (op.request.kind == IoKind::read) return false;
  // The ring may be full of what a LUN holds whose store is not there, or fails.
  const bool held_up = std::any_of(luns.begin(), luns.end(),
                                   [](const SimLun& each) { return each.faulted || each.journaled == nullptr; });
  if (error == EAGAIN && (slow || plan.most_waiters < 100 || held_up)) return true;
  return log_faulted || keeper_faulted;
}

void Machine::resize(size_t number, uint64_t bytes) {
  SimLun& lun = luns[number];
  const uint64_t before = model.sectors(number);
  lun.resized = true;
  ordered = false;
  model.resize(number, bytes / kSectorBytes, tick());
  lun.disk->resize(bytes);
  for (const auto& op : ops_) {
    if (op->answered || !op->has_version || op->lun != number) continue;
    const uint64_t end = std::min(op->first + op->count, model.sectors(number));
    for (uint64_t i = std::max(op->first, before); i < end; ++i) model.still_comes(number, i, op->version);
  }
}

bool Machine::overlaps(size_t lun, uint64_t first, uint64_t count) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& op) {
    return !op->answered && op->lun == lun && op->first < first + count && first < op->first + op->count;
  });
}

std::string Machine::first_running() const {
  for (const auto& op : ops_) {
    if (!op->answered) return tell(*op);
  }
  return "nothing";
}

std::string Machine::name_of(const Op& op) const {
  return (op.has_version ? "version " + std::to_string(model.version(op.version).id) + " " : std::string()) + tell(op);
}

std::string Machine::describe() const {
  if (journal == nullptr) return "no journal";
  const auto s = journal->statistics();
  std::string text = "ring " + std::to_string(s.ring_used) + "/" + std::to_string(s.ring_bytes) + ", memory " +
                     std::to_string(s.memory_used) + ", dirty " + std::to_string(s.dirty_bytes) + ", waiting " +
                     std::to_string(s.waiting) + ", failure \"" + journal->failure() + "\"";
  for (const SimLun& lun : luns) {
    text += "\n    " + lun.disk->describe();
    if (lun.journaled == nullptr) text += " not attached";
    if (lun.journaled == nullptr) continue;
    const auto t = lun.journaled->status();
    text += " mode " + std::to_string(static_cast<int>(t.mode)) + ", dirty " + std::to_string(t.dirty_bytes) + " in " +
            std::to_string(t.dirty_extents) + ", ring " + std::to_string(t.ring_bytes) +
            (t.store_away ? ", away" : "") + ", error " + std::to_string(t.store_error) + " " + t.store_problem +
            (t.replaying ? ", replaying" : "");
  }
  return text;
}

void Machine::drop_ops(size_t lun) {
  std::erase_if(ops_, [&](const auto& op) { return op->lun == lun && op->answered; });
}

void Machine::shard_turn() {
  SimEngine& shard = *shards[rng.below(shards.size())];
  shard.flush();
  shard.reap(64);
  shard.flush();
}

void Machine::heal(bool lose_unflushed) {
  log->heal(false);
  for (SimLun& lun : luns) {
    const bool in_journal =
        lun.journaled != nullptr && (lun.journaled->status().mode == JournaledStore::Mode::journaled ||
                                     lun.journaled->status().mode == JournaledStore::Mode::leaving);
    lun.disk->heal(lose_unflushed && in_journal);
  }
  keeper->broken = false;
}

// --- judging ---

bool Machine::read_all(size_t number, std::vector<uint8_t>& image) {
  const uint64_t sectors = model.sectors(number);
  submit(IoKind::read, number, 0, sectors, false);
  Op& op = *ops_.back();
  op.checks = true;
  for (unsigned turns = 0; !op.answered; ++turns) {
    if (turns > 100000) throw Violation{"never answered: " + tell(op)};
    shard_turn();
    if (journal != nullptr) journal->turn();
    now_ns += 100'000;
    power.check();
  }
  power.check();
  if (op.request.error != 0) return false;
  image = std::move(op.memory);
  return true;
}

void Machine::judge_store(size_t number, uint64_t asked, uint64_t latest, const char* when, bool changed_too) {
  const auto& image = luns[number].disk->durable();
  for (uint64_t i = 0; i < model.sectors(number); ++i) {
    if (!changed_too && model.changed_since(number, i, asked)) continue;
    const auto fault = model.judge(number, i, image.data() + i * kSectorBytes, asked, life, latest);
    if (!fault.empty()) throw Violation{std::string(when) + ", but in the store " + fault};
  }
}

}  // namespace zvolt::crash
