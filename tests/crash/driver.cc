// See driver.h: lives, hosts' requests, checks after a restart.
#include "tests/crash/driver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace zvolt::crash {

using backing::IoKind;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kHealAfter = 400;      // turns of a blocking function: then faults end, so that it can
constexpr uint64_t kStuckAfter = 200000;  // turns: it never ends
constexpr uint64_t kAnswerTurns = 60000;  // turns within which all requests are answered once nothing is wrong
constexpr uint64_t kMostSteps = 6000;     // of a life whose power would not go
constexpr uint64_t kMostSectors = 512;    // of a request: 256 KiB

}  // namespace

Driver::Driver(const Plan& plan, Rng& rng, Mutant mutant)
    : m_(plan, rng, mutant), rng_(rng), reopens_(~plan.reopen_seed) {
  m_.between = [this] { between(); };
}

void Driver::life() {
  try {
    run_life();
  } catch (const PowerCut&) {
  }
  in_between_ = false;
  // A life that ended before hosts came leaves the one before to be judged.
  if (m_.changed_in_life()) ordered_life_ = m_.ordered ? m_.life : 0;
  m_.end_life();
}

void Driver::run_life() {
  m_.begin_life();
  traffic_ = false;
  between_calls_ = 0;
  const bool whole = rng_.percent(15);  // ends when it likes
  if (whole) {
    m_.power.never_cut();
  } else {
    m_.power.cut_after(m_.plan.has(kReplayCuts) && rng_.percent(35) ? rng_.below(50) : rng_.below(m_.plan.most_events));
  }
  boot();
  check_all();
  for (uint64_t steps = whole ? rng_.between(100, 600) : kMostSteps; steps > 0; --steps) step();
  if (whole) {
    calm();
    if (rng_.one_in(2)) close();
  }
  m_.power.cut();
}

// --- start ---

void Driver::boot() {
  const uint64_t clean = std::exchange(closed_clean_, 0);
  if (m_.plan.has(kGoneJournal) && rng_.one_in(4)) return boot_without_journal();
  if (!open_journal()) return;
  for (const auto& found : m_.journal->replayed().luns) {
    for (size_t i = 0; i < m_.luns.size(); ++i) {
      if (m_.luns[i].uuid == found.uuid && (clean >> i & 1) != 0) {
        throw Violation{"the journal was closed with nothing left of lun " + std::to_string(i) + ", and holds records"};
      }
    }
  }
  const size_t shift = rng_.below(m_.luns.size());
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    SimLun& lun = m_.luns[(i + shift) % m_.luns.size()];
    if (m_.plan.has(kLateStores) && rng_.one_in(4)) lun.faulted = lun.disk->faults.away = true;
    if (m_.plan.has(kLateStores) && rng_.one_in(5)) continue;  // its pool is not imported yet
    attach((i + shift) % m_.luns.size());
  }
}

bool Driver::open_journal() {
  m_.where = "open";
  if (m_.plan.has(kLogFaults) && rng_.one_in(10)) {
    m_.log->faults.read_error = EIO;
    if (m_.open()) throw Violation{"a journal that cannot be read was opened"};
    m_.log->heal(false);
  }
  const auto opened = m_.open();
  if (!opened) throw Violation{"the journal was refused: " + opened.error().message};
  m_.where = "";
  return true;
}

void Driver::attach(size_t number) {
  m_.where = "attach";
  if (m_.plan.has(kKeeperFaults) && rng_.one_in(6)) m_.keeper_faulted = m_.keeper->broken = true;
  const auto attached = m_.attach(number);
  m_.where = "";
  m_.keeper->broken = false;
  if (attached) return;
  // A state that cannot be kept, a log that has failed, a store with a fault, a ring too full for one more record.
  const int code = attached.error().code;
  const bool explained =
      (m_.keeper_faulted && code == EROFS) || m_.luns[number].faulted || m_.log_faulted || code == ENOSPC;
  if (!explained) throw Violation{"lun " + std::to_string(number) + " was not attached: " + attached.error().message};
}

