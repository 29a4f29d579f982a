// JournalKeeper: which volume's newest data is in which journal, kept outside the journals: in the state directory
// (journal-state.json), and for a zvol in its ZFS property org.zvolt:journal too, which travels with the pool and
// counts where it can be read. Called by journals (attach, detach, failure: on their threads) and by the volume set.
// Blocks. Design section 7, "State outside the ring".
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backing/journal/journal.h"
#include "backing/zfs/zfs.h"
#include "target/daemon/state_dir.h"

namespace zvolt::daemon {

using JournalState = backing::journal::StateKeeper::Entry;

// "JOURNAL-UUID,EPOCH,STATE": the value of the property. Nothing: it says something else.
std::string journal_state_text(const JournalState& entry);
std::optional<JournalState> parse_journal_state(const backing::journal::Uuid& lun, const std::string& text);
const char* journal_state_name(backing::journal::StateKeeper::State state);

class JournalKeeper final : public backing::journal::StateKeeper {
 public:
  JournalKeeper(const StateDir& state, backing::Zfs zfs) : state_(state), zfs_(std::move(zfs)) {}

  // The dataset of a volume that is a zvol, before load() or save() of it; called again when it is renamed.
  void set_dataset(const backing::journal::Uuid& lun, const std::string& dataset);

  // EPROTO: what is kept cannot be understood, and nothing may be concluded from it.
  Result<std::optional<Entry>> load(const backing::journal::Uuid& lun) override;
  Result<void> save(const Entry& entry) override;

 private:
  Result<std::map<std::string, std::string>> read_all() const;
  std::string dataset_of(const backing::journal::Uuid& lun) const;

  const StateDir& state_;
  const backing::Zfs zfs_;
  mutable std::mutex datasets_mutex_;
  std::map<backing::journal::Uuid, std::string> datasets_;
  std::mutex file_mutex_;  // one read-change-replace of the file at a time
};

}  // namespace zvolt::daemon
