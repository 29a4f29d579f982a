// See driver.h: faults, and what an administrator does.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/crash/driver.h"

namespace zvolt::crash {

using backing::journal::JournaledStore;
using std::chrono::milliseconds;

namespace {

// While one of the journal's blocking functions runs.
class Blocked {
 public:
  Blocked(Machine& machine, bool& traffic, uint64_t& calls, bool hosts_go_on) : machine_(machine), traffic_(traffic) {
    machine.where = "admin";
    if (Power::trace) Power::tell("administration begins");
    calls = 0;
    traffic = hosts_go_on;
  }
  ~Blocked() {
    if (machine_.where[0] != '\0') machine_.where = "";
    if (Power::trace) Power::tell("administration ends");
    traffic_ = false;
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  Machine& machine_;
  bool& traffic_;
};

}  // namespace

// --- faults ---

void Driver::fault() {
  if (m_.plan.has(kResize) && rng_.one_in(6)) resize();
  if (m_.plan.has(kStoreFaults) && rng_.one_in(2)) store_fault(m_.luns[rng_.below(m_.luns.size())]);
  if (m_.plan.has(kLogFaults) && rng_.one_in(6)) log_fault();
  if (m_.plan.has(kKeeperFaults) && rng_.one_in(6)) {
    m_.keeper->broken = !m_.keeper->broken;
    m_.keeper_faulted = true;
  }
}

void Driver::store_fault(SimLun& lun) {
  DiskFaults& faults = lun.disk->faults;
  const bool any =
      faults.away || faults.stalled || faults.write_error != 0 || faults.flush_error != 0 || faults.read_error != 0;
  if (any && rng_.percent(60)) {
    const auto number = static_cast<size_t>(&lun - m_.luns.data());
    return lun.disk->heal(rng_.one_in(2) && is_journaled(number));
  }
  lun.faulted = true;
  switch (rng_.below(6)) {
    case 0:
      faults.away = true;
      break;
    case 1:
      faults.stalled = true;
      break;
    case 2:
      faults.write_error = rng_.one_in(2) ? ENOSPC : EIO;
      faults.write_error_percent = rng_.one_in(2) ? 100 : 30;
      break;
    case 3:
      faults.flush_error = EIO;
      break;
    case 4:
      faults.read_error = EIO;
      break;
    default:
      lun.disk->heal(false);
  }
}

// A followed device that went and came back, as another that has what was flushed. Only under a journal: without one
// hosts must be told (target/daemon/health), which is not simulated here.
void Driver::reopen_store() {
  const size_t number = reopens_.below(m_.luns.size());
  if (!is_journaled(number)) return;
  m_.luns[number].faulted = true;
  m_.luns[number].disk->reopen();
  ++m_.tally.reopens;
}

void Driver::log_fault() {
  DiskFaults& faults = m_.log->faults;
  if (faults.stalled) return m_.log->release();
  m_.log_faulted = true;
  m_.ordered = false;
  switch (rng_.below(4)) {
    case 0:
      faults.write_error = EIO;
      faults.write_error_percent = 50;
      break;
    case 1:
      faults.flush_error = EIO;
      break;
    case 2:
      faults.away = true;
      break;
    default:
      faults.stalled = true;
  }
}

// In whole granules; a smaller store loses what lay beyond.
void Driver::resize() {
  const size_t number = rng_.below(m_.luns.size());
  if (m_.luns[number].disk->faults.away) return;
  const uint64_t unit = m_.plan.volblock;
  const uint64_t size = rng_.between(1, 4) * std::max<uint64_t>(unit, 65536);
  m_.resize(number, size);
}

// --- an administrator ---

bool Driver::is_journaled(size_t number) const {
  const auto& lun = m_.luns[number];
  return m_.journal != nullptr && lun.journaled != nullptr &&
         lun.journaled->status().mode == JournaledStore::Mode::journaled;
}

milliseconds Driver::some_limit() {
  // The limit is of real time, so only "not at all" and "for ever" are the same in every run.
  return rng_.one_in(4) ? milliseconds(0) : milliseconds(std::chrono::hours(1000));
}

void Driver::administer() {
  if (m_.journal == nullptr) return;
  const size_t number = rng_.below(m_.luns.size());
  switch (rng_.below(7)) {
    case 0:
    case 1:
      return quiesce();
    case 2:
    case 3:
      if (is_journaled(number)) drain(uint64_t{1} << number, some_limit());
      return;
    case 4:
      if (is_journaled(number)) detach(number);
      return;
    case 5:
      if (m_.luns[number].journaled == nullptr && rng_.one_in(4)) return discard_records(number);
      [[fallthrough]];
    default:
      if (m_.luns[number].journaled == nullptr ||
          m_.luns[number].journaled->status().mode == JournaledStore::Mode::direct) {
        return attach_again(number);
      }
      if (m_.luns[number].unchecked) check_all();
  }
}

// A snapshot of several LUNs: one instant, complete in the stores.
void Driver::quiesce() {
  uint64_t set = 0;
  std::vector<JournaledStore*> stores;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    if (m_.luns[i].journaled == nullptr || (stores.size() == 1 && rng_.one_in(4))) continue;
    stores.push_back(m_.luns[i].journaled.get());
    set |= uint64_t{1} << i;
  }
  if (stores.empty()) return;
  const uint64_t asked = m_.tick();
  bool taken = false;
  const auto snapshot = [&]() -> Result<void> {
    taken = true;
    for (size_t i = 0; i < m_.luns.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      if (m_.luns[i].disk->changing()) throw Violation{"writes are on their way while a snapshot is taken"};
      m_.judge_store(i, asked, asked, "a snapshot was taken");
    }
    return {};
  };
  const Blocked blocked(m_, traffic_, between_calls_, true);
  if (m_.mutant == Mutant::unheld_snapshot) {
    (void)snapshot();
    return;
  }
  m_.hold(set);
  const auto result = m_.journal->quiesce(stores, some_limit(), snapshot);
  m_.hold(0);
  ++(result ? m_.tally.quiesces : m_.tally.timeouts);
  if (result.ok() != taken) throw Violation{"quiesce says one thing about its callback, and did another"};
}

void Driver::drain(uint64_t set, milliseconds limit) {
  std::vector<JournaledStore*> stores;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    if ((set >> i & 1) != 0) stores.push_back(m_.luns[i].journaled.get());
  }
  const uint64_t asked = m_.tick();
  const Blocked blocked(m_, traffic_, between_calls_, limit.count() == 0 || rng_.one_in(2));
  Result<void> result;
  if (m_.mutant != Mutant::drain_does_nothing) result = m_.journal->drain(stores, limit);
  if (!result) {
    ++m_.tally.timeouts;
    return;
  }
  ++m_.tally.drains;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    // One whose journal has failed meanwhile is written to past it, and not flushed by anybody but its hosts.
    if ((set >> i & 1) != 0 && is_journaled(i)) m_.judge_store(i, asked, kNever, "drained", false);
  }
}

