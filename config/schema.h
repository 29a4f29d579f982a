// The keys of the configuration: one table per mapping, with type, limits, documentation and, for keys that are known
// but not there yet, the reason. reader.h checks a file against these tables; json_schema.h makes the editors'
// schema of them.
#pragma once

#include <cstdint>
#include <span>

namespace zvolt::config {

enum class Type : uint8_t {
  text,      // any scalar
  boolean,   // true or false
  number,    // decimal, min..max
  size,      // size.h, min..max bytes
  rate,      // a size per second: "100MiB", "100MiB/s"
  duration,  // duration.h, min..max milliseconds
  word,      // one of `words`
  list,
  map,
  unknown,  // not looked at: unsupported keys
};

// What a list holds, or the values of a map whose keys are names of the user's.
enum class Items : uint8_t {
  none,
  texts,         // text
  numbers,       // numbers
  maps,          // mappings by `table`
  maps_or_text,  // either
};

struct Schema;

struct Key {
  const char* name;
  Type type;
  const char* doc;
  const char* words = "";  // word: "a|b|c"; number, size: a word that is accepted too ("auto")
  uint64_t min = 0;
  uint64_t max = UINT64_MAX;
  bool required = false;
  const char* unsupported = nullptr;  // reason, when the key is known but refused
  const Schema* table = nullptr;      // map: its keys; with `items`: those of each item
  Items items = Items::none;          // list: what it holds; map: its keys are names, its values are these
};

struct Schema {
  const char* what;  // "a volume"
  std::span<const Key> keys;
  const Schema* more = nullptr;  // keys of another table that are allowed too
  const Schema* main = nullptr;  // keys of the main file, where they are not allowed: for the message
  const char* one_of = "";       // "zvol|device": exactly one of these keys is given
};

extern const Schema kTopSchema, kIncludedSchema, kListenSchema, kAdminSchema, kLogSchema, kDefaultsSchema,
    kJournalSchema, kJournalProvisionSchema, kVolumeSchema, kProvisionSchema, kLimitSchema, kFaultSchema, kTargetSchema,
    kLunSchema;

const Key* find_key(const Schema& schema, const char* name);

}  // namespace zvolt::config
