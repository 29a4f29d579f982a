// Control: changes of what the daemon serves while it serves: plan, apply (SIGHUP is the same), a zvol that was never
// seen and is there now, and what the operator does by hand to one volume. Called on worker threads; blocks. Changes
// are made one after the other; current() never waits for one.
//
// Apply, in this order: load the file; plan; make and open what is new; bind portals and switch targets and LUN maps
// (Server::reconfigure); grow; live changes; shrink; close what nobody serves any more. Until the switch nothing has
// changed for anybody, and whatever fails undoes what was opened. After it the new configuration holds; steps that fail
// then (a zvol that does not grow) are named one by one, and the next plan shows them again.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/loader.h"
#include "config/plan.h"
#include "target/daemon/composition.h"
#include "target/server.h"

namespace zvolt::daemon {

// How an apply, or only its plan, went.
struct ApplyReport {
  enum class Outcome : uint8_t {
    planned,  // only looked
    refused,  // nothing has changed: `error`, `problems` or refused steps say why
    done,     // everything, or there was nothing to do
    partial,  // the new configuration holds, but for what `failed` says
  };
  Outcome outcome = Outcome::refused;
  std::string file;
  std::string error;
  std::vector<config::Problem> problems, warnings;  // of the file
  config::Plan plan;
  std::vector<std::string> done, failed, notes;  // sentences
  bool ok() const { return outcome == Outcome::planned || outcome == Outcome::done; }
};
const char* outcome_name(ApplyReport::Outcome outcome);

// What became of one volume that the operator did something to.
struct VolumeReport {
  std::string volume;
  std::string error;  // empty: it was done
  std::string text;   // what stands now
  unsigned status = 200;
};

// By its name, or as a mapping: "iqn.2026-11.org.example:a/3".
const OpenVolume* find_volume(const Composition& composition, const std::string& text);

class Control {
 public:
  // All must outlive this object. `server` has the targets of `first`.
  Control(Composition first, VolumeSet& set, iscsi::Server& server, config::LoadOptions load);

  std::shared_ptr<const Composition> current() const;
  // `file` empty: the one that the daemon was started with.
  ApplyReport plan(const std::string& file);
  ApplyReport apply(const std::string& file);
  // After the start: says where the stores are not what the file asks for. A start changes nothing that exists.
  void tell_differences();

  // A volume without a unit is there: it gets its identity and becomes a LUN.
  void announce(const std::string& name);

  // `volume`: its name, or "TARGET/LUN".
  VolumeReport set_offline(const std::string& volume, bool offline);
  // Looks at its size once more; with `size` other than 0 it is grown first.
  VolumeReport resize(const std::string& volume, uint64_t size);

  // --- journals (journal_orders.cc) ---
  Journals& journals() const { return set_.journals(); }
  // Opens what could not be opened, attaches what waits for it. journals_wait(): there is something to do; any thread.
  void tend_journals();
  bool journals_wait() const;
  // Everything that was acknowledged is in the store, flushed.
  VolumeReport flush(const std::string& volume);
  // Gives up what a journal holds for a volume that is not served because of it, and serves it.
  VolumeReport discard(const std::string& volume);
  // Holds all writes of these volumes from one instant on, brings their stores up to date and runs `run`, which keeps
  // to a limit of its own. Not run when they do not come to rest within seconds.
  VolumeReport freeze(const std::vector<std::string>& names, const std::function<Result<void>()>& run);

  // False once stop() was called: a change that has not begun is refused. Waits for none.
  void stop() { stopping_ = true; }

 private:
  struct Change;  // one apply on its way
  ApplyReport load_and_plan(const std::string& file, Change& change);
  Result<void> open_new_journals(Change& change);
  Result<void> open_new(Change& change);
  Result<void> change_journal(OpenVolume& next);
  Result<void> make_next(Change& change);
  Result<void> switch_over(Change& change);
  void resize_steps(Change& change, config::Step::Kind kind);
  void live_changes(Change& change);
  Result<void> remake(OpenVolume& next, const config::Volume& wanted, const Change& change);
  Result<void> change_property(const config::Step& step, const OpenVolume* volume);
  void close_old(Change& change);
  void publish(Composition next);
  Result<void> freeze_volumes(const std::vector<OpenVolume>& volumes, const std::function<Result<void>()>& run);
  Result<void> resize_store(const OpenVolume& volume, uint64_t size, bool allow_shrink);

  VolumeSet& set_;
  iscsi::Server& server_;
  const config::LoadOptions load_;
  const std::string main_file_;
  std::atomic<bool> stopping_{false};
  std::mutex change_mutex_;  // one change at a time
  mutable std::mutex current_mutex_;
  std::shared_ptr<const Composition> current_;
};

}  // namespace zvolt::daemon
