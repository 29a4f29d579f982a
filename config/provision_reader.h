// `provision:` of a volume. Called by volume_reader.cc.
#pragma once

#include "config/reader.h"
#include "config/template.h"

namespace zvolt::config {

// Kind, path and block size of the volume are known already.
void read_provision(Context& context, const MapReader& volume_map, const Series& series, Volume& volume);

// Sizes that are made by zvolt are whole blocks.
void check_multiple(Context& context, const MapReader& map, const char* key, uint64_t size, uint32_t block);

}  // namespace zvolt::config
