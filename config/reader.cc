// See reader.h.
#include "config/reader.h"

#include <algorithm>
#include <string_view>

#include "config/duration.h"
#include "config/nearest.h"
#include "config/size.h"

namespace zvolt::config {
namespace {

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> out;
  while (!words.empty()) {
    const size_t bar = words.find('|');
    out.push_back(words.substr(0, bar));
    words = bar == std::string_view::npos ? std::string_view() : words.substr(bar + 1);
  }
  return out;
}

// Known names, those of supported keys first, so that a typing error is led to one that works.
std::vector<std::string_view> key_names(const Schema& schema) {
  std::vector<std::string_view> names;
  for (const bool supported : {true, false})
    for (const Schema* s = &schema; s != nullptr; s = s->more)
      for (const Key& key : s->keys)
        if ((key.unsupported == nullptr) == supported) names.push_back(key.name);
  return names;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

std::optional<bool> parse_boolean(const Node& node) {
  if (node.kind != Node::Kind::scalar || !node.plain) return std::nullopt;
  if (node.text == "true" || node.text == "True" || node.text == "TRUE") return true;
  if (node.text == "false" || node.text == "False" || node.text == "FALSE") return false;
  return std::nullopt;
}

std::string range_text(const Key& key) {
  const auto show = [&](uint64_t n) {
    if (key.type == Type::duration) return format_duration(n);
    return key.type == Type::number ? std::to_string(n) : format_size(n);
  };
  if (key.max == UINT64_MAX) return "at least " + show(key.min);
  return show(key.min) + " to " + show(key.max);
}

}  // namespace

std::string place_text(const Location& place, const Location& reader) {
  if (place.file == reader.file) return "line " + std::to_string(place.line);
  return place.file + ":" + std::to_string(place.line);
}

std::string key_text(const Node& node) {
  return node.kind == Node::Kind::null ? "null" : node.text;
}

std::optional<uint64_t> parse_number(const std::string& text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    if (__builtin_mul_overflow(n, uint64_t{10}, &n) || __builtin_add_overflow(n, static_cast<uint64_t>(c - '0'), &n))
      return std::nullopt;
  }
  return n;
}

MapReader::MapReader(Context& context, const Node& node, const Schema& schema)
    : context_(context), node_(node), schema_(schema) {
  if (!is_map()) {
    context_.error(node, std::string(schema.what) + " is a map of keys and values, found " + describe(node));
    return;
  }
  for (const auto& [key, value] : node.entries) add(*key, *value);
  for (const Schema* s = &schema; s != nullptr; s = s->more)
    for (const Key& key : s->keys)
      if (key.required && !has(key.name))
        context_.error(node, std::string(schema.what) + " needs the key '" + key.name + "'");
}

void MapReader::add(const Node& key_node, const Node& value) {
  if (key_node.kind == Node::Kind::list || key_node.kind == Node::Kind::map) {
    context_.error(key_node, "a key is a word, found " + describe(key_node));
    return;
  }
  const std::string name = key_text(key_node);
  const Key* key = find_key(schema_, name.c_str());
  if (key == nullptr) {
    unknown_key(key_node, name);
    return;
  }
  if (const Entry* first = find(key->name)) {
    context_.error(key_node, "key '" + name + "' is already given at line " + std::to_string(first->key_node->line));
    return;
  }
  Entry entry{key, &key_node, &value};
  if (key->unsupported != nullptr) {
    context_.error(key_node, "'" + name + "' is not supported yet: " + key->unsupported);
    entry.value = nullptr;
  } else if (!check_type(entry, value)) {
    entry.value = nullptr;
  }
  entries_.push_back(entry);
}

void MapReader::unknown_key(const Node& key_node, const std::string& name) {
  if (schema_.main != nullptr && find_key(*schema_.main, name.c_str()) != nullptr) {
    context_.error(key_node, "'" + name + "' stands in the main file only, not in " + schema_.what);
    return;
  }
  const std::string near = nearest(name, key_names(schema_));
  std::string message = "unknown key '" + name + "' in " + schema_.what;
  if (name == "<<")
    message += ": merge keys are not supported, repeat the values";
  else if (!near.empty())
    message += ", did you mean '" + near + "'?";
  context_.error(key_node, message);
}

