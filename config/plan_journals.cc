// Steps of journals: log devices that come, go or are edited, and volumes that get or leave one. See plan_parts.h.
#include "config/duration.h"
#include "config/plan_parts.h"
#include "config/size.h"

namespace zvolt::config {
namespace {

using Kind = Step::Kind;

Step& add(std::vector<Step>& steps, Kind kind, const std::string& name, std::string text) {
  Step& step = steps.emplace_back();
  step.kind = kind;
  step.subject = "journal " + name;
  step.text = std::move(text);
  return step;
}

std::string on_failure_text(OnJournalFailure policy) {
  return policy == OnJournalFailure::write_through ? "write_through" : "read_only";
}

// Any volume that is open uses it.
bool in_use(const PlanInput& in, const std::string& name) {
  for (const VolumePair& pair : in.pairs())
    if (pair.old != nullptr && pair.old->journal == name) return true;
  return false;
}

// What only the opening of a log reads.
void edited(const PlanInput& in, const Journal& old, const Journal& now, std::vector<Step>& steps) {
  const auto at_start = [&](const char* what, const std::string& from, const std::string& to) {
    if (from == to) return;
    Step& step = add(steps, Kind::restart, now.name,
                     std::string(what) + " becomes " + to + " (was " + from + ") at the next start");
    step.what = what;
    step.from = from;
    step.to = to;
  };
  if (old.path != now.path) {
    const bool used = in_use(in, now.name);
    Step& step = add(steps, used ? Kind::refuse : Kind::restart, now.name,
                     used ? "another path while volumes use it would leave their data behind: take 'journal' out of "
                            "them and apply, then change the path, restart, and put it back"
                          : "path becomes " + now.path + " (was " + old.path + ") at the next start");
    step.what = "path";
    step.from = old.path;
    step.to = now.path;
  }
  if (old.provision_size != now.provision_size)
    add(steps, Kind::note, now.name,
        "the size of a log that exists stays: to change it, take it out of the configuration, apply, format it anew");
  at_start("memory", readable_size(old.memory), readable_size(now.memory));
  at_start("max_dirty_age", format_duration(old.max_dirty_ms), format_duration(now.max_dirty_ms));
  at_start("on_failure", on_failure_text(old.on_failure), on_failure_text(now.on_failure));
  at_start("lun_quota", std::to_string(old.lun_quota), std::to_string(now.lun_quota));
}

}  // namespace

void journal_steps(const PlanInput& in, std::vector<Step>& steps) {
  for (const Journal& now : in.wanted.journals) {
    const Journal* old = in.running.journal(now.name);
    if (old == nullptr)
      add(steps, Kind::open_journal, now.name, now.path + " is opened as a log");
    else
      edited(in, *old, now, steps);
  }
  for (const Journal& old : in.running.journals)
    if (in.wanted.journal(old.name) == nullptr)
      add(steps, Kind::close_journal, old.name, old.path + " is closed; everything in it is in the stores by then");
}

void journal_of_kept(const PlanInput& in, const Volume& old, const Volume& now, std::vector<Step>& steps) {
  if (old.journal == now.journal) return;
  const auto users = in.sessions_of_volume(old.name);
  const bool leaves = now.journal.empty();
  Step& step = steps.emplace_back();
  step.kind = leaves ? Kind::change : users.empty() ? Kind::replace_unit : Kind::refuse;
  step.subject = step.volume = now.name;
  step.what = "journal";
  step.from = old.journal.empty() ? "none" : old.journal;
  step.to = leaves ? "none" : now.journal;
  step.sessions = users;
  if (leaves)
    step.text = "leaves journal " + old.journal + ": new writes wait until all that it holds is in the store";
  else if (users.empty())
    step.text = "journal becomes " + step.to + " (was " + step.from +
                "): the disk is taken down and comes back; no host uses it";
  else
    step.text = "journal " + step.from + " -> " + step.to +
                ": a disk gets a journal only while no host uses it; log them out, then apply again";
}

}  // namespace zvolt::config
