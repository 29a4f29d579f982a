// See volume_reader.h.
#include "config/volume_reader.h"

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

void read_path(Context& context, const MapReader& map, const char* key, Volume& volume) {
  const Node* node = map.value(key);
  if (node == nullptr) return;
  volume.path_where = context.at(*node);
  if (volume.kind == StoreKind::zvol) {
    const std::string why = check_zvol_name(node->text);
    if (why.empty())
      volume.path = node->text;
    else
      context.error(*node, "'zvol': " + why);
    return;
  }
  const auto path = normal_path(node->text);
  if (path)
    volume.path = *path;
  else
    context.error(*node, "'" + std::string(key) + "' expects an absolute path, found " + describe(*node));
}

// Sizes that are made by zvolt are whole blocks.
void check_multiple(Context& context, const MapReader& map, const char* key, uint64_t size, uint32_t block) {
  if (size % block == 0) return;
  context.error(*map.value(key), "'" + std::string(key) + "': " + format_size(size) +
                                     " is not a multiple of the block size " + std::to_string(block));
}

void read_provision(Context& context, const MapReader& map, Volume& volume) {
  const Node* node = map.value("provision");
  if (node == nullptr) return;
  const MapReader provision(context, *node, kProvisionSchema);
  if (volume.kind == StoreKind::zvol) {
    context.error(map.key_node("provision"),
                  "'provision' of a zvol is not supported yet: create it with 'zfs create -V'");
  } else if (volume.kind != StoreKind::file) {
    context.error(map.key_node("provision"), "'provision' goes with 'file' only");
  }
  const auto size = provision.number("size");
  if (!size) return;
  volume.provision = Provision{.size = *size, .sparse = true, .where = context.at(*node)};
  check_multiple(context, provision, "size", *size, volume.block_size);
}

void read_uuid(Context& context, const MapReader& map, Volume& volume) {
  const Node* node = map.value("uuid");
  if (node == nullptr) return;
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

void read_faults(Context& context, const MapReader& map, Volume& volume) {
  if (!map.has("faults")) return;
  if (!context.options().test_stores) {
    context.error(map.key_node("faults"), "'faults' makes a test store, which needs zvoltd --test-stores");
    return;
  }
  const Node* list = map.value("faults");
  if (list == nullptr) return;
  for (const Node* item : list->items) volume.faults.push_back(read_fault(context, *item));
}

}  // namespace

VolumeDefaults read_defaults(Context& context, const Node& node) {
  const MapReader map(context, node, kDefaultsSchema);
  VolumeDefaults out;
  out.block_size = block_size(map).value_or(out.block_size);
  out.physical_block_size = physical_block_size(map).value_or(out.physical_block_size);
  out.sync = sync_mode(map).value_or(out.sync);
  return out;
}

bool describes_store(const MapReader& map) {
  for (const Source& source : kSources)
    if (map.has(source.key)) return true;
  return false;
}

Volume read_volume(Context& context, const MapReader& map, const VolumeDefaults& defaults) {
  Volume volume;
  volume.block_size = block_size(map).value_or(defaults.block_size);
  volume.physical_block_size = physical_block_size(map).value_or(defaults.physical_block_size);
  volume.sync = sync_mode(map).value_or(defaults.sync);
  volume.read_only = map.boolean("read_only").value_or(false);
  volume.force = map.boolean("force").value_or(false);
  if (const Source* source = source_of(context, map)) {
    volume.kind = source->kind;
    if (source->kind == StoreKind::memory || source->kind == StoreKind::null) {
      volume.size = map.number(source->key).value_or(0);
      if (volume.size != 0) check_multiple(context, map, source->key, volume.size, volume.block_size);
    } else {
      read_path(context, map, source->key, volume);
    }
  }
  if (volume.physical_block_size == 512 && volume.block_size == 4096 && map.value("physical_block_size") != nullptr)
    context.error(*map.value("physical_block_size"), "'physical_block_size' is less than the block size 4096");
  read_provision(context, map, volume);
  read_uuid(context, map, volume);
  read_faults(context, map, volume);
  return volume;
}

}  // namespace zvolt::config
