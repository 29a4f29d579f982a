// See admin_api.h.
#include "target/daemon/admin_api.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "target/daemon/admin_answer.h"
#include "target/daemon/journal_status.h"

namespace zvolt::daemon {
namespace {

using nlohmann::json;

struct View {
  const Composition& composition;
  const iscsi::Server& server;
  const Journals& journals;
  std::chrono::system_clock::time_point started;
};

std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

int64_t seconds_since(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() - time).count();
}

const char* kind_name(config::StoreKind kind) {
  switch (kind) {
    case config::StoreKind::file:
      return "file";
    case config::StoreKind::device:
      return "device";
    case config::StoreKind::zvol:
      return "zvol";
    case config::StoreKind::memory:
      return "memory";
    case config::StoreKind::null:
      return "null";
  }
  return "?";
}

const char* sync_name(config::Sync sync) {
  switch (sync) {
    case config::Sync::standard:
      return "standard";
    case config::Sync::always:
      return "always";
    case config::Sync::disabled:
      return "disabled";
  }
  return "?";
}

json portals_json(const View& view) {
  json out = json::array();
  const auto ports = view.server.ports();
  const auto portals = portals_of(view.composition.config);
  for (size_t i = 0; i < portals.size(); ++i)
    out.push_back({{"address", portals[i].address},
                   {"port", i < ports.size() ? ports[i] : portals[i].port},
                   {"group", portals[i].group}});
  return out;
}

json targets_json(const View& view) {
  json out = json::array();
  for (const config::Target& target : view.composition.config.targets)
    out.push_back(
        {{"name", target.name}, {"alias", target.alias}, {"groups", target.groups}, {"luns", target.luns.size()}});
  return out;
}

json warnings_of(const View& view) {
  json out = json::array();
  for (const JournalView& journal : view.journals.views()) {
    const std::string problem = journal.open ? journal.open->journal->failure() : journal.problem;
    if (!problem.empty()) out.push_back("journal " + journal.config.name + ": " + problem);
    if (journal.open && journal.open->journal->replayed().torn)
      out.push_back("journal " + journal.config.name + ": " + journal.open->journal->replayed().torn_text);
  }
  for (const OpenVolume& volume : view.composition.volumes) {
    const std::string name = "volume " + volume.config.name + ": ";
    const auto health = volume.health->view();
    if (!health.reason.empty()) out.push_back(name + "not served: " + health.reason);
    for (const std::string& note : health.notes) out.push_back(name + note);
    if (!volume.config.journal.empty() && volume.config.kind == config::StoreKind::zvol)
      out.push_back(name + "has a journal: 'zfs snapshot' alone is not crash-consistent; use 'zvoltctl snapshot'");
    if (volume.config.sync == config::Sync::disabled)
      out.push_back(name + "sync: disabled loses acknowledged writes at a power cut");
  }
  return out;
}

Answer status(const View& view, const Query&) {
  const config::Config& config = view.composition.config;
  const auto& volumes = view.composition.volumes;
  const auto served = std::count_if(volumes.begin(), volumes.end(),
                                    [](const OpenVolume& volume) { return volume.health->view().served(); });
  json body = {{"version", ZVOLT_VERSION},
               {"pid", ::getpid()},
               {"started", time_text(view.started)},
               {"uptime_seconds", seconds_since(view.started)},
               {"config", config.file},
               {"state_dir", config.state_dir},
               {"threads", shard_count(config)},
               {"portals", portals_json(view)},
               {"targets", targets_json(view)},
               {"luns", volumes.size()},
               {"luns_served", served},
               {"sessions", view.server.sessions().size()},
               {"warnings", warnings_of(view)}};
  return {200, std::move(body)};
}

// Whether it is served, and if not, why and since when.
json presence_json(const OpenVolume& volume) {
  const auto health = volume.health->view();
  json out = {{"presence", backing::presence_name(health.presence)},
              {"state", health.has_unit ? state_text(health.state) : "not announced"},
              {"reason", health.reason},
              {"notes", health.notes}};
  if (!health.device.empty()) out["device"] = health.device;
  if (health.waiting) {
    out["waiting_since"] = time_text(*health.waiting);
    out["waiting_seconds"] = seconds_since(*health.waiting);
  }
  return out;
}

json lun_json(const OpenVolume& volume) {
  const config::Volume& c = volume.config;
  const bool late = volume.unit == nullptr;
  json out = {{"volume", c.name},
              {"kind", kind_name(c.kind)},
              {"path", c.path},
              {"store", volume.store->describe()},
              {"bytes", volume.store->size_bytes()},
              {"blocks", late ? 0 : volume.unit->blocks()},
              {"block_size", c.block_size},
              {"sync", sync_name(c.sync)},
              {"read_only", late ? c.read_only : volume.unit->read_only()},
              {"uuid", volume.uuid ? json(uuid_text(*volume.uuid)) : json()},
              {"journal", journal_of_volume_json(volume)},
              {"limit", {{"iops", c.limit.iops}, {"bandwidth", c.limit.bandwidth}, {"burst_ms", c.limit.burst_ms}}}};
  out.update(presence_json(volume));
  return out;
}

Answer luns(const View& view, const Query&) {
  std::map<std::string, uint64_t> in_flight;
  for (const auto& stats : view.server.lun_stats()) in_flight[stats->name()] = stats->in_flight();
  std::map<std::string, json> mappings;
  for (const config::Target& target : view.composition.config.targets)
    for (const config::Lun& lun : target.luns)
      mappings[lun.volume].push_back({{"target", target.name}, {"lun", lun.number}, {"read_only", lun.read_only}});
  json out = json::array();
  for (const OpenVolume& volume : view.composition.volumes) {
    out.push_back(lun_json(volume));
    out.back()["in_flight"] = in_flight[volume.config.name];
    out.back()["mappings"] = mappings[volume.config.name];
  }
  return {200, std::move(out)};
}

Answer journals(const View& view, const Query&) {
  return {200, journals_json(view.journals, view.composition.volumes)};
}

Answer sessions(const View& view, const Query&) {
  json out = json::array();
  for (const iscsi::SessionInfo& s : view.server.sessions())
    out.push_back({{"initiator", s.initiator},
                   {"target", s.target},
                   {"address", s.address},
                   {"tsih", s.tsih},
                   {"shard", s.shard},
                   {"commands_in_flight", s.commands_in_flight},
                   {"map_generation", s.map_generation}});
  return {200, std::move(out)};
}

json stage_json(const stats::HistogramSnapshot& h) {
  const auto us = [](auto ns) { return static_cast<double>(ns) / 1000.0; };
  return {{"count", h.count()},
          {"mean_us", us(h.mean_ns())},
          {"p50_us", us(h.percentile_ns(0.50))},
          {"p95_us", us(h.percentile_ns(0.95))},
          {"p99_us", us(h.percentile_ns(0.99))},
          {"max_us", us(h.max_ns())}};
}

json lun_stats_json(const stats::LunStats& lun) {
  json classes = json::object();
  for (size_t c = 0; c < scsi::kOpClasses; ++c) {
    const auto summary = lun.summary(static_cast<scsi::OpClass>(c));
    json stages = json::object();
    for (size_t i = 0; i < stats::kStages; ++i) stages[stats::kStageNames[i]] = stage_json(summary.stages[i]);
    classes[stats::kClassNames[c]] = {{"count", summary.stages[0].count()},
                                      {"bytes", summary.bytes},
                                      {"errors", summary.errors},
                                      {"stages", std::move(stages)}};
  }
  return {{"lun", lun.name()}, {"in_flight", lun.in_flight()}, {"classes", std::move(classes)}};
}

Answer lun_statistics(const View& view, const Query& query) {
  const auto only = query.find("lun");
  json out = json::array();
  for (const auto& lun : view.server.lun_stats())
    if (only == query.end() || only->second == lun->name()) out.push_back(lun_stats_json(*lun));
  if (only != query.end() && out.empty()) return refuse(404, "there is no LUN '" + only->second + "'");
  return {200, std::move(out)};
}

// Test stores: lets go what a `stall` fault holds. With ?lun=NAME only of that volume.
Answer release_faults(const View& view, const Query& query) {
  const auto only = query.find("lun");
  json out = json::array();
  for (const OpenVolume& volume : view.composition.volumes) {
    if (volume.faults == nullptr || (only != query.end() && only->second != volume.config.name)) continue;
    out.push_back({{"lun", volume.config.name}, {"stalled", volume.faults->stalled()}});
    volume.faults->release();
  }
  if (out.empty()) return refuse(404, "there is no such test store");
  return {200, std::move(out)};
}

// Test stores: what their faults have done so far.
Answer fault_state(const View& view, const Query&) {
  json out = json::array();
  for (const OpenVolume& volume : view.composition.volumes)
    if (volume.faults != nullptr)
      out.push_back({{"lun", volume.config.name},
                     {"stalled", volume.faults->stalled()},
                     {"bites", volume.faults->bites()},
                     {"unflushed_bytes", volume.faults->unflushed_bytes()}});
  return {200, std::move(out)};
}

struct Route {
  std::string_view method;
  std::string_view path;
  Answer (*look)(const View&, const Query&) = nullptr;  // reads, at once
  Answer (*order)(Control&, const Query&) = nullptr;    // may block: by a worker
};
constexpr Route kRoutes[] = {{"GET", "/api/status", status},
                             {"GET", "/api/luns", luns},
                             {"GET", "/api/journals", journals},
                             {"GET", "/api/sessions", sessions},
                             {"GET", "/api/stats", lun_statistics},
                             {"GET", "/api/faults", fault_state},
                             {"POST", "/api/faults/release", release_faults},
                             {"GET", "/api/plan", nullptr, plan_order},
                             {"POST", "/api/apply", nullptr, apply_order},
                             {"POST", "/api/offline", nullptr, offline_order},
                             {"POST", "/api/online", nullptr, online_order},
                             {"POST", "/api/resize", nullptr, resize_order},
                             {"POST", "/api/flush", nullptr, flush_order},
                             {"POST", "/api/journal/discard", nullptr, discard_order},
                             {"POST", "/api/freeze", nullptr, freeze_order},
                             {"POST", "/api/thaw", nullptr, thaw_order}};

AdminReply to_reply(const Answer& answer) {
  return {answer.status, answer.body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

// The route of a request, or what is wrong with it.
const Route* find_route(std::string_view method, std::string_view path, Answer& wrong) {
  wrong = refuse(404, "there is no " + std::string(path));
  for (const Route& route : kRoutes) {
    if (route.path != path) continue;
    if (route.method == method) return &route;
    wrong = refuse(405, "that path does not answer to " + std::string(method));
  }
  return nullptr;
}

}  // namespace

AdminApi::AdminApi(Control& control, const iscsi::Server& server, Worker& worker)
    : control_(control), server_(server), worker_(worker), started_(std::chrono::system_clock::now()) {}

void AdminApi::handle(const AdminRequest& request, AdminHttp::Answer answer) const {
  const std::string_view target = request.target;
  const size_t mark = target.find('?');
  Answer wrong;
  const Route* route = find_route(request.method, target.substr(0, mark), wrong);
  if (route == nullptr) return answer(to_reply(wrong));
  Query query = parse_query(mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1));
  if (route->look != nullptr) {
    const auto current = control_.current();
    return answer(to_reply(route->look({*current, server_, control_.journals(), started_}, query)));
  }
  const bool taken = worker_.post([&control = control_, order = route->order, query = std::move(query), answer] {
    answer(to_reply(order(control, query)));
  });
  if (!taken) answer(to_reply(refuse(503, "too many orders wait already; try again")));
}

}  // namespace zvolt::daemon
