// Verbs for tests of the loader: YAML in, problems as "line:column: message" out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/loader.h"

namespace zvolt::config::test {

inline std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> out;
  for (const Problem& p : problems)
    out.push_back(std::to_string(p.where.line) + ":" + std::to_string(p.where.column) + ": " + p.message);
  return out;
}

inline std::vector<std::string> problems_of(const std::string& yaml, const LoadOptions& options = {}) {
  return texts(load_text(yaml, "test.yaml", options).problems);
}

inline std::vector<std::string> warnings_of(const std::string& yaml) {
  return texts(load_text(yaml, "test.yaml").warnings);
}

// A configuration that is good, with a place for more: lines 1 to 5, then `volumes`.
inline std::string with_volumes(const std::string& volumes) {
  return "listen: [127.0.0.1]\n"
         "volumes:\n" +
         volumes;
}

// One target on loopback with these LUN lines, each "      - { ... }". The first is line 5.
inline std::string with_luns(const std::string& luns) {
  return "listen: [127.0.0.1]\n"
         "targets:\n"
         "  - name: iqn.2026-11.org.example:t\n"
         "    luns:\n" +
         luns;
}

// Loads and expects no problem; the test goes on with what was loaded.
inline Config good(const std::string& yaml, const LoadOptions& options = {}) {
  const Loaded loaded = load_text(yaml, "test.yaml", options);
  EXPECT_EQ(texts(loaded.problems), std::vector<std::string>());
  return loaded.config;
}

}  // namespace zvolt::config::test
