// See apply.h.
#include "target/daemon/apply.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "target/daemon/facts.h"
#include "target/daemon/final_flush.h"
#include "target/daemon/follow.h"
#include "target/daemon/journal_slot.h"
#include "target/daemon/logging.h"

namespace zvolt::daemon {
namespace {

using Kind = config::Step::Kind;
using Outcome = ApplyReport::Outcome;

constexpr std::chrono::milliseconds kCloseFlush{10'000};  // for the last flush of volumes that leave
constexpr std::chrono::milliseconds kCloseWait{5000};     // for their stores; what takes longer goes on by itself

std::string sentence(const config::Step& step) {
  return step.subject + ": " + step.text;
}

std::string refused_steps(const config::Plan& plan) {
  std::string out;
  for (const config::Step& step : plan.steps)
    if (step.refused()) out += (out.empty() ? "" : "; ") + sentence(step);
  return out;
}

// What a unit is made of and cannot change while it lives.
bool same_unit(const config::Volume& a, const config::Volume& b) {
  return a.block_size == b.block_size && a.physical_block_size == b.physical_block_size && a.uuid == b.uuid;
}

// Memory of another size is other memory.
bool can_stay(const OpenVolume& open, const config::Volume& wanted) {
  const bool memory = wanted.kind == config::StoreKind::memory || wanted.kind == config::StoreKind::null;
  return !memory || open.config.size == wanted.size;
}

// Which running volume serves which wanted one on, by wanted name: the one whose store it is now, else the one whose
// store it was by the configuration (a zvol that was renamed, and the file does not know). As config/plan.h pairs them.
std::map<std::string, const OpenVolume*> pair_up(const Composition& running, const config::Config& wanted) {
  std::map<std::string, const OpenVolume*> now, before, out;
  for (const OpenVolume& open : running.volumes) {
    now.emplace(store_of(open), &open);
    before.emplace(config::store_key(open.config), &open);
  }
  std::set<const OpenVolume*> taken;
  for (const auto* index : {&now, &before})
    for (const config::Volume* volume : used_volumes(wanted)) {
      const auto found = index->find(config::store_key(*volume));
      if (found == index->end() || out.contains(volume->name) || taken.contains(found->second)) continue;
      taken.insert(found->second);
      if (can_stay(*found->second, *volume)) out[volume->name] = found->second;
    }
  return out;
}

// What a store that was opened for reading cannot become, told as a step of the plan.
void refuse_writing(const std::map<std::string, const OpenVolume*>& kept, const config::Config& wanted,
                    config::Plan& plan) {
  for (const auto& [name, open] : kept) {
    const bool for_reading = open->config.read_only && !open->config.path.empty();
    if (!for_reading || wanted.volume(name)->read_only) continue;
    config::Step step;
    step.kind = Kind::refuse;
    step.subject = step.volume = name;
    step.what = "read_only";
    step.text =
        "it was opened for reading only and cannot become writable while it is open: take it out of the "
        "configuration and apply, then put it back";
    plan.steps.insert(plan.steps.begin(), std::move(step));
  }
}

}  // namespace

const char* outcome_name(ApplyReport::Outcome outcome) {
  switch (outcome) {
    case Outcome::planned:
      return "planned";
    case Outcome::refused:
      return "refused";
    case Outcome::done:
      return "done";
    case Outcome::partial:
      return "partial";
  }
  return "?";
}

struct Control::Change {
  std::shared_ptr<const Composition> running;
  config::Config wanted;
  ApplyReport report;
  std::map<std::string, const OpenVolume*> kept;  // by wanted name, in `running`
  VolumeSet::Opened opened;
  Composition next;
  std::vector<OpenVolume> leaving;

