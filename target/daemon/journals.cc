// See journals.h.
#include "target/daemon/journals.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "target/daemon/faults.h"
#include "target/daemon/journal_log.h"
#include "target/daemon/journal_slot.h"

namespace zvolt::daemon {
namespace {

using backing::journal::Journal;
using backing::journal::JournaledStore;
using State = backing::journal::StateKeeper::State;
using std::chrono::milliseconds;

backing::journal::JournalOptions options_of(const config::Journal& config, std::shared_ptr<JournalKeeper> keeper) {
  backing::journal::JournalOptions options;
  options.memory_bytes = config.memory;
  options.lun_quota_percent = config.lun_quota;
  options.max_dirty_age = milliseconds(config.max_dirty_ms);
  options.on_failure = config.on_failure == config::OnJournalFailure::read_only
                           ? backing::journal::FailurePolicy::read_only
                           : backing::journal::FailurePolicy::write_through;
  options.keeper = std::move(keeper);
  options.report = [name = config.name](const std::string& text) { spdlog::warn("journal {}: {}", name, text); };
  return options;
}

void tell_replay(const config::Journal& config, const Journal& journal) {
  const auto& replayed = journal.replayed();
  spdlog::info("journal {}: {}, uuid {}, epoch {}, {} records of {} volumes to write back", config.name, config.path,
               uuid_text(journal.uuid()), journal.epoch(), replayed.records, replayed.luns.size());
}

Result<std::shared_ptr<OpenJournal>> open_journal(const config::Journal& config,
                                                  const std::shared_ptr<JournalKeeper>& keeper) {
  auto out = std::make_shared<OpenJournal>();
  out->config = config;
  auto log = open_log(config.path, config.provision_size);
  if (!log) return log.error();
  out->log = std::move(*log);
  const auto content = look_at_log(out->log);
  if (!content) return content.error();
  if (*content != LogContent::journal) {
    const auto formatted = format_log(out->log, false);
    if (!formatted) return formatted.error();
    spdlog::info("journal {}: made on {}", config.name, config.path);
  }
  if (!config.faults.empty()) {
    auto faulty = with_faults(out->log, config.faults);
    if (!faulty) return faulty.error();
    out->log = std::move(*faulty);
  }
  auto journal = Journal::open(out->log, options_of(config, keeper));
  if (!journal) return journal.error();
  out->journal = std::move(*journal);
  tell_replay(config, *out->journal);
  return out;
}

// Where sync=disabled a flush of a zvol answers and keeps nothing: then only a transaction group makes it durable. ZFS
// is asked each time, because the property may be set at any moment.
std::function<Result<void>()> made_durable(const OpenVolume& volume, const backing::Zfs& zfs) {
  if (!volume.zvol) return {};
  return [zvol = volume.zvol, zfs]() -> Result<void> {
    const std::string name = zvol->name();
    const auto properties = zfs.get(name);
    if (!properties) return properties.error();
    if (!*properties) return Error{ENOENT, "there is no zvol " + name};
    return (*properties)->sync == "disabled" ? zfs.sync_pool(backing::pool_of(name)) : Result<void>();
  };
}

bool is_there(const OpenVolume& volume) {
  return !volume.followed || volume.followed->report().presence == backing::Presence::present;
}

// By the journal that they are in: those that are in one.
using ByJournal = std::map<std::shared_ptr<OpenJournal>, std::vector<std::shared_ptr<JournaledStore>>>;
ByJournal by_journal(const std::vector<OpenVolume>& volumes) {
  ByJournal out;
  for (const OpenVolume& volume : volumes) {
    if (!volume.slot) continue;
    if (auto store = volume.slot->journaled()) out[volume.slot->journal()].push_back(std::move(store));
  }
  return out;
}

std::vector<JournaledStore*> pointers(const std::vector<std::shared_ptr<JournaledStore>>& stores) {
  std::vector<JournaledStore*> out;
  for (const auto& store : stores) out.push_back(store.get());
  return out;
}

}  // namespace

Journals::Journals(const StateDir& state, const backing::Zfs& zfs)
    : zfs_(zfs), keeper_(std::make_shared<JournalKeeper>(state, zfs)) {}

Result<void> Journals::open(const std::vector<config::Journal>& wanted) {
  Result<void> result;
  for (const config::Journal& config : wanted) {
    std::string problem;
    if (find(config.name, problem)) continue;
    const auto opened = open_journal(config, keeper_);
    JournalView view{config, opened ? *opened : nullptr, opened ? "" : opened.error().message};
    if (!opened && view.problem != problem) spdlog::error("journal {}: {}", config.name, view.problem);
    if (!opened && result) result = Error{opened.error().code, "journal " + config.name + ": " + view.problem};
    const std::scoped_lock lock(mutex_);
    std::erase_if(journals_, [&](const JournalView& other) { return other.config.name == config.name; });
    journals_.push_back(std::move(view));
  }
  return result;
}

std::vector<std::string> Journals::keep_only(const std::vector<config::Journal>& wanted, milliseconds limit) {
  std::vector<JournalView> gone;
  {
    const std::scoped_lock lock(mutex_);
    const auto goes = [&](const JournalView& view) {
      return std::none_of(wanted.begin(), wanted.end(), [&](const auto& w) { return w.name == view.config.name; });
    };
    std::copy_if(journals_.begin(), journals_.end(), std::back_inserter(gone), goes);
    std::erase_if(journals_, goes);
  }
  std::vector<std::string> stays;
  for (const JournalView& view : gone) {
    if (!view.open) continue;
    const auto closed = view.open->journal->close(limit);
    if (!closed) stays.push_back("journal " + view.config.name + ": " + closed.error().message);
  }
  return stays;
}

std::shared_ptr<OpenJournal> Journals::find(const std::string& name, std::string& problem) const {
  const std::scoped_lock lock(mutex_);
  for (const JournalView& view : journals_) {
    if (view.config.name != name) continue;
    problem = view.problem;
    return view.open;
  }
  return nullptr;
}

bool Journals::wants_attach(const OpenVolume& volume) const {
  return volume.uuid && volume.slot && volume.slot->empty() && is_there(volume);
}

void Journals::attach(const OpenVolume& volume) {
  if (!volume.uuid) return;
  if (volume.zvol) keeper_->set_dataset(*volume.uuid, volume.zvol->name());
  // One that was bypassed stays so: what hosts have in flight to its store may end after a newer record is written
  // back.
  if (volume.slot && !volume.slot->empty()) return;
  if (volume.slot && !is_there(volume)) return volume.health->hold_back("its journal waits for its device");
  if (!volume.slot) {
    // A zvol that comes is looked at by its guard, with the properties at hand.
    if (!volume.zvol) without_journal(volume, nullptr, {});
    return;
  }
  std::string problem;
  if (const auto journal = find(volume.config.journal, problem)) return attach_to(volume, journal);
  config::Journal config;
  for (const JournalView& view : views())
    if (view.config.name == volume.config.journal) config = view.config;
  without_journal(volume, &config, problem);
}

// The records of an earlier life belong to the contents that the zvol had then. After a rollback or a receive into it
// they would be written over other contents. Asked before anything is recorded: the history is searched from the state
// that stands there.
Result<void> Journals::check_contents(const OpenVolume& volume, const Journal& journal) {
  if (!volume.zvol) return {};
  const auto state = keeper_->load(*volume.uuid);
  if (!state) return state.error();
  if (!*state || (*state)->state != State::dirty || (*state)->journal != journal.uuid()) return {};
  const std::string text = journal_state_text(**state);
  Replaced& known = replaced_[*volume.uuid];
  if (known.state != text) {
    const auto replaced = zfs_.contents_replaced(volume.zvol->name(), backing::kJournalProperty, text);
    if (!replaced && replaced.error().code != ENOENT) return replaced.error();
    known = {text, replaced ? *replaced : replaced.error().message};
  }
  if (known.why.empty()) return {};
  return Error{EUCLEAN, "its journal has newer data, but of other contents: " + known.why +
                            "; 'zvoltctl journal discard --lun " + volume.config.name +
                            "' gives the journal's data up, 'zvoltctl journal replay' writes it all the same"};
}

void Journals::attach_to(const OpenVolume& volume, const std::shared_ptr<OpenJournal>& journal) {
  const auto fits = check_contents(volume, *journal->journal);
  if (!fits) return volume.health->hold_back(fits.error().message);
  const auto lent = volume.slot->lend();
  auto attached = journal->journal->attach({.uuid = *volume.uuid,
                                            .name = volume.config.name,
                                            .store = lent,
                                            .admit_replay = {},
                                            .made_durable = made_durable(volume, zfs_)});
  if (!attached) return volume.health->hold_back(attached.error().message);
  volume.slot->attach(journal, std::move(*attached));
  if (volume.unit) volume.unit->store_changed();
  volume.health->hold_back("");
}

// `journal` null: the volume has none by its configuration.
void Journals::without_journal(const OpenVolume& volume, const config::Journal* journal, const std::string& problem) {
  const auto state = keeper_->load(*volume.uuid);
  if (!state)
    return volume.health->hold_back("whether a journal has data of it cannot be told: " + state.error().message);
  if (*state && (*state)->state == State::dirty)
    return volume.health->hold_back("its newest data is in journal " + uuid_text((*state)->journal) +
                                    (journal == nullptr ? ", and the configuration names none: put 'journal' back"
                                                        : ", which cannot be used (" + problem + ")") +
                                    "; 'zvoltctl journal discard --lun " + volume.config.name + "' gives that data up");
  if (journal == nullptr) return volume.health->hold_back("");
  const std::string away = "journal " + journal->name + " cannot be used (" + problem + ")";
  if (journal->on_failure == config::OnJournalFailure::read_only) return volume.health->hold_back(away);
  if (*state && (*state)->state != State::detached) {  // should it come back: it is older than the store
    JournalState entry = **state;
    entry.state = State::detached;
    const auto saved = keeper_->save(entry);
    if (!saved) return volume.health->hold_back(away + ", and that cannot be recorded: " + saved.error().message);
  }
  volume.slot->bypass();
  volume.health->set_note("journal", away + ": writes go to the store until the next start with the journal there");
  volume.health->hold_back("");
}

Result<void> Journals::detach(const OpenVolume& volume, milliseconds limit) {
  const auto store = volume.slot ? volume.slot->journaled() : nullptr;
  if (store) {
    auto left = volume.slot->journal()->journal->detach(*store, limit);
    if (!left) return left;
  }
  // Nothing of it is in a journal. One that was never attached stays as its health says.
  if (volume.slot && (store || !volume.slot->empty())) volume.slot->bypass();
  return {};
}

Result<void> Journals::drain(const std::vector<OpenVolume>& volumes, milliseconds limit) {
  for (const auto& [journal, stores] : by_journal(volumes)) {
    const auto list = pointers(stores);
    auto drained = journal->journal->drain(list, limit);
    if (!drained) return drained;
  }
  return {};
}

Result<void> Journals::quiesce(const std::vector<OpenVolume>& volumes, milliseconds limit,
                               const std::function<Result<void>()>& run) {
  const ByJournal groups = by_journal(volumes);
  // Each within the one before it, so that all are held when `run` runs.
  const std::function<Result<void>(ByJournal::const_iterator)> from = [&](ByJournal::const_iterator at) {
    if (at == groups.end()) return run();
    const auto list = pointers(at->second);
    return at->first->journal->quiesce(list, limit, [&] { return from(std::next(at)); });
  };
  return from(groups.begin());
}

Result<void> Journals::discard(const OpenVolume& volume) {
  if (!volume.uuid) return Error{ENOENT, "it has no identity yet"};
  if (volume.slot && volume.slot->journaled()) return Error{EBUSY, "it is served through its journal: nothing is lost"};
  if (volume.zvol) keeper_->set_dataset(*volume.uuid, volume.zvol->name());
  const auto state = keeper_->load(*volume.uuid);
  if (!state) return state.error();
  for (const JournalView& view : views()) {
    if (!view.open) continue;
    auto voided = view.open->journal->discard(*volume.uuid);
    if (!voided) return voided;
  }
  if (!*state) return {};
  JournalState entry = **state;
  entry.state = State::detached;
  spdlog::warn("volume {}: what journal {} holds of it is given up by the operator", volume.config.name,
               uuid_text(entry.journal));
  return keeper_->save(entry);
}

Journals::Closed Journals::close(milliseconds limit) {
  Closed out;
  for (const JournalView& view : views()) {
    if (!view.open) continue;
    const auto closed = view.open->journal->close(limit);
    if (closed) continue;
    out.stays.push_back("journal " + view.config.name + ": " + closed.error().message +
                        "; what was acknowledged is kept in " + view.config.path +
                        " and is written back at the next start");
    out.stuck = true;
  }
  return out;
}

void Journals::let_go() {
  const std::scoped_lock lock(mutex_);
  journals_.clear();
}

std::vector<JournalView> Journals::views() const {
  const std::scoped_lock lock(mutex_);
  return journals_;
}

}  // namespace zvolt::daemon
