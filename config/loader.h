// YAML text -> Config, strictly: every problem of a file is found in one run, with file:line:column and the nearest
// valid key. One table of keys drives the loader and the JSON Schema. Called by zvoltd and zvoltctl.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "config/model.h"

namespace zvolt::config {

struct Loaded {
  Config config;                  // meaningful only when problems is empty
  std::vector<Problem> problems;  // errors, in the order of the files and their lines
  std::vector<Problem> warnings;
  bool ok() const { return problems.empty(); }
};

struct LoadOptions {
  bool test_stores = false;  // accept `faults:` and `null:`-like test doubles (zvoltd --test-stores)
};

Loaded load_file(const std::string& path, const LoadOptions& options = {});
// `file_name` is where the text came from: paths of `include:` are relative to it.
Loaded load_text(const std::string& text, const std::string& file_name, const LoadOptions& options = {});

}  // namespace zvolt::config
