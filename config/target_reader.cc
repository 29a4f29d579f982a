// See target_reader.h.
#include "config/target_reader.h"

#include <algorithm>

#include "config/syntax.h"

namespace zvolt::config {
namespace {

constexpr size_t kMaxAlias = 255;    // bytes: TargetAlias, RFC 7143 13.7
constexpr uint64_t kMaxLun = 16383;  // SAM-5 4.7.4: flat space addressing

class TargetReader {
 public:
  TargetReader(Context& context, Shared& shared, Config& config)
      : context_(context), shared_(shared), config_(config) {}

  void read(const Node& list) {
    for (const Node* item : list.items) {
      const MapReader map(context_, *item, kTargetSchema);
      if (!map.is_map()) continue;
      Target target;
      target.where = context_.at(*item);
      read_target_names(map, target);
      read_access(map, target);
      if (const Node* luns = map.value("luns"))
        for (const Node* lun : luns->items) read_lun(*lun, target);
      config_.targets.push_back(std::move(target));
    }
  }

 private:
  void read_target_names(const MapReader& map, Target& target) {
    if (const Node* name = map.value("name")) {
      target.name = name->text;
      target.where = context_.at(*name);
      const std::string why = check_iscsi_name(name->text);
      if (!why.empty()) context_.error(*name, "target name: " + why);
    }
    if (const Node* alias = map.value("alias")) {
      target.alias = alias->text;
      if (alias->text.size() > kMaxAlias) context_.error(*alias, "'alias' has at most 255 bytes");
    }
  }

  void read_access(const MapReader& map, Target& target) {
    target.allow_any = map.boolean("allow_any").value_or(false);
    target.restricted = map.has("initiators") || map.has("auth");
    if (const Node* groups = map.value("groups"))
      for (const Node* group : groups->items) read_group(*group, target);
    const Node* initiators = map.value("initiators");
    if (initiators == nullptr) return;
    if (initiators->items.empty()) context_.error(*initiators, "'initiators' is empty: name who may log in, or '*'");
    for (const Node* item : initiators->items) {
      const std::string why = item->kind == Node::Kind::scalar ? check_initiator_pattern(item->text)
                                                               : "a pattern is text, found " + describe(*item);
      if (why.empty())
        target.initiators.push_back(item->text);
      else
        context_.error(*item, "initiators: " + why);
    }
  }

  void read_group(const Node& node, Target& target) {
    const auto tag = node.kind == Node::Kind::scalar && node.plain ? parse_number(node.text) : std::nullopt;
    if (!tag || *tag == 0 || *tag > UINT16_MAX) {
      context_.error(node, "a portal group is a number, 1 to 65535, found " + describe(node));
      return;
    }
    const auto group = static_cast<uint16_t>(*tag);
    const bool known = std::any_of(config_.listen.begin(), config_.listen.end(),
                                   [&](const Listen& listen) { return listen.group == group; });
    if (!known) context_.error(node, "no address of 'listen' is in portal group " + std::to_string(group));
    target.groups.push_back(group);
  }

  // Whether `lun` and the numbers behind it are LUN numbers.
  void check_numbers(const Node& node, uint64_t number, const Series& series) {
    if (number + series.count - 1 <= kMaxLun) return;
    context_.error(node, "LUN " + std::to_string(number) + " and 'count' " + std::to_string(series.count) +
                             " go beyond the highest LUN, " + std::to_string(kMaxLun));
  }

  void read_lun(const Node& node, Target& target) {
    const MapReader map(context_, node, kLunSchema);
    if (!map.is_map()) return;
    Lun lun;
    lun.read_only = map.boolean("read_only").value_or(false);
    const Series series = read_series(context_, map, shared_);
    const auto number = map.number("lun");
    if (number) lun.where = context_.at(*map.value("lun"));
    if (number) check_numbers(*map.value("lun"), *number, series);
    if (map.has("volume"))
      reference_volume(map, series, number, lun, target);
    else
      in_line_volume(map, series, number, lun, target);
  }

