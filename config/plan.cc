// See plan.h. Steps of volumes are in plan_volumes.cc, of targets and portals in plan_luns.cc.
#include "config/plan.h"

#include <algorithm>

#include "config/plan_parts.h"

namespace zvolt::config {
namespace {

struct KindInfo {
  Step::Kind kind;
  const char* name;
  int rank;  // order of execution
};
// What cannot be done comes first, so that it is seen; then see plan.h.
constexpr KindInfo kKinds[] = {
    {Step::Kind::refuse, "refuse", 0},
    {Step::Kind::shrink_refused, "shrink_refused", 0},
    {Step::Kind::open_journal, "open_journal", 1},
    {Step::Kind::create_store, "create_store", 1},
    {Step::Kind::open, "open", 2},
    {Step::Kind::rename_volume, "rename_volume", 3},
    {Step::Kind::grow, "grow", 4},
    {Step::Kind::change, "change", 5},
    {Step::Kind::replace_unit, "replace_unit", 6},
    {Step::Kind::add_portal, "add_portal", 7},
    {Step::Kind::change_portal, "change_portal", 8},
    {Step::Kind::add_target, "add_target", 9},
    {Step::Kind::change_target, "change_target", 10},
    {Step::Kind::map_lun, "map_lun", 11},
    {Step::Kind::move_lun, "move_lun", 12},
    {Step::Kind::replace_lun, "replace_lun", 13},
    {Step::Kind::unmap_lun, "unmap_lun", 14},
    {Step::Kind::remove_target, "remove_target", 15},
    {Step::Kind::remove_portal, "remove_portal", 16},
    {Step::Kind::shrink, "shrink", 17},
    {Step::Kind::close, "close", 18},
    {Step::Kind::close_journal, "close_journal", 18},
    {Step::Kind::restart, "restart", 19},
    {Step::Kind::note, "note", 20},
};

const KindInfo& info(Step::Kind kind) {
  for (const KindInfo& known : kKinds)
    if (known.kind == kind) return known;
  return kKinds[std::size(kKinds) - 1];
}

// Only what is a LUN is opened.
std::vector<const Volume*> mapped_volumes(const Config& config) {
  std::set<std::string> names;
  for (const Target& target : config.targets)
    for (const Lun& lun : target.luns) names.insert(lun.volume);
  std::vector<const Volume*> out;
  for (const Volume& volume : config.volumes)
    if (names.contains(volume.name)) out.push_back(&volume);
  return out;
}

}  // namespace

std::string store_key(const Volume& volume) {
  switch (volume.kind) {
    case StoreKind::zvol:
      return "/dev/zvol/" + volume.path;
    case StoreKind::memory:
      return "memory:" + volume.name;
    case StoreKind::null:
      return "null:" + volume.name;
    case StoreKind::file:
    case StoreKind::device:
      break;
  }
  return volume.path;
}

const char* kind_name(Step::Kind kind) {
  return info(kind).name;
}

bool Plan::refused() const {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.refused(); });
}

bool Plan::destructive() const {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.destructive; });
}

bool Plan::nothing() const {
  return std::all_of(steps.begin(), steps.end(), [](const Step& step) { return step.kind == Step::Kind::note; });
}

std::vector<Session> Plan::sessions() const {
  std::vector<Session> out;
  for (const Step& step : steps)
    for (const Session& session : step.sessions)
      if (std::find(out.begin(), out.end(), session) == out.end()) out.push_back(session);
  return out;
}

PlanInput::PlanInput(const Config& running_config, const Config& wanted_config, const Facts& all_facts)
    : running(running_config), wanted(wanted_config), facts(all_facts) {
  start_ = running.listen.empty() && running.targets.empty() && running.volumes.empty();
  for (const Target& target : running.targets)
    for (const Lun& lun : target.luns) targets_of_[lun.volume].insert(target.name);
  match();
}

