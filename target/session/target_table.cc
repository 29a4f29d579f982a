// See target_table.h.
#include "target/session/target_table.h"

#include <algorithm>
#include <cctype>

#include "target/login/names.h"

namespace zvolt::iscsi {

namespace {
bool wildcard(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}
}  // namespace

std::string format_address(const std::string& address, uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

TargetTable::TargetTable(std::vector<TargetNode> targets, std::vector<PortalOptions> portals, size_t shards,
                         const TargetTable* before)
    : targets_(std::move(targets)),
      portals_(std::move(portals)),
      generation_(before == nullptr ? 1 : before->generation_ + 1) {
  for (TargetNode& target : targets_) {
    // Logins bring normalised (lower-case) names: what they are compared with must be too.
    target.name = normalize_name(target.name).value_or(target.name);
    for (std::string& pattern : target.initiators)
      std::transform(pattern.begin(), pattern.end(), pattern.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const scsi::LunMap::Entry& entry : target.luns->entries) {
      const std::string& name = entry.unit->options().name;
      std::shared_ptr<stats::LunStats>& stats = stats_by_name_[name];
      if (stats != nullptr) continue;
      if (before != nullptr) {
        if (const auto old = before->stats_by_name_.find(name); old != before->stats_by_name_.end())
          stats = old->second;
      }
      if (stats == nullptr) stats = std::make_shared<stats::LunStats>(name, shards);
      stats_.push_back(stats);
    }
  }
}

bool TargetTable::in_group(const TargetNode& target, uint16_t group) {
  return target.groups.empty() || std::find(target.groups.begin(), target.groups.end(), group) != target.groups.end();
}

bool TargetTable::allowed(const TargetNode& target, std::string_view initiator) {
  if (target.initiators.empty()) return true;
  return std::any_of(target.initiators.begin(), target.initiators.end(), [&](std::string_view pattern) {
    if (pattern.ends_with('*')) return initiator.starts_with(pattern.substr(0, pattern.size() - 1));
    return initiator == pattern;
  });
}

const TargetNode* TargetTable::find(std::string_view name) const {
  const auto it = std::find_if(targets_.begin(), targets_.end(), [&](const TargetNode& t) { return t.name == name; });
  return it == targets_.end() ? nullptr : &*it;
}

LoginStatus TargetTable::check_target(std::string_view target, std::string_view initiator,
                                      uint16_t portal_group) const {
  const TargetNode* node = find(target);
  if (node == nullptr || !in_group(*node, portal_group)) return LoginStatus::not_found;
  return allowed(*node, initiator) ? LoginStatus::success : LoginStatus::authorization_failure;
}

std::string TargetTable::target_alias(std::string_view target) const {
  const TargetNode* node = find(target);
  return node == nullptr ? std::string() : node->alias;
}

std::vector<DiscoveredTarget> TargetTable::discover(std::string_view initiator, const std::string& local) const {
  std::vector<DiscoveredTarget> out;
  for (const TargetNode& target : targets_) {
    if (!allowed(target, initiator)) continue;
    DiscoveredTarget found{target.name, {}};
    for (const PortalOptions& portal : portals_) {
      if (!in_group(target, portal.group)) continue;
      const std::string& address = wildcard(portal.address) ? local : portal.address;
      std::string text = format_address(address, portal.port) + "," + std::to_string(portal.group);
      if (std::find(found.addresses.begin(), found.addresses.end(), text) == found.addresses.end())
        found.addresses.push_back(std::move(text));
    }
    if (!found.addresses.empty()) out.push_back(std::move(found));
  }
  return out;
}

std::vector<UnitStats> TargetTable::unit_stats(const TargetNode& target) const {
  std::vector<UnitStats> out;
  out.reserve(target.luns->entries.size());
  for (const scsi::LunMap::Entry& entry : target.luns->entries)
    out.push_back({entry.unit.get(), stats_by_name_.at(entry.unit->options().name)});
  return out;
}

}  // namespace zvolt::iscsi
