// See provision_reader.h. What ZFS allows: zfsprops(7).
#include "config/provision_reader.h"

#include <array>
#include <string_view>

#include "config/size.h"
#include "config/syntax.h"

namespace zvolt::config {
namespace {

constexpr uint64_t kPlainVolblocksize = uint64_t{128} << 10;  // more needs the pool feature large_blocks
constexpr size_t kMaxPropertyValue = 8191;                    // bytes, ZAP_MAXVALUELEN without the final zero
constexpr size_t kMaxProperties = 64;                         // they become arguments of one command

bool is_power_of_two(uint64_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

std::string pool_of(const std::string& dataset) {
  return dataset.substr(0, dataset.find('/'));
}

// Why a ZFS property is not the user's to name here, or an empty string.
std::string check_property_owner(const std::string& name, const std::string& value, const Volume& volume) {
  struct Owned {
    std::string_view property;
    const char* why;
  };
  static constexpr std::array<Owned, 4> kOwned = {{
      {"volsize", "has a key of its own: 'size'"},
      {"volblocksize", "has a key of its own: 'volblocksize'"},
      {"readonly", "would make the zvol unwritable for zvolt too: use 'read_only' of the volume"},
      {"type", "is not to be set: it is a volume"},
  }};
  for (const Owned& owned : kOwned)
    if (name == owned.property) return owned.why;
  if (name.starts_with("org.zvolt:")) return "belongs to zvolt, which keeps a volume's identity there";
  if (name == "refreservation" && volume.provision->sparse) return "contradicts 'sparse: true', which reserves nothing";
  if (name == "volmode" && value == "none") return "must not be 'none': the zvol would have no device";
  if (name == "sync" && value == "disabled" && volume.sync != Sync::disabled)
    return "must not be 'disabled': ZFS would lose writes that were acknowledged as durable";
  return {};
}

void read_properties(Context& context, const Node& node, Volume& volume) {
  if (node.entries.size() > kMaxProperties)
    context.error(node, "'properties' has more than " + std::to_string(kMaxProperties) + " entries");
  for (const auto& [key, value] : node.entries) {
    if (key->kind != Node::Kind::scalar || value->kind != Node::Kind::scalar) {
      const Node& wrong = key->kind == Node::Kind::scalar ? *value : *key;
      context.error(wrong.kind == Node::Kind::null ? *key : wrong,
                    "'properties' pairs names of ZFS properties with values, found " + describe(wrong));
      continue;
    }
    std::string why = check_zfs_property_name(key->text);
    if (why.empty() && value->text.size() > kMaxPropertyValue) why = "the value of a ZFS property is too long";
    if (why.empty()) {
      why = check_property_owner(key->text, value->text, volume);
      if (!why.empty()) why = "'" + key->text + "' " + why;
    }
    if (why.empty() && !volume.provision->properties.emplace(key->text, value->text).second)
      why = "'" + key->text + "' is given twice";
    if (!why.empty()) context.error(*key, "properties: " + why);
  }
}

void read_volblocksize(Context& context, const MapReader& map, Volume& volume) {
  const auto size = map.number("volblocksize");
  if (!size) return;
  const Node& node = *map.value("volblocksize");
  if (!is_power_of_two(*size)) {
    context.error(node, "'volblocksize' expects a power of two, 512 to 16MiB, found " + describe(node));
    return;
  }
  if (*size > kPlainVolblocksize)
    context.warn(node, "volblocksize " + format_size(*size) + ": more than 128KiB needs the pool feature large_blocks");
  Provision& provision = *volume.provision;
  provision.volblocksize = *size;
  if (!provision.size || *provision.size % *size == 0) return;
  const uint64_t rounded = (*provision.size / *size + 1) * *size;
  context.warn(*map.value("size"), "size " + format_size(*provision.size) + ": ZFS rounds it up to whole blocks of " +
                                       format_size(*size) + ", " + format_size(rounded));
}

void check_clone_name(Context& context, const Node& node, const Series& series, const Volume& volume) {
  std::string why;
  if (has_percent(node.text)) why = series.many ? check_pattern(node.text) : "a '%' has no place in a ZFS name";
  for (const uint64_t number : {series.first, series.last()})
    if (why.empty()) why = check_snapshot_name(expand(node.text, number));
  if (why.empty() && pool_of(node.text) != pool_of(volume.path) && !volume.path.empty())
    why = "a clone is in the pool of its snapshot, '" + pool_of(node.text) + "'";
  if (!why.empty()) context.error(node, "'clone_from': " + why);
}

void read_clone(Context& context, const MapReader& map, const Series& series, Volume& volume) {
  if (!map.has("clone_from")) return;
  for (const char* key : {"volblocksize", "sparse"})
    if (map.has(key))
      context.error(map.key_node(key),
                    "'" + std::string(key) + "' beside 'clone_from': a clone shares the blocks of its snapshot");
  volume.provision->sparse = true;
  const Node* node = map.value("clone_from");
  if (node == nullptr) return;
  check_clone_name(context, *node, series, volume);
  volume.provision->clone_from = node->text;
}

void refuse_zvol_keys(Context& context, const MapReader& map) {
  for (const char* key : {"volblocksize", "sparse", "properties", "clone_from"})
    if (map.has(key)) context.error(map.key_node(key), "'" + std::string(key) + "' goes with 'zvol' only");
}

}  // namespace

void check_multiple(Context& context, const MapReader& map, const char* key, uint64_t size, uint32_t block) {
  if (size % block == 0) return;
  context.error(*map.value(key), "'" + std::string(key) + "': " + format_size(size) +
                                     " is not a multiple of the block size " + std::to_string(block));
}

void read_provision(Context& context, const MapReader& volume_map, const Series& series, Volume& volume) {
  const Node* node = volume_map.value("provision");
  if (node == nullptr) return;
  const bool zvol = volume.kind == StoreKind::zvol;
  if (!zvol && volume.kind != StoreKind::file) {
    context.error(volume_map.key_node("provision"), "'provision' goes with 'zvol' and 'file' only");
    return;
  }
  const MapReader map(context, *node, kProvisionSchema);
  Provision& provision = volume.provision.emplace();
  provision.where = context.at(*node);
  provision.size = map.number("size");
  provision.sparse = !zvol || map.boolean("sparse").value_or(false);
  provision.allow_shrink = map.boolean("allow_shrink").value_or(false);
  if (provision.size) check_multiple(context, map, "size", *provision.size, volume.block_size);
  if (!zvol) {
    refuse_zvol_keys(context, map);
  } else {
    read_volblocksize(context, map, volume);
    read_clone(context, map, series, volume);
    if (const Node* properties = map.value("properties")) read_properties(context, *properties, volume);
  }
  if (!map.has("size") && !map.has("clone_from"))
    context.error(*node, zvol ? "'provision' needs 'size', or 'clone_from' of a snapshot" : "'provision' needs 'size'");
}

}  // namespace zvolt::config
