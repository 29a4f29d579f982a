// See plan_text.h.
#include "config/plan_text.h"

#include <nlohmann/json.hpp>

namespace zvolt::config {
namespace {

using nlohmann::ordered_json;
using Kind = Step::Kind;

// + something comes, - something goes, ~ something changes, ! refused or lossy, * at the next start, i to know.
char sign(const Step& step) {
  if (step.refused() || step.destructive) return '!';
  switch (step.kind) {
    case Kind::open_journal:
    case Kind::create_store:
    case Kind::open:
    case Kind::add_portal:
    case Kind::add_target:
    case Kind::map_lun:
      return '+';
    case Kind::unmap_lun:
    case Kind::remove_target:
    case Kind::remove_portal:
    case Kind::close_journal:
    case Kind::close:
      return '-';
    case Kind::restart:
      return '*';
    case Kind::note:
      return 'i';
    default:
      return '~';
  }
}

std::string session_text(const Session& session) {
  return session.initiator + (session.address.empty() ? "" : " (" + session.address + ")") + " on " + session.target;
}

std::string counted(size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::string summary(const Plan& plan) {
  if (plan.refused())
    return "refused: nothing of this can be applied before the lines above marked 'refused' are mended";
  if (plan.nothing()) return "nothing to do";
  size_t steps = 0;
  for (const Step& step : plan.steps) steps += step.kind == Kind::note ? 0 : 1;
  std::string out = counted(steps, "step", "steps");
  const size_t sessions = plan.sessions().size();
  out += sessions == 0 ? "; no session notices" : "; " + counted(sessions, "session sees", "sessions see") + " it";
  if (plan.destructive()) out += "; DATA IS LOST, see the lines marked '!'";
  return out;
}

ordered_json session_json(const Session& session) {
  ordered_json out = {{"initiator", session.initiator},
                      {"target", session.target},
                      {"tsih", session.tsih},
                      {"address", session.address}};
  if (session.group != 0) out["group"] = session.group;
  if (!session.portal.empty()) out["portal"] = session.portal;
  return out;
}

ordered_json sessions_json(const std::vector<Session>& sessions) {
  ordered_json out = ordered_json::array();
  for (const Session& session : sessions) out.push_back(session_json(session));
  return out;
}

ordered_json step_json(const Step& step) {
  ordered_json out = {{"kind", kind_name(step.kind)}, {"subject", step.subject}, {"text", step.text}};
  if (!step.volume.empty()) out["volume"] = step.volume;
  if (!step.target.empty()) out["target"] = step.target;
  if (step.lun) out["lun"] = *step.lun;
  if (!step.what.empty()) out["what"] = step.what;
  if (!step.from.empty()) out["from"] = step.from;
  if (!step.to.empty()) out["to"] = step.to;
  if (step.size != 0) out["size"] = step.size;
  out["refused"] = step.refused();
  out["destructive"] = step.destructive;
  out["ends_sessions"] = step.ends_sessions;
  out["sessions"] = sessions_json(step.sessions);
  return out;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string out;
  const std::vector<Session>* shown = nullptr;
  for (const Step& step : plan.steps) {
    out += sign(step);
    out += " " + step.subject + ": " + (step.refused() ? "refused: " : "") + step.text + "\n";
    // Five hundred LUNs of one target are seen by the same sessions: said once, below the first.
    if (step.sessions.empty() || (shown != nullptr && *shown == step.sessions && !step.ends_sessions)) continue;
    for (const Session& session : step.sessions)
      out += std::string("    ") + (step.ends_sessions ? "logs out " : "seen by ") + session_text(session) + "\n";
    shown = &step.sessions;
  }
  return out + summary(plan) + "\n";
}

std::string plan_json(const Plan& plan) {
  ordered_json steps = ordered_json::array();
  for (const Step& step : plan.steps) steps.push_back(step_json(step));
  const ordered_json document = {{"refused", plan.refused()},
                                 {"destructive", plan.destructive()},
                                 {"nothing", plan.nothing()},
                                 {"steps", steps},
                                 {"sessions", sessions_json(plan.sessions())}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace zvolt::config