const VolumePair* PlanInput::find(const Index& index, const std::string& name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

std::string PlanInput::open_store(const Volume& old) const {
  const auto open = facts.open.find(old.name);
  return open == facts.open.end() || open->second.store.empty() ? store_key(old) : open->second.store;
}

void PlanInput::add(const Volume* old, const Volume* now, bool other_store) {
  VolumePair& pair = pairs_.emplace_back(VolumePair{old, now, other_store});
  if (now != nullptr) by_now_[now->name] = &pair;
  if (old != nullptr) by_old_[old->name] = &pair;
}

// First by the store that is open now, then by the one that the file names (the zvol was renamed, the file does not
// know yet), then by the name.
void PlanInput::match() {
  const std::vector<const Volume*> old = mapped_volumes(running);
  std::vector<const Volume*> now = mapped_volumes(wanted);
  std::set<const Volume*> taken;
  const auto pass = [&](const auto& key_of_old, const auto& key_of_now, bool other_store) {
    std::map<std::string, const Volume*> index;
    for (const Volume* volume : old)
      if (!taken.contains(volume)) index.emplace(key_of_old(*volume), volume);
    std::vector<const Volume*> left;
    for (const Volume* volume : now) {
      const auto found = index.find(key_of_now(*volume));
      if (found == index.end() || taken.contains(found->second)) {
        left.push_back(volume);
        continue;
      }
      taken.insert(found->second);
      add(found->second, volume, other_store);
    }
    now = std::move(left);
  };
  const auto name = [](const Volume& volume) { return volume.name; };
  pass([&](const Volume& volume) { return open_store(volume); }, store_key, false);
  pass(store_key, store_key, false);
  pass(name, name, true);
  for (const Volume* volume : now) add(nullptr, volume, false);
  for (const Volume* volume : old)
    if (!taken.contains(volume)) add(volume, nullptr, false);
}

std::vector<Session> PlanInput::sessions_of_target(const std::string& target) const {
  std::vector<Session> out;
  for (const Session& session : facts.sessions)
    if (session.target == target) out.push_back(session);
  return out;
}

std::vector<Session> PlanInput::sessions_of_volume(const std::string& name) const {
  const auto targets = targets_of_.find(name);
  std::vector<Session> out;
  if (targets == targets_of_.end()) return out;
  for (const Session& session : facts.sessions)
    if (targets->second.contains(session.target)) out.push_back(session);
  return out;
}

std::string lun_subject(const std::string& target, uint16_t lun) {
  return target + " LUN " + std::to_string(lun);
}

Plan make_plan(const Config& running, const Config& wanted, const Facts& facts) {
  const PlanInput in(running, wanted, facts);
  Plan plan;
  volume_steps(in, plan.steps);
  target_steps(in, plan.steps);
  journal_steps(in, plan.steps);
  daemon_steps(in, plan.steps);
  std::stable_sort(plan.steps.begin(), plan.steps.end(),
                   [](const Step& a, const Step& b) { return info(a.kind).rank < info(b.kind).rank; });
  return plan;
}

Config after_apply(const Config& running, const Config& wanted) {
  const Facts nothing;
  const PlanInput in(running, wanted, nothing);
  Config out = wanted;
  if (in.start()) return out;
  out.state_dir = running.state_dir;
  out.threads = running.threads;
  out.memory = running.memory;
  out.admin_socket = running.admin_socket;
  out.log_json = running.log_json;
  for (Journal& journal : out.journals)
    if (const Journal* old = running.journal(journal.name)) journal = *old;
  for (Volume& volume : out.volumes) {
    const VolumePair* pair = in.of_now(volume.name);
    if (pair == nullptr || pair->old == nullptr || pair->other_store) continue;
    volume.force = pair->old->force;
    if (store_key(*pair->old) != store_key(volume)) continue;
    volume.kind = pair->old->kind;
    volume.path = pair->old->path;
  }
  return out;
}

}  // namespace zvolt::config
