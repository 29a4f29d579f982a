// See volume_reader.h.
#include "config/volume_reader.h"

#include "config/provision_reader.h"
#include "config/size.h"
#include "config/syntax.h"

namespace zvolt::config {
namespace {

struct Source {
  const char* key;
  StoreKind kind;
};
constexpr Source kSources[] = {{"zvol", StoreKind::zvol},
                               {"device", StoreKind::device},
                               {"file", StoreKind::file},
                               {"memory", StoreKind::memory},
                               {"null", StoreKind::null}};

std::optional<uint32_t> block_size(const MapReader& map) {
  const auto text = map.text("block_size");
  if (!text) return std::nullopt;
  return *text == "4096" ? 4096 : 512;
}

std::optional<uint32_t> physical_block_size(const MapReader& map) {
  const auto text = map.text("physical_block_size");
  if (!text) return std::nullopt;
  if (*text == "auto") return 0;
  if (*text == "volblocksize") return UINT32_MAX;
  return *text == "4096" ? 4096 : 512;
}

std::optional<Sync> sync_mode(const MapReader& map) {
  const auto text = map.text("sync");
  if (!text) return std::nullopt;
  if (*text == "always") return Sync::always;
  return *text == "disabled" ? Sync::disabled : Sync::standard;
}

// The one key that says what is served; several or none are errors.
const Source* source_of(Context& context, const MapReader& map) {
  const Source* found = nullptr;
  for (const Source& source : kSources) {
    if (!map.has(source.key)) continue;
    if (found != nullptr) {
      context.error(map.key_node(source.key),
                    "'" + std::string(source.key) + "' beside '" + found->key + "': a volume has one store");
      continue;
    }
    found = &source;
  }
  if (found == nullptr && map.is_map())
    context.error(map.node(), "the volume has no store: give one of 'zvol', 'device', 'file', 'memory' or 'null'");
  return found;
}

// Why the path is refused, or what it is in its one spelling. Of a series the shortest and the longest name are tried.
std::string check_path(StoreKind kind, const std::string& text, const Series& series) {
  if (kind != StoreKind::zvol) return normal_path(text) ? "" : "expects an absolute path";
  std::string why = check_zvol_name(series.many ? expand(text, series.first) : text);
  if (why.empty() && series.many) why = check_zvol_name(expand(text, series.last()));
  return why;
}

void read_path(Context& context, const MapReader& map, const char* key, const Series& series, Volume& volume) {
  const Node* node = map.value(key);
  if (node == nullptr) return;
  volume.path_where = context.at(*node);
  const std::string quoted = "'" + std::string(key) + "'";
  if (series.many) {
    const std::string why = check_pattern(node->text);
    if (!why.empty()) return context.error(*node, quoted + " beside 'count': " + why);
  }
  const std::string why = check_path(volume.kind, node->text, series);
  if (why.empty())
    volume.path = volume.kind == StoreKind::zvol ? node->text : normal_path(node->text).value_or("");
  else if (volume.kind == StoreKind::zvol)
    context.error(*node, quoted + ": " + why);
  else
    context.error(*node, quoted + " " + why + ", found " + describe(*node));
}

void read_limit(Context& context, const MapReader& map, Volume& volume) {
  const Node* node = map.value("limit");
  if (node == nullptr) return;
  const MapReader limit(context, *node, kLimitSchema);
  volume.limit.iops = limit.number("iops").value_or(0);
  volume.limit.bandwidth = limit.number("bandwidth").value_or(0);
  volume.limit.burst_ms = static_cast<unsigned>(limit.number("burst").value_or(volume.limit.burst_ms));
  if (!limit.has("iops") && !limit.has("bandwidth"))
    context.error(map.key_node("limit"), "'limit' needs 'iops' or 'bandwidth'");
}

unsigned whole_seconds(uint64_t ms) {
  return static_cast<unsigned>((ms + 999) / 1000);
}

void read_wait(Context& context, const MapReader& map, Volume& volume) {
  if (!map.has("wait_for_device")) return;
  if (volume.kind != StoreKind::zvol && volume.kind != StoreKind::device)
    context.error(map.key_node("wait_for_device"), "'wait_for_device' goes with 'zvol' and 'device' only");
  if (const auto ms = map.number("wait_for_device")) volume.not_ready_seconds = whole_seconds(*ms);
}

void read_uuid(Context& context, const MapReader& map, const Series& series, Volume& volume) {
  const Node* node = map.value("uuid");
  if (node == nullptr) return;
  if (series.many) return context.error(map.key_node("uuid"), "'uuid' beside 'count': every volume has its own");
  volume.uuid = parse_uuid(node->text);
  volume.uuid_where = context.at(*node);
  if (!volume.uuid)
    context.error(*node, "'uuid' expects a UUID like 5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44, found " + describe(*node));
}

FaultRule read_fault(Context& context, const Node& node) {
  const MapReader map(context, node, kFaultSchema);
  FaultRule rule;
  rule.op = map.text("op").value_or(rule.op);
  rule.action = map.text("action").value_or("");
  rule.offset = map.number("offset").value_or(0);
  rule.length = map.number("length").value_or(0);
  rule.after = map.number("after").value_or(0);
  rule.count = map.number("count").value_or(0);
  rule.bytes = map.number("bytes").value_or(0);
  rule.delay_us = map.number("delay_us").value_or(0);
  rule.error = static_cast<int>(map.number("error").value_or(5));
  return rule;
}

void read_journal(Context& context, const MapReader& map, Volume& volume) {
  const Node* node = map.value("journal");
  if (node == nullptr) return;
  volume.journal = node->text;
  volume.journal_where = context.at(*node);
  const bool in_memory = volume.kind == StoreKind::memory || volume.kind == StoreKind::null;
  if (in_memory && !context.options().test_stores)
    context.error(map.key_node("journal"), "'journal' beside a store in memory: there is nothing to keep");
  if (volume.read_only)
    context.error(map.key_node("journal"), "'journal' beside 'read_only: true': nothing is written");
  if (volume.sync == Sync::disabled)
    context.error(map.key_node("journal"),
                  "'journal' beside 'sync: disabled': a journal is for writes that must not be lost");
}

}  // namespace

VolumeDefaults read_defaults(Context& context, const Node& node) {
  const MapReader map(context, node, kDefaultsSchema);
  VolumeDefaults out;
  out.block_size = block_size(map).value_or(out.block_size);
  out.physical_block_size = physical_block_size(map).value_or(out.physical_block_size);
  out.sync = sync_mode(map).value_or(out.sync);
  if (const auto ms = map.number("wait_for_device")) out.not_ready_seconds = whole_seconds(*ms);
  return out;
}

std::vector<FaultRule> read_faults(Context& context, const MapReader& map) {
  std::vector<FaultRule> out;
  if (!map.has("faults")) return out;
  if (!context.options().test_stores) {
    context.error(map.key_node("faults"), "'faults' makes a test store, which needs zvoltd --test-stores");
    return out;
  }
  const Node* list = map.value("faults");
  if (list == nullptr) return out;
  for (const Node* item : list->items) out.push_back(read_fault(context, *item));
  return out;
}

bool describes_store(const MapReader& map) {
  for (const Source& source : kSources)
    if (map.has(source.key)) return true;
  return false;
}

Series read_series(Context& context, const MapReader& map, Shared& shared) {
  Series series;
  if (map.has("first") && !map.has("count")) context.error(map.key_node("first"), "'first' goes with 'count'");
  series.many = map.has("count");
  const auto count = map.number("count");
  if (!count) return series;
  series.first = map.number("first").value_or(1);
  if (*count > shared.template_items) {
    context.error(map.key_node("count"),
                  "'count': all templates together make at most " + std::to_string(kMaxTemplateItems) + " entries");
    return series;
  }
  shared.template_items -= *count;
  series.count = *count;
  return series;
}

bool check_name(Context& context, const Node& node, const std::string& name, const Series& series) {
  std::string why;
  if (series.many) {
    why = check_pattern(name);
    if (!why.empty()) why = "'" + name + "' beside 'count': " + why;
    if (why.empty()) why = check_volume_name(expand(name, series.first));
    if (why.empty()) why = check_volume_name(expand(name, series.last()));
  } else if (has_percent(name) && check_pattern(name).empty()) {
    why = "'" + name + "' is a pattern, which needs 'count' beside it";
  } else {
    why = check_volume_name(name);
  }
  if (!why.empty()) context.error(node, why);
  return why.empty();
}

Volume read_volume(Context& context, const MapReader& map, const VolumeDefaults& defaults, const Series& series) {
  Volume volume;
  volume.block_size = block_size(map).value_or(defaults.block_size);
  volume.physical_block_size = physical_block_size(map).value_or(defaults.physical_block_size);
  volume.sync = sync_mode(map).value_or(defaults.sync);
  volume.not_ready_seconds = defaults.not_ready_seconds;
  volume.read_only = map.boolean("read_only").value_or(false);
  volume.force = map.boolean("force").value_or(false);
  if (const Source* source = source_of(context, map)) {
    volume.kind = source->kind;
    if (source->kind == StoreKind::memory || source->kind == StoreKind::null) {
      volume.size = map.number(source->key).value_or(0);
      if (volume.size != 0) check_multiple(context, map, source->key, volume.size, volume.block_size);
    } else {
      read_path(context, map, source->key, series, volume);
    }
  }
  if (volume.physical_block_size == 512 && volume.block_size == 4096 && map.value("physical_block_size") != nullptr)
    context.error(*map.value("physical_block_size"), "'physical_block_size' is less than the block size 4096");
  read_provision(context, map, series, volume);
  read_limit(context, map, volume);
  read_wait(context, map, volume);
  read_uuid(context, map, series, volume);
  read_journal(context, map, volume);
  volume.faults = read_faults(context, map);
  return volume;
}

Volume expand_volume(const Volume& pattern, uint64_t number) {
  Volume volume = pattern;
  volume.name = expand(pattern.name, number);
  volume.path = expand(pattern.path, number);
  if (volume.provision) volume.provision->clone_from = expand(volume.provision->clone_from, number);
  return volume;
}

}  // namespace zvolt::config
