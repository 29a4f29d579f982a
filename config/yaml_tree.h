// YAML text -> a tree of nodes that know their file, line and column, duplicates and all. Called by include.cc only.
// Built on yaml-cpp's event interface instead of its Node: duplicate keys stay visible, aliases are shared and never
// expanded, and hostile input (depth, alias bombs, bad UTF-8) becomes a Problem. No exception leaves it. Values, no
// threading rule.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/model.h"

namespace zvolt::config {

struct Node {
  enum class Kind : uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool plain = false;  // a scalar without quotes: may be a number or a truth value
  int line = 0;        // 1-based
  int column = 0;
  const std::string* file = nullptr;                         // name of the file; lives as long as the tree
  std::string text;                                          // scalar
  std::vector<const Node*> items;                            // list
  std::vector<std::pair<const Node*, const Node*>> entries;  // map, in file order, duplicates included
  uint64_t weight = 1;  // nodes below and including this one with every alias expanded
};

class YamlTree {
 public:
  // An empty file has a null root. On a problem root() is nullptr.
  static YamlTree parse(const std::string& text, const std::string& file, std::vector<Problem>& problems);
  const Node* root() const { return root_; }

 private:
  std::unique_ptr<std::string> file_;
  std::deque<Node> nodes_;  // stable addresses
  const Node* root_ = nullptr;
};

// What a node is, in words: "a list", "the text 'abc'".
std::string describe(const Node& node);

// Limits of what is accepted. A configuration of 10000 LUNs stays well below them.
inline constexpr size_t kMaxFileBytes = size_t{1} << 20;  // the file
inline constexpr size_t kMaxDepth = 32;                   // maps and lists inside each other
inline constexpr uint64_t kMaxNodes = 250'000;            // scalars, lists and maps, aliases expanded

}  // namespace zvolt::config
