// TargetTable: the configured targets and portals as login and discovery see them. Immutable after construction; any
// thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "target/login/login.h"
#include "target/login/text_session.h"
#include "target/server.h"
#include "target/session/session.h"

namespace zvolt::iscsi {

class TargetTable : public LoginDirectory {
 public:
  TargetTable(std::vector<TargetNode> targets, size_t shards);

  LoginStatus check_target(std::string_view target, std::string_view initiator, uint16_t portal_group) const override;
  std::string target_alias(std::string_view target) const override;

  const TargetNode* find(std::string_view name) const;
  // Targets that this initiator may use, each with the portals of its groups; a wildcard portal is told as `local`, the
  // address that the initiator has reached us by.
  std::vector<DiscoveredTarget> discover(std::string_view initiator, const std::string& local,
                                         const std::vector<PortalOptions>& portals) const;
  std::vector<UnitStats> unit_stats(const TargetNode& target) const;
  const std::vector<std::shared_ptr<stats::LunStats>>& all_stats() const { return stats_; }

 private:
  static bool in_group(const TargetNode& target, uint16_t group);
  static bool allowed(const TargetNode& target, std::string_view initiator);
  std::vector<TargetNode> targets_;
  std::vector<std::shared_ptr<stats::LunStats>> stats_;
};

// "192.0.2.1:3260" or "[2001:db8::1]:3260".
std::string format_address(const std::string& address, uint16_t port);

}  // namespace zvolt::iscsi
