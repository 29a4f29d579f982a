// The JSON Schema says of every key what the tables say. schema_check.py validates the examples against it.
#include "config/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <nlohmann/json.hpp>

#include "config/schema.h"

namespace zvolt::config::test {
namespace {

using nlohmann::json;

const json& schema() {
  static const json kSchema = json::parse(json_schema());
  return kSchema;
}

void expect_table(const char* name, const Schema& table) {
  const json& definition = schema()["definitions"][name];
  ASSERT_TRUE(definition.is_object()) << name;
  EXPECT_EQ(definition["additionalProperties"], false) << name;
  size_t keys = 0;
  for (const Schema* s = &table; s != nullptr; s = s->more)
    for (const Key& key : s->keys) {
      SCOPED_TRACE(std::string(name) + "." + key.name);
      if (find_key(table, key.name) != &key) continue;  // hidden by a nearer one
      ++keys;
      const json& property = definition["properties"][key.name];
      ASSERT_TRUE(property.is_object());
      EXPECT_TRUE(property["description"].get<std::string>().starts_with(key.doc));
      EXPECT_EQ(property.contains("not"), key.unsupported != nullptr);
      const json required = definition.value("required", json::array());
      EXPECT_EQ(std::find(required.begin(), required.end(), key.name) != required.end(), key.required);
    }
  EXPECT_EQ(definition["properties"].size(), keys) << name;
}

TEST(JsonSchema, EveryTableWithEveryKeyAndItsText) {
  expect_table("main", kTopSchema);
  expect_table("included", kIncludedSchema);
  expect_table("listen", kListenSchema);
  expect_table("admin", kAdminSchema);
  expect_table("log", kLogSchema);
  expect_table("defaults", kDefaultsSchema);
  expect_table("journal", kJournalSchema);
  expect_table("journal_provision", kJournalProvisionSchema);
  expect_table("volume", kVolumeSchema);
  expect_table("provision", kProvisionSchema);
  expect_table("limit", kLimitSchema);
  expect_table("fault", kFaultSchema);
  expect_table("target", kTargetSchema);
  expect_table("lun", kLunSchema);
  EXPECT_EQ(schema()["definitions"].size(), 14u);
}

TEST(JsonSchema, EveryReferenceLeadsSomewhere) {
  size_t references = 0;
  const std::function<void(const json&)> walk = [&](const json& node) {
    if (node.is_object() && node.contains("$ref")) {
      ++references;
      const auto text = node["$ref"].get<std::string>();
      EXPECT_TRUE(schema().contains(json::json_pointer(text.substr(1)))) << text;
    }
    if (node.is_structured())
      for (const json& child : node) walk(child);
  };
  walk(schema());
  EXPECT_GE(references, 10u);
}

}  // namespace
}  // namespace zvolt::config::test