void Driver::detach(size_t number) {
  const uint64_t asked = m_.tick();
  m_.ordered = false;
  Result<void> result;
  {
    const Blocked blocked(m_, traffic_, between_calls_, true);
    result = m_.journal->detach(*m_.luns[number].journaled, some_limit());
  }
  if (!result) {
    ++m_.tally.timeouts;
    return;
  }
  ++m_.tally.detaches;
  m_.luns[number].left = true;
  if (!m_.log_faulted) m_.judge_store(number, asked, kNever, "detached");
}

void Driver::finish_requests(size_t number) {
  m_.heal(true);
  for (uint64_t turns = 0; m_.luns[number].in_flight != 0; ++turns) {
    if (turns > 60000) throw Violation{"not answered before a LUN was to be attached again: " + m_.first_running()};
    m_.shard_turn();
    m_.journal->turn();
    m_.now_ns += 1'000'000;
    m_.power.check();
  }
}

void Driver::attach_again(size_t number) {
  finish_requests(number);
  SimLun& lun = m_.luns[number];
  lun.served.reset();
  m_.drop_ops(number);
  lun.journaled.reset();
  m_.ordered = false;
  between_calls_ = 0;
  attach(number);
  if (lun.served != nullptr && lun.unchecked) check_all();
}

// On purpose: from now on the LUN is what its store holds.
void Driver::discard_records(size_t number) {
  SimLun& lun = m_.luns[number];
  // With an error, or with a cut in the middle, it may have happened all the same.
  m_.model.forget(number, m_.tick());
  m_.ordered = false;
  Result<void> result;
  {
    const Blocked blocked(m_, traffic_, between_calls_, false);
    result = m_.journal->discard(lun.uuid);
  }
  if (!result) return;
  ++m_.tally.discards;
  lun.disk->sync_all();
  const auto& image = lun.disk->durable();
  for (uint64_t i = 0; i < m_.model.sectors(number); ++i) {
    m_.model.reset(number, i, image.data() + i * kSectorBytes, m_.tick());
  }
}

void Driver::close() {
  if (m_.journal == nullptr) return;
  const uint64_t asked = m_.tick();
  uint64_t set = 0;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    if (is_journaled(i)) set |= uint64_t{1} << i;
  }
  Result<void> result;
  {
    const Blocked blocked(m_, traffic_, between_calls_, false);
    result = m_.journal->close(std::chrono::hours(1000));
  }
  if (!result) {
    if (m_.log_faulted || m_.keeper_faulted) return;
    throw Violation{"close: " + result.error().message};
  }
  ++m_.tally.closes;
  // The tail waits for the records of LUNs that are not here: then those of others stay behind it too, and are
  // harmless.
  if (set == (uint64_t{1} << m_.luns.size()) - 1) closed_clean_ = set;
  for (size_t i = 0; i < m_.luns.size(); ++i) {
    if ((set >> i & 1) != 0) m_.judge_store(i, asked, kNever, "closed");
  }
}

}  // namespace zvolt::crash
