// Targets of the YAML and their LUNs. Called by loader.cc, after `listen` and the volumes were read.
#pragma once

#include "config/reader.h"
#include "config/volume_reader.h"

namespace zvolt::config {

// Adds the targets of the list, and the volumes that are described in line in their LUNs.
void read_targets(Context& context, const Node& list, Shared& shared, Config& config);

}  // namespace zvolt::config