bool MapReader::wrong(const Entry& entry, const Node& value, const std::string& expected) {
  const bool nothing = value.kind == Node::Kind::null;
  const std::string found = nothing ? "it has no value" : "found " + describe(value);
  context_.error(nothing ? *entry.key_node : value,
                 "'" + std::string(entry.key->name) + "' expects " + expected + ", " + found);
  return false;
}

bool MapReader::check_type(Entry& entry, const Node& value) {
  const auto is = [&](Node::Kind kind) { return value.kind == kind; };
  switch (entry.key->type) {
    case Type::text:
      return is(Node::Kind::scalar) || wrong(entry, value, "text");
    case Type::boolean:
      return parse_boolean(value).has_value() || wrong(entry, value, "true or false");
    case Type::list:
      return is(Node::Kind::list) || wrong(entry, value, "a list");
    case Type::map:
      return is(Node::Kind::map) || wrong(entry, value, "a map");
    case Type::number:
      return check_number(entry, value);
    case Type::size:
    case Type::rate:
      return check_size(entry, value);
    case Type::duration:
      return check_duration(entry, value);
    case Type::word: {
      const auto words = split_words(entry.key->words);
      if (!is(Node::Kind::scalar)) return wrong(entry, value, listed(words));
      if (std::find(words.begin(), words.end(), value.text) != words.end()) return true;
      return wrong(entry, value, listed(words));
    }
    case Type::unknown:
      break;
  }
  return true;
}

bool MapReader::check_number(Entry& entry, const Node& value) {
  const Key& key = *entry.key;
  const std::string also = *key.words == '\0' ? "" : std::string("'") + key.words + "' or ";
  if (value.kind != Node::Kind::scalar) return wrong(entry, value, also + "a number");
  if (*key.words != '\0' && value.text == key.words) return true;
  const auto n = value.plain ? parse_number(value.text) : std::nullopt;
  if (!n) return wrong(entry, value, also + "a decimal number");
  if (*n < key.min || *n > key.max) return wrong(entry, value, also + "a number, " + range_text(key));
  entry.number = *n;
  entry.has_number = true;
  return true;
}

bool MapReader::check_size(Entry& entry, const Node& value) {
  const Key& key = *entry.key;
  if (value.kind != Node::Kind::scalar) return wrong(entry, value, "a size");
  if (*key.words != '\0' && value.text == key.words) return true;
  std::string text = value.text;
  if (key.type == Type::rate && text.ends_with("/s")) text.resize(text.size() - 2);
  const ParsedSize size = parse_size(text);
  if (!size.bytes) {
    context_.error(value, "'" + std::string(key.name) + "': " + size.error + ", found " + describe(value));
    return false;
  }
  if (*size.bytes < key.min || *size.bytes > key.max) return wrong(entry, value, "a size, " + range_text(key));
  entry.number = *size.bytes;
  entry.has_number = true;
  return true;
}

bool MapReader::check_duration(Entry& entry, const Node& value) {
  const Key& key = *entry.key;
  const auto ms = value.kind == Node::Kind::scalar ? parse_duration(value.text) : std::nullopt;
  if (!ms) return wrong(entry, value, "a time like 500ms, 30s, 5min or 1h");
  if (*ms < key.min || *ms > key.max) return wrong(entry, value, "a time, " + range_text(key));
  entry.number = *ms;
  entry.has_number = true;
  return true;
}

const MapReader::Entry* MapReader::find(const char* name) const {
  for (const Entry& entry : entries_)
    if (std::string_view(entry.key->name) == name) return &entry;
  return nullptr;
}

const Node& MapReader::key_node(const char* name) const {
  const Entry* entry = find(name);
  return entry == nullptr ? node_ : *entry->key_node;
}

const Node* MapReader::value(const char* name) const {
  const Entry* entry = find(name);
  return entry == nullptr ? nullptr : entry->value;
}

std::optional<std::string> MapReader::text(const char* name) const {
  const Node* node = value(name);
  return node == nullptr ? std::nullopt : std::optional(node->text);
}

std::optional<bool> MapReader::boolean(const char* name) const {
  const Node* node = value(name);
  return node == nullptr ? std::nullopt : parse_boolean(*node);
}

std::optional<uint64_t> MapReader::number(const char* name) const {
  const Entry* entry = find(name);
  return entry == nullptr || !entry->has_number ? std::nullopt : std::optional(entry->number);
}

}  // namespace zvolt::config
