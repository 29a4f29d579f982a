// The fixture of tests of a daemon with a journal: a log in a file, volumes in files behind it, and stores that lose
// what was not flushed when the daemon is killed.
#pragma once

#include <string>

#include "tests/integration/controlled_daemon.h"

namespace zvolt::test {

class JournalledDaemon : public ControlledDaemon {
 protected:
  void SetUp() override { daemon_.config().arguments = {"--test-stores"}; }

  // kill -9 is then a power cut for the store or log.
  static constexpr const char* kLosesUnflushed = ", faults: [ { action: lose_unflushed } ]";
  // Nothing gets into the store: everything stays in the journal.
  static constexpr const char* kStalled = ", faults: [ { op: write, action: stall } ]";

  void set_journal(const std::string& more = "") {
    daemon_.config().more_yaml =
        "journals: { slog: { path: " + log_path() + ", provision: { size: 32MiB }, memory: 16MiB" + more + " } }\n";
  }
  std::string log_path() const { return path("slog.log"); }
  std::string journalled_lun(int number, const std::string& name, const std::string& more = "") const {
    return "{ lun: " + std::to_string(number) + ", name: " + name + ", file: " + path(name + ".img") +
           ", provision: { size: 16MiB }, journal: slog" + more + " }";
  }
  nlohmann::json journal() const {
    const auto all = asked({"journal"});
    return all.empty() ? nlohmann::json::object() : all[0];
  }
  nlohmann::json journal_of(const std::string& volume) const { return lun(volume).value("journal", nlohmann::json()); }
  std::string mode_of(const std::string& volume) const {
    const auto found = journal_of(volume);
    return found.is_object() ? found.value("mode", "") : "none";
  }
};

}  // namespace zvolt::test