  // One LUN of a series; `index` counts from 0. Without a number (already reported) there is none.
  static void add_lun(Target& target, Lun lun, std::optional<uint64_t> number, uint64_t index) {
    if (!number || *number + index > kMaxLun) return;
    lun.number = static_cast<uint16_t>(*number + index);
    target.luns.push_back(std::move(lun));
  }

  // `volume: NAME`: keys that describe a volume belong to that volume, not to its mapping.
  void reference_volume(const MapReader& map, const Series& series, std::optional<uint64_t> number, Lun& lun,
                        Target& target) {
    for (const Key& key : kVolumeSchema.keys)
      if (map.has(key.name) && !belongs_to_lun(key.name) && key.unsupported == nullptr)
        context_.error(map.key_node(key.name),
                       "'" + std::string(key.name) + "' beside 'volume': it belongs to the volume itself");
    if (map.has("name"))
      context_.error(map.key_node("name"), "'name' beside 'volume': the volume has its name already");
    std::string name;
    if (const Node* volume = map.value("volume")) {
      name = volume->text;
      lun.volume_where = context_.at(*volume);
      const std::string why = series.many ? check_pattern(name) : "";
      if (!why.empty()) context_.error(*volume, "'volume' beside 'count': " + why);
      if (!why.empty()) return;
    }
    for (uint64_t i = 0; i < series.count; ++i) {
      lun.volume = series.many ? expand(name, series.first + i) : name;
      add_lun(target, lun, number, i);
    }
  }

  static bool belongs_to_lun(const std::string& name) {
    return name == "count" || name == "first" || find_key({kLunSchema.what, kLunSchema.keys}, name.c_str()) != nullptr;
  }

  void in_line_volume(const MapReader& map, const Series& series, std::optional<uint64_t> number, Lun& lun,
                      Target& target) {
    if (!describes_store(map)) {
      context_.error(
          map.node(),
          "the LUN has no store: give 'volume: NAME' or one of 'zvol', 'device', 'file', 'memory' or 'null'");
      return;
    }
    Volume pattern = read_volume(context_, map, shared_.defaults, series);
    pattern.in_line = true;
    pattern.where = context_.at(map.node());
    uint64_t count = series.count;
    if (const Node* name = map.value("name")) {
      pattern.where = context_.at(*name);
      pattern.name = name->text;
      if (!check_name(context_, *name, name->text, series)) count = 1;
    }
    lun.in_line = true;
    lun.volume_where = pattern.where;
    for (uint64_t i = 0; i < count; ++i) {
      Volume volume = series.many ? expand_volume(pattern, series.first + i) : pattern;
      if (!map.has("name") && number) volume.name = derived_name(volume, target, *number + i);
      lun.volume = volume.name;
      add_lun(target, lun, number, i);
      config_.volumes.push_back(std::move(volume));
    }
  }

  // Name of an in-line volume that has none: the zvol's, the file's, or that of the place where it is mapped.
  static std::string derived_name(const Volume& volume, const Target& target, uint64_t number) {
    std::string name = volume.path;
    if (volume.kind == StoreKind::file || volume.kind == StoreKind::device)
      name = volume.path.substr(volume.path.rfind('/') + 1);
    if (volume.kind == StoreKind::memory || volume.kind == StoreKind::null)
      name = target.name.substr(target.name.rfind(':') + 1) + "-lun" + std::to_string(number);
    for (char& c : name)
      if (!check_volume_name(std::string(1, c)).empty()) c = '_';
    constexpr size_t kLongest = 128;
    return name.size() <= kLongest ? name : name.substr(name.size() - kLongest);
  }

  Context& context_;
  Shared& shared_;
  Config& config_;
};

}  // namespace

void read_targets(Context& context, const Node& list, Shared& shared, Config& config) {
  TargetReader(context, shared, config).read(list);
}

}  // namespace zvolt::config
