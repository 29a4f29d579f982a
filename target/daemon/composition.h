// Composition: a configuration and everything that was opened for it: what the daemon serves at one moment. Immutable
// once shared: apply makes another one that shares what stays. The only code that turns configuration into what the
// Server needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backing/result.h"
#include "config/model.h"
#include "target/daemon/volume.h"
#include "target/daemon/volume_set.h"
#include "target/server.h"

namespace zvolt::daemon {

struct Composition {
  config::Config config;
  std::vector<OpenVolume> volumes;  // those that are a LUN of some target, in order of the configuration
  const OpenVolume* volume(const std::string& name) const;
};

// Volumes that are LUNs, in the order of the configuration.
std::vector<const config::Volume*> used_volumes(const config::Config& config);

// All or nothing: on an error every store that was opened is closed again. Blocks on slow devices.
struct Composed {
  Composition composition;
  Made made;  // for the case that the start fails later
};
Result<Composed> compose(const config::Config& config, VolumeSet& set);

unsigned shard_count(const config::Config& config);  // `threads`, or one per core
std::vector<iscsi::PortalOptions> portals_of(const config::Config& config);
// A volume without a unit is no LUN yet.
std::vector<iscsi::TargetNode> targets_of(const Composition& composition);
iscsi::ServerOptions server_options(const Composition& composition);

}  // namespace zvolt::daemon
