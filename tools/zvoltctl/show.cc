// See show.h.
#include "tools/zvoltctl/show.h"

#include <cstdio>

#include "tools/zvoltctl/table.h"

namespace zvolt::control {
namespace {

using nlohmann::json;

const json kNothing;

const json& at(const json& object, const char* key) {
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

std::string text(const json& object, const char* key) {
  const json& value = at(object, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

uint64_t number(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_number() ? value.get<uint64_t>() : 0;
}

std::string micros(const json& stage, const char* key) {
  const json& value = at(stage, key);
  return microseconds_text(value.is_number() ? value.get<double>() : 0);
}

std::string portal_text(const json& portal) {
  const std::string address = text(portal, "address");
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + text(portal, "port") + " (group " + text(portal, "group") + ")";
}

std::string duration_text(uint64_t seconds) {
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400) return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds / 3600 % 24) + " h";
}

std::string mappings_text(const json& mappings) {
  std::string out;
  for (const json& m : mappings) {
    if (!out.empty()) out += ", ";
    out += text(m, "target") + "/" + text(m, "lun") + (at(m, "read_only") == json(true) ? " (read-only)" : "");
  }
  return out;
}

// "waiting 42 s: ..." for one that is not served.
std::string state_text(const json& lun) {
  const std::string state = text(lun, "state");
  if (state == "serving") return state;
  return state + " " + duration_text(number(lun, "waiting_seconds"));
}

std::string problems_text(const json& problems, const char* kind) {
  std::string out;
  for (const json& p : problems) {
    out += text(p, "file");
    if (number(p, "line") != 0) out += ":" + text(p, "line") + ":" + text(p, "column");
    out += std::string(": ") + kind + ": " + text(p, "message") + "\n";
  }
  return out;
}

std::string lines_text(const json& lines, const char* before) {
  std::string out;
  for (const json& line : lines)
    if (line.is_string()) out += before + line.get<std::string>() + "\n";
  return out;
}

// A class that nothing was asked of has no rows.
void add_stats_rows(Table& table, const json& lun) {
  for (const auto& [name, entry] : at(lun, "classes").items()) {
    if (number(entry, "count") == 0) continue;
    bool first = true;
    for (const char* stage : {"total", "receive", "queue", "store", "send"}) {
      const json& s = at(at(entry, "stages"), stage);
      table.row({first ? text(lun, "lun") : "", first ? name : "", stage, text(s, "count"), micros(s, "p50_us"),
                 micros(s, "p95_us"), micros(s, "p99_us"), micros(s, "max_us"),
                 first ? bytes_text(number(entry, "bytes")) : "", first ? text(entry, "errors") : ""});
      first = false;
    }
  }
}

}  // namespace

std::string show_status(const json& reply) {
  std::string out = "zvoltd " + text(reply, "version") + ", pid " + text(reply, "pid") + ", up " +
                    duration_text(number(reply, "uptime_seconds")) + "\n";
  out += "config     " + text(reply, "config") + "\n";
  out += "state      " + text(reply, "state_dir") + "\n";
  out += "threads    " + text(reply, "threads") + "\n";
  for (const json& portal : at(reply, "portals")) out += "listens    " + portal_text(portal) + "\n";
  for (const json& target : at(reply, "targets"))
    out += "target     " + text(target, "name") + ", " + text(target, "luns") + " LUNs\n";
  const uint64_t luns = number(reply, "luns"), served = number(reply, "luns_served");
  out += "volumes    " + std::to_string(luns) +
         (served == luns ? "" : ", of them " + std::to_string(luns - served) + " not served") + "\n";
  out += "sessions   " + text(reply, "sessions") + "\n";
  for (const json& warning : at(reply, "warnings"))
    if (warning.is_string()) out += "WARNING    " + warning.get<std::string>() + "\n";
  return out;
}

std::string show_luns(const json& reply) {
  Table table({"VOLUME", "KIND", "STATE", ">SIZE", ">BLOCK", "SYNC", "ACCESS", "UUID", "MAPPED AS"});
  for (const json& lun : reply)
    table.row({text(lun, "volume"), text(lun, "kind"), state_text(lun), bytes_text(number(lun, "bytes")),
               text(lun, "block_size"), text(lun, "sync"), at(lun, "read_only") == json(true) ? "ro" : "rw",
               text(lun, "uuid"), mappings_text(at(lun, "mappings"))});
  std::string out = table.text();
  for (const json& lun : reply) {
    if (!text(lun, "reason").empty()) out += text(lun, "volume") + ": not served: " + text(lun, "reason") + "\n";
    out += lines_text(at(lun, "notes"), (text(lun, "volume") + ": ").c_str());
  }
  return out;
}

std::string show_sessions(const json& reply) {
  Table table({"INITIATOR", "ADDRESS", "TARGET", ">TSIH", ">SHARD", ">IN FLIGHT"});
  for (const json& s : reply)
    table.row({text(s, "initiator"), text(s, "address"), text(s, "target"), text(s, "tsih"), text(s, "shard"),
               text(s, "commands_in_flight")});
  return table.text();
}

std::string show_stats(const json& reply) {
  Table table({"LUN", "CLASS", "STAGE", ">COUNT", ">P50", ">P95", ">P99", ">MAX", ">BYTES", ">ERRORS"});
  for (const json& lun : reply) add_stats_rows(table, lun);
  return table.text();
}

std::string show_journals(const json& reply) {
  Table table({"journal", "path", ">used", ">of", ">dirty", ">commits", ">records each", ">p99", "state"});
  std::string more;
  for (const json& one : reply) {
    const json& s = at(one, "statistics");
    const std::string problem = text(one, "problem");
    char each[32];
    const json& ratio = at(s, "records_per_commit");
    std::snprintf(each, sizeof each, "%.1f", ratio.is_number() ? ratio.get<double>() : 0.0);
    table.row({text(one, "name"), text(one, "path"), bytes_text(number(s, "ring_used")),
               bytes_text(number(s, "ring_bytes")), bytes_text(number(s, "dirty_bytes")), text(s, "commits"), each,
               microseconds_text(static_cast<double>(number(s, "commit_p99_us"))), problem.empty() ? "good" : problem});
    for (const json& volume : at(one, "volumes")) {
      const json& j = at(volume, "journal");
      more += "volume " + text(volume, "volume") + ": " + text(j, "mode") + ", " +
              bytes_text(number(j, "dirty_bytes")) + " dirty" +
              (text(j, "store_problem").empty() ? "" : ", " + text(j, "store_problem")) + "\n";
    }
    for (const json& lun : at(one, "offline"))
      more += "lun " + text(lun, "uuid") + ": offline, " + bytes_text(number(lun, "dirty_bytes")) + " dirty\n";
  }
  return table.text() + more;
}

std::string show_plan(const json& reply) {
  std::string out = problems_text(at(reply, "errors"), "error") + problems_text(at(reply, "warnings"), "warning");
  if (at(reply, "errors").empty()) out += text(reply, "text");
  const std::string error = text(reply, "error");
  if (!error.empty()) out += "refused: " + error + "\n";
  return out;
}

std::string show_apply(const json& reply) {
  std::string out = problems_text(at(reply, "errors"), "error") + problems_text(at(reply, "warnings"), "warning");
  if (text(reply, "outcome") == "refused") return out + "refused: " + text(reply, "error") + "\n";
  out += lines_text(at(reply, "done"), "done    ") + lines_text(at(reply, "failed"), "FAILED  ") +
         lines_text(at(reply, "notes"), "note    ");
  const size_t done = at(reply, "done").size(), failed = at(reply, "failed").size();
  if (done + failed == 0) return out + "nothing to do\n";
  return out + std::to_string(done) + " done, " + std::to_string(failed) + " failed\n";
}

std::string show_volume(const json& reply) {
  return text(reply, "volume") + ": " + text(reply, "text") + "\n";
}

}  // namespace zvolt::control
