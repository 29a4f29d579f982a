// TargetTable: the configured targets and portals as login and discovery see them: one configuration. Immutable after
// construction; any thread. TargetDirectory holds the one that is in force.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "target/login/login.h"
#include "target/login/text_session.h"
#include "target/server.h"
#include "target/session/session.h"

namespace zvolt::iscsi {

class TargetTable : public LoginDirectory {
 public:
  // `portals` with the ports that were really bound. Volumes that `before` knows keep their statistics.
  TargetTable(std::vector<TargetNode> targets, std::vector<PortalOptions> portals, size_t shards,
              const TargetTable* before = nullptr);

  LoginStatus check_target(std::string_view target, std::string_view initiator, uint16_t portal_group) const override;
  std::string target_alias(std::string_view target) const override;

  const TargetNode* find(std::string_view name) const;
  // Targets that this initiator may use, each with the portals of its groups; a wildcard portal is told as `local`, the
  // address that the initiator has reached us by.
  std::vector<DiscoveredTarget> discover(std::string_view initiator, const std::string& local) const;
  std::vector<UnitStats> unit_stats(const TargetNode& target) const;
  const std::vector<std::shared_ptr<stats::LunStats>>& all_stats() const { return stats_; }
  const std::vector<TargetNode>& targets() const { return targets_; }
  const std::vector<PortalOptions>& portals() const { return portals_; }
  uint64_t generation() const { return generation_; }  // 1 for the first, then one more each

 private:
  static bool in_group(const TargetNode& target, uint16_t group);
  static bool allowed(const TargetNode& target, std::string_view initiator);
  std::vector<TargetNode> targets_;
  std::vector<PortalOptions> portals_;
  uint64_t generation_;
  std::vector<std::shared_ptr<stats::LunStats>> stats_;  // in order of first mapping
  std::unordered_map<std::string, std::shared_ptr<stats::LunStats>> stats_by_name_;
};

// The table in force; any thread. Logins and discovery keep the one they took.
class TargetDirectory {
 public:
  std::shared_ptr<const TargetTable> current() const {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  void replace(std::shared_ptr<const TargetTable> table) {
    const std::lock_guard lock(mutex_);
    table_.swap(table);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const TargetTable> table_;
};

// "192.0.2.1:3260" or "[2001:db8::1]:3260".
std::string format_address(const std::string& address, uint16_t port);

}  // namespace zvolt::iscsi