// The log is not there. A LUN that has left it is served without; one with data in it must wait.
void Driver::boot_without_journal() {
  ++m_.tally.gone_journals;
  m_.ordered = false;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    const auto state = m_.keeper->entries.find(m_.luns[i].uuid);
    if (state == m_.keeper->entries.end() || state->second.state == StateKeeper::State::dirty) continue;
    StateKeeper::Entry entry = state->second;
    entry.state = StateKeeper::State::detached;
    if (m_.keeper->save(entry)) m_.serve_raw(i);
  }
}

// --- after a restart ---

void Driver::check_all() {
  std::vector<std::vector<uint8_t>> images(m_.luns.size());
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    SimLun& lun = m_.luns[i];
    const DiskFaults& faults = lun.disk->faults;
    if (lun.served == nullptr || !lun.unchecked || faults.away || faults.stalled || lun.in_flight != 0) continue;
    for (int tries = 0; tries < 40 && images[i].empty(); ++tries) {
      if (!m_.read_all(i, images[i])) advance_clock();
    }
  }
  judge_images(images);
}

void Driver::judge_images(const std::vector<std::vector<uint8_t>>& images) {
  Model& model = m_.model;
  const uint64_t now = m_.tick();
  uint64_t reached = 0;  // of the last life: when its youngest change that is still there was issued
  const auto each = [&](const auto& fn) {
    for (size_t lun = 0; lun < images.size(); ++lun) {
      for (uint64_t i = 0; i < images[lun].size() / kSectorBytes; ++i)
        fn(lun, i, images[lun].data() + i * kSectorBytes);
    }
  };
  each([&](size_t lun, uint64_t i, const uint8_t* data) {
    const auto fault = model.judge(lun, i, data, now, m_.life);
    if (!fault.empty()) throw Violation{"after a restart " + fault};
    reached = std::max(reached, model.issued(lun, i, data, ordered_life_));
  });
  if (reached != 0) {
    each([&](size_t lun, uint64_t i, const uint8_t* data) {
      const auto fault = model.missing(lun, i, data, ordered_life_, reached);
      if (!fault.empty()) throw Violation{"after a restart " + fault};
    });
  }
  each([&](size_t lun, uint64_t i, const uint8_t* data) { model.settle(lun, i, data, now, m_.life); });
  for (size_t lun = 0; lun < images.size(); ++lun) {
    if (!images[lun].empty()) m_.luns[lun].unchecked = false;
  }
}

// --- what happens ---

void Driver::step() {
  m_.tick();
  if (m_.plan.has(kReopens) && reopens_.one_in(60)) reopen_store();
  const uint64_t what = rng_.below(1000);
  if (what < 420) {
    if (m_.running() < m_.plan.depth) request();
  } else if (what < 700) {
    m_.shard_turn();
  } else if (what < 930) {
    if (m_.journal != nullptr) m_.journal->turn();
  } else if (what < 975) {
    advance_clock();
  } else if (what < 992) {
    fault();
  } else if (m_.plan.has(kAdmin) && what < 996) {
    administer();
  }
  m_.power.check();
}

void Driver::advance_clock() {
  // A store that takes seconds counts as away.
  const bool jump = rng_.one_in(20);
  m_.slow = m_.slow || jump;
  m_.now_ns += (jump ? rng_.below(7000) : rng_.below(20)) * kMs;
}

