// CrashKeeper: the StateKeeper of a simulated machine: what it saved is durable. A save that fails may have been kept
// all the same, as with a file whose fsync fails; the power may go before or after one. One thread.
#pragma once

#include <cerrno>
#include <map>
#include <string>

#include "backing/journal/journal.h"
#include "tests/crash/power.h"
#include "tests/crash/random.h"

namespace zvolt::crash {

class CrashKeeper final : public backing::journal::StateKeeper {
 public:
  CrashKeeper(Power& power, Rng& rng) : power_(power), rng_(rng) {}

  Result<std::optional<Entry>> load(const backing::journal::Uuid& lun) override {
    const auto it = entries.find(lun);
    return it == entries.end() ? std::optional<Entry>() : std::optional<Entry>(it->second);
  }
  Result<void> save(const Entry& entry) override {
    power_.tick();
    const bool cut = power_.due();
    if (broken || cut) {
      const bool kept = rng_.one_in(2);
      if (kept) keep(entry);
      if (Power::trace)
        Power::tell(std::string("  keeper fails, and has ") + (kept ? "kept " : "not kept ") + name(entry));
      if (cut) power_.cut();
      return Error{EIO, "no state can be kept"};
    }
    keep(entry);
    if (Power::trace) Power::tell("  keeper: " + name(entry));
    return {};
  }

  std::map<backing::journal::Uuid, Entry> entries;
  bool broken = false;
  bool forgets_leaving = false;  // a planted fault: says that it kept `detached`, and did not

 private:
  static std::string name(const Entry& entry) {
    constexpr const char* kStates[] = {"attached", "dirty", "detached"};
    return kStates[static_cast<size_t>(entry.state)] + (" in epoch " + std::to_string(entry.epoch));
  }
  void keep(const Entry& entry) {
    if (forgets_leaving && entry.state == State::detached) return;
    entries[entry.lun] = entry;
  }
  Power& power_;
  Rng& rng_;
};

}  // namespace zvolt::crash
