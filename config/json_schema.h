// JSON Schema (draft 7, what editors know best) of the configuration: made from the same tables that the loader checks
// against. Called by `zvoltctl schema`. Pure function, thread-safe.
#pragma once

#include <string>

namespace zvolt::config {

// Indented JSON with a newline at the end. An included file is described by "#/definitions/included". What spans
// several places (references, duplicates, ranges of a file) is checked by the loader only.
std::string json_schema();

}  // namespace zvolt::config
