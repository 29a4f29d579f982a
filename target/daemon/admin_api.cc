// See admin_api.h.
#include "target/daemon/admin_api.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace zvolt::daemon {
namespace {

using nlohmann::json;
using Query = std::map<std::string, std::string>;

struct View {
  const config::Config& config;
  const Composition& composition;
  const iscsi::Server& server;
  std::chrono::system_clock::time_point started;
};

// What a handler says: JSON, or what is wrong with the request.
struct Answer {
  unsigned status = 200;
  json body;
};

Answer refuse(unsigned status, const std::string& why) {
  return {status, {{"error", why}}};
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string url_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

Query parse_query(std::string_view text) {
  Query out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find('&'));
    const size_t equals = item.find('=');
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    out[url_decoded(item.substr(0, equals))] = url_decoded(value);
    text = item.size() == text.size() ? std::string_view() : text.substr(item.size() + 1);
  }
  return out;
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

json mappings_of(const std::string& volume, const config::Config& config) {
  json out = json::array();
  for (const config::Target& target : config.targets)
    for (const config::Lun& lun : target.luns)
      if (lun.volume == volume)
        out.push_back({{"target", target.name}, {"lun", lun.number}, {"read_only", lun.read_only}});
  return out;
}

json portals_of(const View& view) {
  json out = json::array();
  const auto ports = view.server.ports();
  const auto& portals = view.composition.server.portals;
  for (size_t i = 0; i < portals.size(); ++i)
    out.push_back({{"address", portals[i].address},
                   {"port", i < ports.size() ? ports[i] : portals[i].port},
                   {"group", portals[i].group}});
  return out;
}

json targets_of(const View& view) {
  json out = json::array();
  for (const config::Target& target : view.config.targets)
    out.push_back(
        {{"name", target.name}, {"alias", target.alias}, {"groups", target.groups}, {"luns", target.luns.size()}});
  return out;
}

json warnings_of(const View& view) {
  json out = json::array();
  for (const OpenVolume& volume : view.composition.volumes)
    if (volume.config.sync == config::Sync::disabled)
      out.push_back("volume " + volume.config.name + ": sync: disabled loses acknowledged writes at a power cut");
  return out;
}

Answer status(const View& view, const Query&) {
  const auto up = std::chrono::system_clock::now() - view.started;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(up).count();
  json body = {{"version", ZVOLT_VERSION},
               {"pid", ::getpid()},
               {"started",
                fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(view.started)))},
               {"uptime_seconds", seconds},
               {"config", view.config.file},
               {"state_dir", view.config.state_dir},
               {"threads", view.composition.server.shards},
               {"portals", portals_of(view)},
               {"targets", targets_of(view)},
               {"luns", view.composition.volumes.size()},
               {"sessions", view.server.sessions().size()},
               {"warnings", warnings_of(view)}};
  return {200, std::move(body)};
}

Answer luns(const View& view, const Query&) {
  std::map<std::string, uint64_t> in_flight;
  for (const auto& stats : view.server.lun_stats()) in_flight[stats->name()] = stats->in_flight();
  json out = json::array();
  for (const OpenVolume& volume : view.composition.volumes) {
    const config::Volume& c = volume.config;
    out.push_back({{"volume", c.name},
                   {"kind", kind_name(c.kind)},
                   {"path", c.path},
                   {"store", volume.store->describe()},
                   {"bytes", volume.store->size_bytes()},
                   {"blocks", volume.unit->blocks()},
                   {"block_size", volume.unit->block_size()},
                   {"sync", sync_name(c.sync)},
                   {"read_only", volume.unit->read_only()},
                   {"uuid", uuid_text(volume.uuid)},
                   {"in_flight", in_flight[c.name]},
                   {"mappings", mappings_of(c.name, view.config)}});
  }
  return {200, std::move(out)};
}

Answer sessions(const View& view, const Query&) {
  json out = json::array();
  for (const iscsi::SessionInfo& s : view.server.sessions())
    out.push_back({{"initiator", s.initiator},
                   {"target", s.target},
                   {"address", s.address},
                   {"tsih", s.tsih},
                   {"shard", s.shard},
                   {"commands_in_flight", s.commands_in_flight}});
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
  Answer (*handler)(const View&, const Query&);
};
constexpr Route kRoutes[] = {{"GET", "/api/status", status},      {"GET", "/api/luns", luns},
                             {"GET", "/api/sessions", sessions},  {"GET", "/api/stats", lun_statistics},
                             {"GET", "/api/faults", fault_state}, {"POST", "/api/faults/release", release_faults}};

Answer dispatch(const View& view, const AdminRequest& request) {
  const std::string_view target = request.target;
  const size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  bool known = false;
  for (const Route& route : kRoutes) {
    if (route.path != path) continue;
    known = true;
    if (route.method != request.method) continue;
    return route.handler(view,
                         parse_query(mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1)));
  }
  if (known) return refuse(405, "that path does not answer to " + request.method);
  return refuse(404, "there is no " + std::string(path));
}

}  // namespace

AdminApi::AdminApi(const config::Config& config, const Composition& composition, const iscsi::Server& server)
    : config_(config), composition_(composition), server_(server), started_(std::chrono::system_clock::now()) {}

AdminReply AdminApi::handle(const AdminRequest& request) const {
  const Answer answer = dispatch({config_, composition_, server_, started_}, request);
  return {answer.status, answer.body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

}  // namespace zvolt::daemon