  void succeeded(const std::string& text) {
    spdlog::info("apply: {}", text);
    report.done.push_back(text);
  }
  void failed(const std::string& text) {
    spdlog::error("apply: {}", text);
    report.failed.push_back(text);
  }
};

Control::Control(Composition first, VolumeSet& set, iscsi::Server& server, config::LoadOptions load)
    : set_(set),
      server_(server),
      load_(load),
      main_file_(first.config.file),
      current_(std::make_shared<const Composition>(std::move(first))) {}

std::shared_ptr<const Composition> Control::current() const {
  std::scoped_lock lock(current_mutex_);
  return current_;
}

void Control::publish(Composition next) {
  auto shared = std::make_shared<const Composition>(std::move(next));
  std::scoped_lock lock(current_mutex_);
  current_.swap(shared);
}

ApplyReport Control::load_and_plan(const std::string& file, Change& change) {
  ApplyReport report;
  report.file = file.empty() ? main_file_ : file;
  auto loaded = config::load_file(report.file, load_);
  report.problems = std::move(loaded.problems);
  report.warnings = std::move(loaded.warnings);
  if (!report.problems.empty()) {
    report.error = report.file + " has errors; nothing was changed";
    return report;
  }
  change.running = current();
  change.wanted = std::move(loaded.config);
  const auto facts = gather_facts(*change.running, change.wanted, set_, server_.sessions());
  report.plan = config::make_plan(change.running->config, change.wanted, facts);
  change.kept = pair_up(*change.running, change.wanted);
  refuse_writing(change.kept, change.wanted, report.plan);
  report.outcome = Outcome::planned;
  if (report.plan.refused()) report.error = refused_steps(report.plan);
  return report;
}

ApplyReport Control::plan(const std::string& file) {
  Change change;
  ApplyReport report = load_and_plan(file, change);
  if (report.plan.refused()) report.outcome = Outcome::refused;
  return report;
}

// Those that were there before and cannot be opened stay as they are.
Result<void> Control::open_new_journals(Change& change) {
  static_cast<void>(set_.journals().open(change.wanted.journals));
  for (const JournalView& view : set_.journals().views())
    if (!view.open && change.running->config.journal(view.config.name) == nullptr)
      return Error{EIO, "journal " + view.config.name + ": " + view.problem};
  return {};
}

// Nothing that is served changes.
Result<void> Control::open_new(Change& change) {
  const auto logs = open_new_journals(change);
  if (!logs) return logs;
  auto opened = set_.open(used_volumes(change.wanted), change.kept);
  if (!opened) return opened.error();
  change.opened = std::move(*opened);
  return {};
}

// `next` leaves the journal it had (nothing changes when that cannot write it all back in time), and has a place for
// the one it gets, which live_changes() fills: its unit is another one by then.
Result<void> Control::change_journal(OpenVolume& next) {
  const auto left = set_.journals().detach(next, kDetachLimit);
  if (!left) return left;
  if (next.guard) next.guard->expect_journal(!next.config.journal.empty());
  if (next.config.journal.empty()) return {};
  make_slot(next, set_.closer());
  next.slot->clear();
  return {};
}

// A kept volume under its new configuration: its unit is made anew where it cannot be changed. The store stays.
Result<void> Control::remake(OpenVolume& next, const config::Volume& wanted, const Change& change) {
  const config::Volume before = std::exchange(next.config, wanted);
  bool same = same_unit(before, wanted);
  if (before.uuid != wanted.uuid) next.uuid = change.opened.identities.at(wanted.name).uuid;
  if (before.journal != wanted.journal) {
    const auto before_store = next.served();
    const auto changed = change_journal(next);
    if (!changed) return changed;
    same = same && next.served() == before_store;
  }
  if (before.faults != wanted.faults) {
    const auto changed = refit_faults(next, set_.closer());
    if (!changed) return changed;
    same = false;
  }
  if (same || !next.unit) return {};
  const auto old = std::exchange(next.unit, nullptr);
  if (!next.uuid) return {};
  auto unit = make_unit(next);
  if (!unit) return unit.error();
  // The server sees to that where both have one store.
  if (&(*unit)->store() != &old->store()) (*unit)->wait_for_end_of(*old);
  next.unit = std::move(*unit);
  return {};
}

// The composition that is to be served.
Result<void> Control::make_next(Change& change) {
  change.next.config = config::after_apply(change.running->config, change.wanted);
  std::map<std::string, OpenVolume> fresh;
  for (const OpenVolume& volume : change.opened.volumes) fresh.emplace(volume.config.name, volume);
  std::set<const OpenVolume*> staying;
  for (const config::Volume* volume : used_volumes(change.wanted)) {
    const auto kept = change.kept.find(volume->name);
    if (kept == change.kept.end()) {
      change.next.volumes.push_back(fresh.at(volume->name));
      continue;
    }
    OpenVolume next = *kept->second;
    staying.insert(kept->second);
    const auto remade = remake(next, *change.next.config.volume(volume->name), change);
    if (!remade) return remade;
    change.next.volumes.push_back(std::move(next));
  }
  for (const OpenVolume& volume : change.running->volumes)
    if (!staying.contains(&volume)) change.leaving.push_back(volume);
  return {};
}

Result<void> Control::switch_over(Change& change) {
  auto switched = server_.reconfigure({targets_of(change.next), portals_of(change.next.config)});
  if (!switched) return switched.error();
  for (const OpenVolume& volume : change.next.volumes)
    if (volume.unit) volume.health->set_unit(volume.unit);
  publish(change.next);
  for (const config::Step& step : change.report.plan.steps) switch (step.kind) {
      case Kind::grow:
      case Kind::shrink:
      case Kind::change:
      case Kind::close:
      case Kind::close_journal:
        break;
      case Kind::note:
      case Kind::restart:
        change.report.notes.push_back(sentence(step));
        break;
      default:
        change.succeeded(sentence(step));
    }
  if (switched->sessions_leaving > 0)
    change.succeeded(std::to_string(switched->sessions_leaving) + " sessions were asked to log out");
  return {};
}

Result<void> Control::resize_store(const OpenVolume& volume, uint64_t size, bool allow_shrink) {
  switch (volume.config.kind) {
    case config::StoreKind::file: {
      const auto resized = resize_file(volume.config.path, size);
      if (!resized) return resized;
      const auto seen = volume.store->refresh_size();
      return seen ? Result<void>() : seen.error();
    }
    case config::StoreKind::zvol: {
      const std::string name = volume.zvol->name();
      const auto resized = set_.zfs().set_volsize(name, size, allow_shrink);
      if (!resized) return resized.error();
      set_.catalog().forget(backing::pool_of(name));
      volume.followed->look();
      return {};
    }
    case config::StoreKind::device:
    case config::StoreKind::memory:
    case config::StoreKind::null:
      break;
  }
  return Error{ENOTSUP, "only files and zvols can be given another size"};
}

void Control::resize_steps(Change& change, Kind kind) {
  for (const config::Step& step : change.report.plan.steps) {
    if (step.kind != kind) continue;
    const OpenVolume* volume = change.next.volume(step.volume);
    const auto resized = volume != nullptr ? resize_store(*volume, step.size, kind == Kind::shrink)
                                           : Result<void>(Error{ENOENT, "it is not open"});
    if (resized)
      change.succeeded(sentence(step));
    else
      change.failed(sentence(step) + ": failed: " + resized.error().message);
  }
}

void Control::live_changes(Change& change) {
  for (const OpenVolume& volume : change.next.volumes) {
    if (!change.kept.contains(volume.config.name)) continue;
    set_.rewatch(volume);
    if (volume.zvol) volume.zvol->allow_sync_disabled(volume.config.sync == config::Sync::disabled);
    set_.journals().attach(volume);
    if (!volume.unit) continue;
    volume.unit->set_sync(sync_mode(volume.config.sync));
    volume.unit->set_read_only(volume.config.read_only);
    volume.unit->set_limit(rate_limit(volume.config.limit));
  }
  for (const config::Step& step : change.report.plan.steps) {
    if (step.kind != Kind::change) continue;
    const auto made = change_property(step, change.next.volume(step.volume));
    if (made)
      change.succeeded(sentence(step));
    else
      change.failed(sentence(step) + ": failed: " + made.error().message);
  }
}

// The part of a live change that no unit makes.
Result<void> Control::change_property(const config::Step& step, const OpenVolume* volume) {
  constexpr std::string_view kProperties = "provision.properties.";
  if (step.what == "log.level") set_log_level(step.to);
  if (volume == nullptr || !volume->zvol) return {};
  const std::string name = volume->zvol->name();
  if (step.what.starts_with(kProperties)) return set_.zfs().set(name, step.what.substr(kProperties.size()), step.to);
  if (step.what == "provision.sparse")
    return set_.zfs().set(name, "refreservation", volume->config.provision->sparse ? "none" : "auto");
  return {};
}

// What nobody serves any more: flushed, let go, and waited for a little, so that who comes next finds it free.
void Control::close_old(Change& change) {
  std::vector<OpenVolume> leaving = std::move(change.leaving);
  std::vector<std::string> names;
  for (const OpenVolume& volume : leaving) {
    const auto left = set_.journals().detach(volume, kDetachLimit);
    if (!left) change.failed("volume " + volume.config.name + ": " + left.error().message);
  }
  const FlushReport flushed = flush_all(leaving, kCloseFlush);
  for (const std::string& lost : flushed.lost) change.failed(lost);
  for (const OpenVolume& volume : leaving) {
    names.push_back(volume.config.name);
    set_.release(volume);
    volume.health->set_unit(nullptr);
    if (volume.unit) volume.unit->set_state(scsi::UnitState::removed);
  }
  leaving.clear();
  change.kept.clear();
  change.running.reset();
  change.opened.volumes.clear();
  for (const std::string& stays : set_.journals().keep_only(change.wanted.journals, kCloseFlush)) change.failed(stays);
  const auto open = set_.closer().wait_for(names, kCloseWait);
  for (const config::Step& step : change.report.plan.steps)
    if (step.kind == Kind::close || step.kind == Kind::close_journal) change.succeeded(sentence(step));
  for (const std::string& name : open)
    change.report.warnings.push_back({{change.report.file, 0, 0}, "volume " + name + ": its store is still closing"});
}

ApplyReport Control::apply(const std::string& file) {
  std::scoped_lock one(change_mutex_);
  Change change;
  change.report = load_and_plan(file, change);
  ApplyReport& report = change.report;
  const auto refuse = [&](const std::string& why) {
    report.outcome = Outcome::refused;
    report.error = why + (why.ends_with("nothing was changed") ? "" : "; nothing was changed");
    spdlog::error("apply of {}: {}", report.file, report.error);
    for (const config::Problem& problem : report.problems) spdlog::error("{}", problem.text());
    return report;
  };
  if (report.outcome != Outcome::planned || report.plan.refused()) return refuse(report.error);
  if (stopping_) return refuse("the daemon is ending");
  const auto opened = open_new(change);
  if (!opened) {
    set_.journals().keep_only(change.running->config.journals, kCloseFlush);
    return refuse(opened.error().message);
  }
  auto switched = make_next(change);
  if (switched) switched = switch_over(change);
  if (!switched) {
    change.next = {};
    const std::string stays = set_.abandon(std::move(change.opened));
    set_.journals().keep_only(change.running->config.journals, kCloseFlush);
    return refuse(switched.error().message + (stays.empty() ? "" : "; " + stays));
  }
  resize_steps(change, Kind::grow);
  live_changes(change);
  resize_steps(change, Kind::shrink);
  close_old(change);
  report.outcome = report.failed.empty() ? Outcome::done : Outcome::partial;
  spdlog::info("apply of {}: {}, {} steps done, {} failed", report.file, outcome_name(report.outcome),
               report.done.size(), report.failed.size());
  return report;
}

void Control::tell_differences() {
  const auto running = current();
  const auto facts = gather_facts(*running, running->config, set_, {});
  const auto plan = config::make_plan(running->config, running->config, facts);
  for (const config::Step& step : plan.steps) {
    if (step.kind == Kind::note)
      spdlog::info("{}", sentence(step));
    else
      spdlog::warn("{}: not done at a start, only by 'zvoltctl apply'", sentence(step));
  }
}

void Control::announce(const std::string& name) {
  std::scoped_lock one(change_mutex_);
  if (stopping_) return;
  const auto running = current();
  const OpenVolume* waiting = running->volume(name);
  if (waiting == nullptr || waiting->unit) return;
  auto identified = set_.identify_arrival(*waiting, running->volumes);
  waiting->health->set_note("identity", identified ? "" : "not announced to hosts: " + identified.error().message);
  if (!identified) return;
  Composition next = *running;
  for (OpenVolume& volume : next.volumes)
    if (volume.config.name == name) volume = *identified;
  const auto switched = server_.reconfigure({targets_of(next), portals_of(next.config)});
  if (!switched) {
    waiting->health->set_unit(nullptr);
    spdlog::error("volume {}: cannot be announced: {}", name, switched.error().message);
    return;
  }
  publish(std::move(next));
  spdlog::info("volume {}: is there, uuid {}, announced to hosts", name, uuid_text(*identified->uuid));
}

}  // namespace zvolt::daemon
