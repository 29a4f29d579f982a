// The keys of the configuration: one table per mapping, with type, limits, documentation and, for keys that are known
// but not there yet, the reason. reader.h checks a file against these tables; documentation and the editor schema come
// from them.
#pragma once

#include <cstdint>
#include <span>

namespace zvolt::config {

enum class Type : uint8_t {
  text,     // any scalar
  boolean,  // true or false
  number,   // decimal, min..max
  size,     // size.h, min..max bytes
  word,     // one of `words`
  list,
  map,
  unknown,  // not looked at: unsupported keys
};

struct Key {
  const char* name;
  Type type;
  const char* doc;
  const char* words = "";  // word: "a|b|c"; number, size: a word that is accepted too ("auto")
  uint64_t min = 0;
  uint64_t max = UINT64_MAX;
  bool required = false;
  const char* unsupported = nullptr;  // reason, when the key is known but refused
};

struct Schema {
  const char* what;  // "a volume"
  std::span<const Key> keys;
  const Schema* more = nullptr;  // keys of another table that are allowed too
};

extern const Schema kTopSchema, kListenSchema, kAdminSchema, kLogSchema, kDefaultsSchema, kVolumeSchema,
    kProvisionSchema, kFaultSchema, kTargetSchema, kLunSchema;

const Key* find_key(const Schema& schema, const char* name);

}  // namespace zvolt::config
