// What the plan needs to know of the world: the stores of both configurations as they are, what is open, who is logged
// in. Called by Control for each plan and apply; blocks on file systems and zfs commands, never on a shard. Changes
// nothing.
#pragma once

#include "config/plan.h"
#include "target/daemon/composition.h"
#include "target/server.h"

namespace zvolt::daemon {

config::Facts gather_facts(const Composition& running, const config::Config& wanted, const VolumeSet& set,
                           const std::vector<iscsi::SessionInfo>& sessions);

// The key of the store that an open volume serves now: differs from its configuration's after `zfs rename`.
std::string store_of(const OpenVolume& volume);

}  // namespace zvolt::daemon
