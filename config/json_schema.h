// JSON Schema (draft 2020-12) of the configuration, for editors: made from the same tables that the loader checks
// against. Called by `zvoltctl schema`. Pure function, thread-safe.
#pragma once

#include <string>

namespace zvolt::config {

// Indented JSON with a newline at the end. What spans several places (references, duplicates, ranges of a file) is
// checked by the loader only.
std::string json_schema();

}  // namespace zvolt::config
