// Steps of targets, LUN maps, portals, and of what only a start reads. See plan_parts.h.
#include <algorithm>
#include <cctype>

#include "config/plan_parts.h"
#include "config/size.h"

namespace zvolt::config {
namespace {

using Kind = Step::Kind;
using Luns = std::map<uint16_t, const Lun*>;

Luns by_number(const Target& target) {
  Luns out;
  for (const Lun& lun : target.luns) out.emplace(lun.number, &lun);
  return out;
}

const Lun* find(const Luns& luns, uint16_t number) {
  const auto found = luns.find(number);
  return found == luns.end() ? nullptr : found->second;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// As logins are checked: no pattern at all lets everybody in, a '*' at the end matches the rest.
bool may_log_in(const Target& target, const Session& session) {
  const bool in_group = session.group == 0 || target.groups.empty() ||
                        std::find(target.groups.begin(), target.groups.end(), session.group) != target.groups.end();
  if (!in_group || target.initiators.empty()) return in_group;
  const std::string initiator = lower(session.initiator);
  return std::any_of(target.initiators.begin(), target.initiators.end(), [&](const std::string& as_written) {
    const std::string pattern = lower(as_written);
    if (pattern.ends_with('*')) return initiator.starts_with(pattern.substr(0, pattern.size() - 1));
    return initiator == pattern;
  });
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "any" : out;
}

std::string listed(const std::vector<uint16_t>& numbers) {
  std::vector<std::string> words;
  for (const uint16_t n : numbers) words.push_back(std::to_string(n));
  return words.empty() ? "all" : listed(words);
}

std::string counted(size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

class TargetSteps {
 public:
  TargetSteps(const PlanInput& in, std::vector<Step>& steps) : in_(in), steps_(steps) {}

  void run() {
    std::map<std::string, const Target*> old, now;
    for (const Target& target : in_.running.targets) old[target.name] = &target;
    for (const Target& target : in_.wanted.targets) now[target.name] = &target;
    for (const Target& target : in_.wanted.targets) {
      const auto before = old.find(target.name);
      if (before == old.end()) {
        add(Kind::add_target, target.name, "is offered with " + counted(target.luns.size(), "LUN", "LUNs"));
      } else {
        changes(*before->second, target);
        luns(*before->second, target);
      }
    }
    for (const Target& target : in_.running.targets)
      if (!now.contains(target.name)) remove(target);
  }

 private:
  Step& add(Kind kind, const std::string& target, std::string text) {
    Step& step = steps_.emplace_back();
    step.kind = kind;
    step.subject = step.target = target;
    step.text = std::move(text);
    return step;
  }

  void remove(const Target& target) {
    Step& step = add(Kind::remove_target, target.name, "is no longer offered; its stores are kept");
    step.sessions = in_.sessions_of_target(target.name);
    step.ends_sessions = !step.sessions.empty();
    if (step.ends_sessions) step.text += "; hosts that are logged in are logged out";
  }

  void changes(const Target& old, const Target& now) {
    if (old.alias != now.alias) change(now, "alias", old.alias, now.alias);
    if (old.allow_any != now.allow_any)
      change(now, "allow_any", old.allow_any ? "true" : "false", now.allow_any ? "true" : "false");
    if (old.groups != now.groups) access(now, "groups", listed(old.groups), listed(now.groups));
    if (old.initiators != now.initiators) access(now, "initiators", listed(old.initiators), listed(now.initiators));
  }

  Step& change(const Target& now, const char* what, const std::string& from, const std::string& to) {
    Step& step = add(
        Kind::change_target, now.name,
        std::string(what) + " becomes " + (to.empty() ? "empty" : to) + (from.empty() ? "" : " (was " + from + ")"));
    step.what = what;
    step.from = from;
    step.to = to;
    return step;
  }

  // Who may log in: those who may no longer are logged out.
  void access(const Target& now, const char* what, const std::string& from, const std::string& to) {
    Step& step = change(now, what, from, to);
    for (const Session& session : in_.sessions_of_target(now.name))
      if (!may_log_in(now, session)) step.sessions.push_back(session);
    step.ends_sessions = !step.sessions.empty();
    if (step.ends_sessions) step.text += "; hosts that may no longer log in are logged out";
  }

  Step& lun_step(Kind kind, const Target& target, const Lun& lun, std::string text) {
    Step& step = add(kind, target.name, std::move(text));
    step.subject = lun_subject(target.name, lun.number);
    step.lun = lun.number;
    step.volume = lun.volume;
    step.sessions = in_.sessions_of_target(target.name);
    return step;
  }

  // Hosts see one and the same disk.
  bool same_disk(const Lun& old, const Lun& now) const {
    const VolumePair* pair = in_.of_now(now.volume);
    return pair != nullptr && pair == in_.of_old(old.volume) && !pair->other_store;
  }

  void luns(const Target& old_target, const Target& now_target) {
    const Luns old = by_number(old_target), now = by_number(now_target);
    std::set<uint16_t> moved;  // old numbers
    for (const auto& [number, lun] : now) {
      const Lun* before = find(old, number);
      if (before == nullptr) {
        added(now_target, *lun, old, now, moved);
        continue;
      }
      if (!same_disk(*before, *lun)) replaced(now_target, *before, *lun);
      if (same_disk(*before, *lun) && before->read_only != lun->read_only) read_only(now_target, *lun);
    }
    for (const auto& [number, lun] : old)
      if (find(now, number) == nullptr && !moved.contains(number))
        lun_step(Kind::unmap_lun, now_target, *lun, lun->volume + " is taken away from its hosts; its store is kept");
  }

  // A number that was free. The disk may come from another number, which is then free.
  void added(const Target& target, const Lun& lun, const Luns& old, const Luns& now, std::set<uint16_t>& moved) {
    for (const auto& [number, before] : old) {
      if (!same_disk(*before, lun) || find(now, number) != nullptr) continue;
      moved.insert(number);
      Step& step = lun_step(Kind::move_lun, target, lun,
                            lun.volume + " moves here from LUN " + std::to_string(number) +
                                (before->read_only == lun.read_only
                                     ? ""
                                     : (lun.read_only ? ", read-only from now on" : ", writable from now on")));
      step.from = std::to_string(number);
      step.to = std::to_string(lun.number);
      return;
    }
    lun_step(Kind::map_lun, target, lun, lun.volume + " is added" + (lun.read_only ? ", read-only" : ""));
  }

  void replaced(const Target& target, const Lun& before, const Lun& lun) {
    const bool one_name = before.volume == lun.volume;
    Step& step = lun_step(
        Kind::replace_lun, target, lun,
        (one_name ? lun.volume + " is another store now" : lun.volume + " takes the place of " + before.volume) +
            "; commands that run are ended and hosts see another disk");
    step.from = before.volume;
    step.to = lun.volume;
  }

  void read_only(const Target& target, const Lun& lun) {
    Step& step = lun_step(
        Kind::change, target, lun,
        lun.volume + (lun.read_only ? " is read-only for its hosts from now on" : " is writable for its hosts again"));
    step.what = "read_only";
    step.from = lun.read_only ? "false" : "true";
    step.to = lun.read_only ? "true" : "false";
  }

  const PlanInput& in_;
  std::vector<Step>& steps_;
};

std::string portal_name(const Listen& listen) {
  const bool v6 = listen.address.find(':') != std::string::npos;
  return (v6 ? "[" + listen.address + "]" : listen.address) + ":" + std::to_string(listen.port);
}

void portal_steps(const PlanInput& in, std::vector<Step>& steps) {
  std::map<std::string, const Listen*> old, now;
  for (const Listen& listen : in.running.listen) old[portal_name(listen)] = &listen;
  for (const Listen& listen : in.wanted.listen) now[portal_name(listen)] = &listen;
  const auto add = [&](Kind kind, const std::string& portal, std::string text) -> Step& {
    Step& step = steps.emplace_back();
    step.kind = kind;
    step.subject = portal;
    step.text = std::move(text);
    return step;
  };
  for (const auto& [portal, listen] : now) {
    const auto before = old.find(portal);
    const std::string group = std::to_string(listen->group);
    if (before == old.end()) {
      add(Kind::add_portal, portal, "takes logins, portal group " + group).to = group;
    } else if (before->second->group != listen->group) {
      const std::string from = std::to_string(before->second->group);
      Step& step = add(Kind::change_portal, portal,
                       "new logins belong to portal group " + group + " (was " + from + "); sessions stay as they are");
      step.what = "group";
      step.from = from;
      step.to = group;
    }
  }
  for (const auto& [portal, listen] : old) {
    if (now.contains(portal)) continue;
    Step& step = add(Kind::remove_portal, portal, "takes no more logins; sessions that came through it go on");
    for (const Session& session : in.facts.sessions)
      if (session.portal == portal) step.sessions.push_back(session);
  }
}

// What only a start reads, and the log level, which changes at once.
void process_steps(const PlanInput& in, std::vector<Step>& steps) {
  const Config& old = in.running;
  const Config& now = in.wanted;
  const auto add = [&](Kind kind, const char* subject, const std::string& from, const std::string& to) {
    if (from == to) return;
    Step& step = steps.emplace_back();
    step.kind = kind;
    step.subject = step.what = subject;
    step.from = from;
    step.to = to;
    step.text = "becomes " + to + " (was " + from + ")" + (kind == Kind::restart ? " at the next start" : "");
  };
  const auto number_or_auto = [](uint64_t n) { return n == 0 ? std::string("auto") : std::to_string(n); };
  const auto size_or_auto = [](uint64_t n) { return n == 0 ? std::string("auto") : readable_size(n); };
  add(Kind::change, "log.level", old.log_level, now.log_level);
  add(Kind::restart, "log.json", old.log_json ? "true" : "false", now.log_json ? "true" : "false");
  add(Kind::restart, "threads", number_or_auto(old.threads), number_or_auto(now.threads));
  add(Kind::restart, "memory", size_or_auto(old.memory), size_or_auto(now.memory));
  add(Kind::restart, "state_dir", old.state_dir, now.state_dir);
  add(Kind::restart, "admin.socket", old.admin_socket, now.admin_socket);
}

}  // namespace

void target_steps(const PlanInput& in, std::vector<Step>& steps) {
  TargetSteps(in, steps).run();
}

void daemon_steps(const PlanInput& in, std::vector<Step>& steps) {
  portal_steps(in, steps);
  if (!in.start()) process_steps(in, steps);
}

}  // namespace zvolt::config
