// Rules of the configuration that span several places: names used twice, references to nothing, targets open to
// everybody. Called by loader.cc after the parts were read (also when parts of them were wrong, so that one run tells
// all).
#pragma once

#include "config/reader.h"

namespace zvolt::config {

void validate(const Config& config, Context& context);

}  // namespace zvolt::config
