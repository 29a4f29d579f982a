// Checks a YAML mapping against its table of keys (schema.h) and hands out typed values. Called by loader.cc and its
// parts. What is wrong goes into Context::problems; a wrong value is then as if it were absent. Not shared between
// threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/loader.h"
#include "config/schema.h"
#include "config/yaml_tree.h"

namespace zvolt::config {

// Problems of one run. More than this many are not listed: nobody reads them.
inline constexpr size_t kMaxProblems = 200;
// Problems of one place: an entry that makes many volumes would say the same of each.
inline constexpr size_t kMaxProblemsOfOnePlace = 3;

class Context {
 public:
  Context(const LoadOptions& options, Loaded& out) : options_(options), out_(out) {}
  const LoadOptions& options() const { return options_; }
  std::vector<Problem>& problems() { return out_.problems; }
  Location at(const Node& node) const { return {*node.file, node.line, node.column}; }
  void error(const Location& where, std::string message) { out_.problems.push_back({where, std::move(message)}); }
  void error(const Node& node, std::string message) { error(at(node), std::move(message)); }
  void warn(const Location& where, std::string message) { out_.warnings.push_back({where, std::move(message)}); }
  void warn(const Node& node, std::string message) { warn(at(node), std::move(message)); }

 private:
  LoadOptions options_;
  Loaded& out_;
};

class MapReader {
 public:
  // Reports what is no mapping, unknown, duplicate, unsupported, missing, or of the wrong type.
  MapReader(Context& context, const Node& node, const Schema& schema);

  bool is_map() const { return node_.kind == Node::Kind::map; }
  bool has(const char* name) const { return find(name) != nullptr; }  // present, whatever its value is worth
  const Node& node() const { return node_; }
  const Node& key_node(const char* name) const;  // has(name), else the mapping itself

  // The value when it is present and of the type in the table.
  const Node* value(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  std::optional<bool> boolean(const char* name) const;
  // Numbers, sizes and rates in bytes, durations in milliseconds; absent also when the value is the word ("auto").
  std::optional<uint64_t> number(const char* name) const;

 private:
  struct Entry {
    const Key* key;
    const Node* key_node;
    const Node* value;  // nullptr: wrong, already reported
    uint64_t number = 0;
    bool has_number = false;
  };
  const Entry* find(const char* name) const;
  void add(const Node& key_node, const Node& value);
  bool check_type(Entry& entry, const Node& value);
  bool check_number(Entry& entry, const Node& value);
  bool check_size(Entry& entry, const Node& value);
  bool check_duration(Entry& entry, const Node& value);
  void unknown_key(const Node& key_node, const std::string& name);
  bool wrong(const Entry& entry, const Node& value, const std::string& expected);

  Context& context_;
  const Node& node_;
  const Schema& schema_;
  std::vector<Entry> entries_;
};

// "line 4", or "other.yaml:4" when `place` is in another file than `reader`.
std::string place_text(const Location& place, const Location& reader);

// Text of a mapping's key: plain `null` is the name of a key here, not the absence of one.
std::string key_text(const Node& node);

// Decimal number, no sign, no leading zero.
std::optional<uint64_t> parse_number(const std::string& text);

}  // namespace zvolt::config
