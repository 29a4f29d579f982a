// Orders of the admin endpoint: plan, apply, offline, online, resize. See admin_answer.h.
#include <charconv>

#include "config/plan_text.h"
#include "target/daemon/admin_answer.h"

namespace zvolt::daemon {
namespace {

using nlohmann::json;

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

json problems_json(const std::vector<config::Problem>& problems) {
  json out = json::array();
  for (const config::Problem& p : problems)
    out.push_back({{"file", p.where.file}, {"line", p.where.line}, {"column", p.where.column}, {"message", p.message}});
  return out;
}

// 200 also when the configuration is refused: the request was understood, "outcome" says what became of it.
Answer report_answer(const ApplyReport& report) {
  return {200,
          {{"outcome", outcome_name(report.outcome)},
           {"ok", report.ok()},
           {"file", report.file},
           {"error", report.error},
           {"errors", problems_json(report.problems)},
           {"warnings", problems_json(report.warnings)},
           {"plan", json::parse(config::plan_json(report.plan), nullptr, false)},
           {"text", config::plan_text(report.plan)},
           {"done", report.done},
           {"failed", report.failed},
           {"notes", report.notes}}};
}

Answer set_offline(Control& control, const Query& query, bool offline) {
  const std::string lun = value_of(query, "lun");
  if (lun.empty()) return refuse(400, "which? give ?lun=NAME");
  return volume_answer(control.set_offline(lun, offline));
}

}  // namespace

std::string value_of(const Query& query, const std::string& key) {
  const auto found = query.find(key);
  return found == query.end() ? std::string() : found->second;
}

Answer volume_answer(const VolumeReport& report) {
  if (!report.error.empty()) return refuse(report.status, "volume " + report.volume + ": " + report.error);
  return {200, {{"volume", report.volume}, {"text", report.text}}};
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

Answer refuse(unsigned status, const std::string& why) {
  return {status, {{"error", why}}};
}

Answer plan_order(Control& control, const Query& query) {
  return report_answer(control.plan(value_of(query, "file")));
}

Answer apply_order(Control& control, const Query& query) {
  return report_answer(control.apply(value_of(query, "file")));
}

Answer offline_order(Control& control, const Query& query) {
  return set_offline(control, query, true);
}

Answer online_order(Control& control, const Query& query) {
  return set_offline(control, query, false);
}

Answer resize_order(Control& control, const Query& query) {
  const std::string lun = value_of(query, "lun"), size = value_of(query, "size");
  if (lun.empty()) return refuse(400, "which? give ?lun=NAME");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), bytes);
  if (!size.empty() && (error != std::errc() || end != size.data() + size.size() || bytes == 0))
    return refuse(400, "'" + size + "' is no size in bytes");
  return volume_answer(control.resize(lun, bytes));
}

Answer flush_order(Control& control, const Query& query) {
  const std::string lun = value_of(query, "lun");
  if (lun.empty()) return refuse(400, "which? give ?lun=NAME");
  return volume_answer(control.flush(lun));
}

Answer discard_order(Control& control, const Query& query) {
  const std::string lun = value_of(query, "lun");
  if (lun.empty()) return refuse(400, "which? give ?lun=NAME");
  return volume_answer(control.discard(lun));
}

}  // namespace zvolt::daemon