void Driver::request() {
  const size_t number = rng_.below(m_.luns.size());
  SimLun& lun = m_.luns[number];
  if (lun.served == nullptr) return;
  const uint64_t sectors = m_.model.sectors(number);
  const uint64_t most = std::min(m_.plan.has(kBigRequests) && rng_.one_in(6) ? kMostSectors : uint64_t{24}, sectors);
  const uint64_t count = rng_.between(1, rng_.one_in(2) ? std::min<uint64_t>(8, most) : most);
  // Most go to a few hot places.
  uint64_t first = rng_.below(sectors - count + 1);
  if (rng_.percent(60)) first = std::min((rng_.below(4) * 37 + rng_.below(12)) % sectors, sectors - count);
  if (rng_.one_in(3)) first = first / 8 * 8;
  const uint64_t what = rng_.below(100);
  IoKind kind = IoKind::write;
  if (what < 20) kind = IoKind::read;
  if (what >= 20 && what < 28) kind = IoKind::flush;
  if (what >= 28 && what < 32) kind = IoKind::write_zeroes;
  if (what >= 32 && what < 40 && m_.plan.has(kDiscards)) kind = IoKind::discard;
  const bool ranged = kind == IoKind::flush && rng_.one_in(3);
  if (kind == IoKind::flush && !ranged) return m_.submit(kind, number, 0, 0, false);
  if (changes(kind) && !m_.plan.has(kOverlaps) && m_.overlaps(number, first, count)) return;
  m_.submit(kind, number, first, count, rng_.percent(m_.plan.fua_percent));
}

// While one of the journal's engines is run: the rest of the machine does not stand still.
void Driver::between() {
  if (in_between_) return;
  in_between_ = true;
  struct Leave {
    bool& flag;
    ~Leave() { flag = false; }
  } const leave{in_between_};
  if (m_.where[0] == '\0') {
    between_calls_ = 0;
    if (!m_.shards.empty() && rng_.one_in(4)) m_.shard_turn();
    return;
  }
  ++between_calls_;
  if (between_calls_ > kStuckAfter) throw Violation{std::string("never ends: ") + m_.where + "; " + m_.describe()};
  if (between_calls_ == kHealAfter) m_.heal(true);
  m_.now_ns += rng_.below(4) * kMs;
  if (m_.journal == nullptr) return;
  if (m_.plan.has(kReopens) && between_calls_ < kHealAfter && reopens_.one_in(60)) reopen_store();
  if (rng_.one_in(2)) m_.shard_turn();
  if (traffic_ && rng_.one_in(4) && m_.running() < m_.plan.depth) request();
  if (traffic_ && rng_.one_in(200)) fault();
}

// Nothing is wrong any more: every request is answered, and everything that was ends in the stores.
void Driver::calm() {
  m_.heal(true);
  settle("once nothing was wrong any more");
  uint64_t luns = 0;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    if (is_journaled(i)) luns |= uint64_t{1} << i;
  }
  if (m_.journal != nullptr && luns != 0) drain(luns, std::chrono::hours(1000));
  m_.heal(true);  // hosts, and faults, may have gone on while it drained
  settle("after a drain");
  check_all();
}

void Driver::settle(const char* why) {
  for (uint64_t turns = 0; m_.running() != 0; ++turns) {
    if (turns > kAnswerTurns) {
      throw Violation{"not answered, " + std::string(why) + ": " + m_.first_running() + "; " + m_.describe()};
    }
    m_.shard_turn();
    if (m_.journal != nullptr) m_.journal->turn();
    m_.now_ns += kMs;
    m_.power.check();
  }
}

Outcome run_seed(uint64_t seed, uint32_t without, Mutant mutant, unsigned most_lives) {
  Rng rng(seed * 0x9e3779b97f4a7c15 + 1);
  const Plan plan = draw_plan(rng, without);
  Outcome outcome;
  outcome.features = plan.features;
  outcome.plan = "luns " + std::to_string(plan.luns) + ", shards " + std::to_string(plan.shards) + ", ring " +
                 std::to_string(plan.ring_bytes >> 10) + "K, memory " + std::to_string(plan.memory_bytes >> 10) +
                 "K, sector " + std::to_string(plan.sector) + ", volblock " + std::to_string(plan.volblock) +
                 ", features " + feature_names(plan.features);
  Driver driver(plan, rng, mutant);
  const unsigned lives = most_lives == 0 ? plan.lives : std::min(plan.lives, most_lives);
  try {
    for (unsigned i = 0; i < lives; ++i) driver.life();
  } catch (const Violation& violation) {
    outcome.violation = violation.text;
  }
  outcome.tally = driver.tally();
  return outcome;
}

}  // namespace zvolt::crash
