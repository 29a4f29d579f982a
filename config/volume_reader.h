// Volumes of the YAML, under `volumes:` or in line in a LUN. Called by loader.cc.
#pragma once

#include "config/reader.h"

namespace zvolt::config {

// Values of `defaults:`.
struct VolumeDefaults {
  uint32_t block_size = 512;
  uint32_t physical_block_size = 0;
  Sync sync = Sync::standard;
};

VolumeDefaults read_defaults(Context& context, const Node& node);

// The keys of a volume; name and `where` are the caller's. Checks that there is exactly one store.
Volume read_volume(Context& context, const MapReader& map, const VolumeDefaults& defaults);

// True when the map describes a store (whatever it is worth).
bool describes_store(const MapReader& map);

}  // namespace zvolt::config
