// Volumes of the YAML, under `volumes:` or in line in a LUN. Called by loader.cc.
#pragma once

#include <vector>

#include "config/reader.h"
#include "config/template.h"

namespace zvolt::config {

// Values of `defaults:`.
struct VolumeDefaults {
  uint32_t block_size = 512;
  uint32_t physical_block_size = 0;
  Sync sync = Sync::standard;
  unsigned not_ready_seconds = kDefaultNotReadySeconds;
};

VolumeDefaults read_defaults(Context& context, const Node& node);

// What all readers share: values of `defaults:`, and how much templates may still make.
struct Shared {
  VolumeDefaults defaults;
  uint64_t template_items = kMaxTemplateItems;
};

// `count` and `first` of an entry. Reports what is wrong with them, also when there is no room for that many; the
// series is then of one.
Series read_series(Context& context, const MapReader& map, Shared& shared);

// The keys of a volume; name and `where` are the caller's. Checks that there is exactly one store. In a series the path
// and clone_from are patterns still: see expand_volume().
Volume read_volume(Context& context, const MapReader& map, const VolumeDefaults& defaults, const Series& series);

// The volume of one number of a series.
Volume expand_volume(const Volume& pattern, uint64_t number);

// Reports what is wrong with a name, or in a series with a pattern of names. True when it is good.
bool check_name(Context& context, const Node& node, const std::string& name, const Series& series);

// The rules of a `faults:` list, of a volume or a journal: with test stores only.
std::vector<FaultRule> read_faults(Context& context, const MapReader& map);

// True when the map describes a store (whatever it is worth).
bool describes_store(const MapReader& map);

}  // namespace zvolt::config
