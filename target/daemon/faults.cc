// See faults.h.
#include "target/daemon/faults.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace zvolt::daemon {
namespace {

using backing::Fault;
using backing::IoKind;

constexpr std::array<std::pair<std::string_view, Fault>, 4> kActions = {
    {{"delay", Fault::delay}, {"error", Fault::error}, {"short", Fault::short_transfer}, {"stall", Fault::stall}}};
constexpr std::array<std::pair<std::string_view, IoKind>, 5> kOps = {{{"read", IoKind::read},
                                                                      {"write", IoKind::write},
                                                                      {"flush", IoKind::flush},
                                                                      {"write_zeroes", IoKind::write_zeroes},
                                                                      {"discard", IoKind::discard}}};
// Not a rule but a property of the store: the end of the process is the power cut.
constexpr std::string_view kLoseUnflushed = "lose_unflushed";

template <typename Table>
auto find_word(const Table& table, std::string_view word) -> std::optional<typename Table::value_type::second_type> {
  for (const auto& [name, value] : table)
    if (name == word) return value;
  return std::nullopt;
}

Result<backing::FaultRule> convert(const config::FaultRule& from) {
  const auto action = find_word(kActions, from.action);
  if (!action) return Error{EINVAL, "unknown fault action '" + from.action + "'"};
  backing::FaultRule rule;
  rule.fault = *action;
  if (from.op != "any") {
    const auto kind = find_word(kOps, from.op);
    if (!kind) return Error{EINVAL, "unknown fault op '" + from.op + "'"};
    rule.any_kind = false;
    rule.kind = *kind;
  }
  rule.begin = from.offset;
  if (from.length != 0) rule.end = from.offset + from.length;
  rule.skip = from.after;
  if (from.count != 0) rule.count = from.count;
  rule.error = from.error;
  rule.bytes = from.bytes;
  rule.delay = std::chrono::microseconds(from.delay_us);
  return rule;
}

Result<std::vector<backing::FaultRule>> convert_all(const std::vector<config::FaultRule>& rules) {
  std::vector<backing::FaultRule> converted;
  for (const config::FaultRule& from : rules) {
    if (from.action == kLoseUnflushed) continue;
    const auto rule = convert(from);
    if (!rule) return rule.error();
    converted.push_back(*rule);
  }
  return converted;
}

bool loses_unflushed(const std::vector<config::FaultRule>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const auto& rule) { return rule.action == kLoseUnflushed; });
}

}  // namespace

Result<std::shared_ptr<backing::FaultStore>> with_faults(std::shared_ptr<backing::BlockStore> store,
                                                         const std::vector<config::FaultRule>& rules) {
  auto converted = convert_all(rules);
  if (!converted) return converted.error();
  auto faulty = backing::make_faulty(std::move(store), std::move(*converted));
  if (!faulty) return faulty;
  if (loses_unflushed(rules)) (*faulty)->keep_unflushed(true);
  return faulty;
}

Result<void> change_faults(backing::FaultStore& store, const std::vector<config::FaultRule>& rules) {
  auto converted = convert_all(rules);
  if (!converted) return converted.error();
  store.set_rules(std::move(*converted));
  return {};
}

}  // namespace zvolt::daemon
