// `journals:` of the YAML: log devices by name. Called by loader.cc.
#pragma once

#include "config/model.h"
#include "config/reader.h"

namespace zvolt::config {

// Appends to config.journals. What is wrong goes into the context's problems.
void read_journals(Context& context, const Node& node, Config& config);

}  // namespace zvolt::config
