// Journals: the log devices of a configuration, and which volumes write to them. Owned by the volume set; called at
// start, by apply and by orders of the operator, on threads that may block, one call at a time but for status().
//
// A journal that cannot be opened is no error of the start: its volumes say so. A volume whose newest data is in a
// journal that is not there is not served until the journal is, or until the operator gives that data up (discard); one
// with nothing in it follows the journal's `on_failure`. Both are looked at again every few seconds.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/fault_store.h"
#include "backing/journal/journal.h"
#include "config/model.h"
#include "target/daemon/journal_keeper.h"
#include "target/daemon/volume.h"

namespace zvolt::daemon {

inline constexpr std::chrono::milliseconds kDetachLimit{
    30'000};  // what a journal holds of one volume goes to its store

struct OpenJournal {
  config::Journal config;
  std::shared_ptr<backing::BlockStore> log;
  std::unique_ptr<backing::journal::Journal> journal;
};

// One journal as status tells it.
struct JournalView {
  config::Journal config;
  std::shared_ptr<OpenJournal> open;  // null: `problem` says why
  std::string problem;
};

class Journals {
 public:
  Journals(const StateDir& state, const backing::Zfs& zfs);

  // Opens those that are not. The first that could not be, for an apply; a start goes on without it.
  Result<void> open(const std::vector<config::Journal>& wanted);
  // Lets go of those that `wanted` does not have. What could not be written back stays in them; said in the result.
  std::vector<std::string> keep_only(const std::vector<config::Journal>& wanted, std::chrono::milliseconds limit);

  // The volume's store becomes what it is to be (its slot is filled), or its health says why not. Nothing to do when it
  // is that already, or its device is not there yet.
  void attach(const OpenVolume& volume);
  // True: attach() has something to do that it could not do before.
  bool wants_attach(const OpenVolume& volume) const;
  // Waits until all that the journal has of it is in its store; its writes go there from then on.
  Result<void> detach(const OpenVolume& volume, std::chrono::milliseconds limit);

  // Everything of these volumes that was acknowledged is in their stores.
  Result<void> drain(const std::vector<OpenVolume>& volumes, std::chrono::milliseconds limit);
  // Holds the writes of all these volumes (those with a journal), brings their stores up to date, runs `run`.
  Result<void> quiesce(const std::vector<OpenVolume>& volumes, std::chrono::milliseconds limit,
                       const std::function<Result<void>()>& run);
  // Gives up what a journal holds for a volume that is not served because of it.
  Result<void> discard(const OpenVolume& volume);

  // The end: everything is written back and the journals are marked clean. What stays in them, in sentences.
  struct Closed {
    std::vector<std::string> stays;
    bool stuck = false;  // write-back still runs: nothing of it may be destroyed
  };
  Closed close(std::chrono::milliseconds limit);

  // After close(), when nothing is served any more.
  void let_go();

  std::vector<JournalView> views() const;

 private:
  std::shared_ptr<OpenJournal> find(const std::string& name, std::string& problem) const;
  Result<void> check_contents(const OpenVolume& volume, const backing::journal::Journal& journal);
  void attach_to(const OpenVolume& volume, const std::shared_ptr<OpenJournal>& journal);
  void without_journal(const OpenVolume& volume, const config::Journal* journal, const std::string& problem);

  const backing::Zfs zfs_;
  std::shared_ptr<JournalKeeper> keeper_;
  // What a pool's history said of a zvol's contents, so that it is not read again every few seconds.
  struct Replaced {
    std::string state;  // in which it was asked, as text
    std::string why;    // empty: nothing happened to them
  };
  std::map<backing::journal::Uuid, Replaced> replaced_;
  mutable std::mutex mutex_;  // guards journals_
  std::vector<JournalView> journals_;
};

}  // namespace zvolt::daemon
