// The composition root: the only code that knows configuration, stores, SCSI and iSCSI together. Config -> opened
// stores -> logical units -> what the Server needs. Called by the daemon's main thread before serving; can block on
// slow devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backing/fault_store.h"
#include "backing/result.h"
#include "config/model.h"
#include "scsi/logical_unit.h"
#include "target/daemon/identity.h"
#include "target/daemon/state_dir.h"
#include "target/server.h"

namespace zvolt::daemon {

// A volume that is a LUN of at least one target.
struct OpenVolume {
  config::Volume config;
  Uuid uuid{};
  std::shared_ptr<backing::BlockStore> store;
  std::shared_ptr<backing::FaultStore> faults;  // the same store when it is a test store, else null
  std::shared_ptr<scsi::LogicalUnit> unit;
};

struct Composition {
  std::vector<OpenVolume> volumes;  // in order of the configuration
  iscsi::ServerOptions server;
};

// All or nothing: on an error every store that was opened is closed again.
Result<Composition> compose(const config::Config& config, const StateDir& state);

}  // namespace zvolt::daemon
