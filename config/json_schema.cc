// See json_schema.h. Every table becomes one entry of `definitions`; keys refer to them.
#include "config/json_schema.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "config/schema.h"

namespace zvolt::config {
namespace {

using nlohmann::json;

// What parse_size() and parse_duration() take, for the editor; they have the last word.
constexpr const char* kSizePattern = "^[0-9]+(\\.[0-9]+)? ?([bB]|[kKmMgGtTpPeE]([iI][bB])?)?$";
constexpr const char* kRatePattern = "^[0-9]+(\\.[0-9]+)? ?([bB]|[kKmMgGtTpPeE]([iI][bB])?)?(/s)?$";
constexpr const char* kDurationPattern = "^[0-9]+ ?(ms|s|m|min|h|d)?$";

struct Named {
  const Schema* schema;
  const char* name;
};
constexpr Named kNames[] = {{&kTopSchema, "main"},        {&kIncludedSchema, "included"},
                            {&kListenSchema, "listen"},   {&kAdminSchema, "admin"},
                            {&kLogSchema, "log"},         {&kDefaultsSchema, "defaults"},
                            {&kJournalSchema, "journal"}, {&kJournalProvisionSchema, "journal_provision"},
                            {&kVolumeSchema, "volume"},   {&kProvisionSchema, "provision"},
                            {&kLimitSchema, "limit"},     {&kFaultSchema, "fault"},
                            {&kTargetSchema, "target"},   {&kLunSchema, "lun"}};

json reference(const Schema& schema) {
  for (const Named& named : kNames)
    if (named.schema == &schema) return {{"$ref", std::string("#/definitions/") + named.name}};
  return json::object();
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const size_t bar = words.find('|');
    out.emplace_back(words.substr(0, bar));
    words = bar == std::string_view::npos ? std::string_view() : words.substr(bar + 1);
  }
  return out;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// YAML reads 512 as a number and "512" as text: the loader takes both for a word.
json words(const Key& key) {
  json values = json::array();
  for (const std::string& word : split(key.words)) {
    values.push_back(word);
    if (is_number(word)) values.push_back(std::stoull(word));
  }
  return {{"enum", values}};
}

// Text is any scalar: YAML makes numbers and truth values of some (properties: { compression: off }).
json any_scalar() {
  return {{"type", {"string", "number", "boolean"}}};
}

json quantity(const Key& key, const char* pattern, uint64_t unit) {
  json number = {{"type", "integer"}, {"minimum", key.min / unit}};
  if (key.max != UINT64_MAX) number["maximum"] = key.max / unit;
  json choices = json::array({number});
  if (pattern != nullptr) choices.push_back({{"type", "string"}, {"pattern", pattern}});
  for (const std::string& word : split(key.words)) choices.push_back({{"const", word}});
  return choices.size() == 1 ? number : json{{"anyOf", choices}};
}

json item(const Key& key) {
  switch (key.items) {
    case Items::texts:
      return any_scalar();
    case Items::numbers:
      return {{"type", "integer"}};
    case Items::maps:
      return reference(*key.table);
    case Items::maps_or_text:
      return {{"anyOf", {{{"type", "string"}}, reference(*key.table)}}};
    case Items::none:
      break;
  }
  return json::object();
}

json value_of(const Key& key) {
  switch (key.type) {
    case Type::text:
      return any_scalar();
    case Type::boolean:
      return {{"type", "boolean"}};
    case Type::number:
      return quantity(key, nullptr, 1);
    case Type::size:
      return quantity(key, kSizePattern, 1);
    case Type::rate:
      return quantity(key, kRatePattern, 1);
    case Type::duration:
      return quantity(key, kDurationPattern, 1000);  // a number alone is seconds
    case Type::word:
      return words(key);
    case Type::list:
      return {{"type", "array"}, {"items", item(key)}};
    case Type::map:
      if (key.items != Items::none) return {{"type", "object"}, {"additionalProperties", item(key)}};
      return reference(*key.table);
    case Type::unknown:
      break;
  }
  return json::object();
}

json property(const Key& key) {
  if (key.unsupported != nullptr)
    return {{"description", std::string(key.doc) + " Not supported yet: " + key.unsupported}, {"not", json::object()}};
  json out = value_of(key);
  // Draft 7 ignores what stands beside a $ref.
  if (out.contains("$ref")) out = {{"allOf", json::array({out})}};
  out["description"] = key.doc;
  return out;
}

json definition(const Schema& schema) {
  json properties = json::object(), required = json::array();
  for (const Schema* s = &schema; s != nullptr; s = s->more)
    for (const Key& key : s->keys) {
      if (properties.contains(key.name)) continue;  // the nearer table counts, as in find_key()
      properties[key.name] = property(key);
      if (key.required) required.push_back(key.name);
    }
  json out = {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  if (!required.empty()) out["required"] = required;
  json alternatives = json::array();
  for (const std::string& name : split(schema.one_of)) alternatives.push_back({{"required", json::array({name})}});
  if (!alternatives.empty()) out["oneOf"] = alternatives;
  return out;
}

}  // namespace

std::string json_schema() {
  json definitions = json::object();
  for (const Named& named : kNames) definitions[named.name] = definition(*named.schema);
  const json document = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                         {"title", "zvolt configuration"},
                         {"allOf", json::array({reference(kTopSchema)})},
                         {"definitions", definitions}};
  return document.dump(2) + "\n";
}

}  // namespace zvolt::config
