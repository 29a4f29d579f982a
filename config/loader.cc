// See loader.h. The shape of the file, top down; volumes are in volume_reader.cc, rules that span places in
// validate.cc.
#include "config/loader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "config/reader.h"
#include "config/syntax.h"
#include "config/validate.h"
#include "config/volume_reader.h"

namespace zvolt::config {
namespace {

constexpr size_t kMaxSocketPath = 107;  // bytes: sockaddr_un without the final zero
constexpr size_t kMaxAlias = 255;       // bytes: TargetAlias, RFC 7143 13.7

class Loader {
 public:
  Loader(const std::string& file, const LoadOptions& options, Loaded& out)
      : context_(file, options, out), config_(out.config) {
    config_.file = file;
    config_.files = {file};
  }

  void load(const Node& root) {
    if (root.kind == Node::Kind::null) {
      context_.error(root, "the file is empty");
      return;
    }
    const MapReader map(context_, root, kTopSchema);
    if (!map.is_map()) return;
    config_.state_dir = path(map, "state_dir").value_or(config_.state_dir);
    config_.threads = static_cast<unsigned>(map.number("threads").value_or(0));
    config_.memory = map.number("memory").value_or(0);
    if (const Node* node = map.value("defaults")) defaults_ = read_defaults(context_, *node);
    if (const Node* node = map.value("admin")) read_admin(*node);
    if (const Node* node = map.value("log")) read_log(*node);
    if (const Node* node = map.value("listen")) read_listen(*node);
    if (const Node* node = map.value("volumes")) read_volumes(*node);
    if (const Node* node = map.value("targets")) read_targets(*node);
    validate(config_, context_);
  }

 private:
  std::optional<std::string> path(const MapReader& map, const char* key) {
    const Node* node = map.value(key);
    if (node == nullptr) return std::nullopt;
    auto normal = normal_path(node->text);
    if (!normal) context_.error(*node, "'" + std::string(key) + "' expects an absolute path, found " + describe(*node));
    return normal;
  }

  void read_admin(const Node& node) {
    const MapReader map(context_, node, kAdminSchema);
    const auto socket = path(map, "socket");
    if (!socket) return;
    if (socket->size() > kMaxSocketPath) {
      context_.error(*map.value("socket"), "the path of a Unix socket has at most 107 bytes");
      return;
    }
    config_.admin_socket = *socket;
  }

  void read_log(const Node& node) {
    const MapReader map(context_, node, kLogSchema);
    config_.log_level = map.text("level").value_or(config_.log_level);
    config_.log_json = map.boolean("json").value_or(config_.log_json);
  }

  void read_listen(const Node& list) {
    if (list.items.empty()) context_.error(list, "'listen' is empty: give at least one address");
    for (const Node* item : list.items) {
      if (item->kind == Node::Kind::scalar) {
        add_listen(*item, 1);
        continue;
      }
      const MapReader map(context_, *item, kListenSchema);
      const auto group = static_cast<uint16_t>(map.number("group").value_or(1));
      if (const Node* address = map.value("address")) add_listen(*address, group);
    }
  }

  void add_listen(const Node& node, uint16_t group) {
    std::string why;
    const auto endpoint = parse_endpoint(node.text, why);
    if (!endpoint) {
      context_.error(node, "listen address: " + why);
      return;
    }
    config_.listen.push_back({endpoint->address, endpoint->port, group, context_.at(node)});
  }

  void read_volumes(const Node& node) {
    for (const auto& [key, value] : node.entries) {
      if (key->kind == Node::Kind::list || key->kind == Node::Kind::map) {
        context_.error(*key, "a volume's name is a word, found " + describe(*key));
        continue;
      }
      const std::string name = key_text(*key);
      const std::string why = check_volume_name(name);
      if (!why.empty()) context_.error(*key, why);
      if (value->kind == Node::Kind::null) {
        context_.error(*key, "volume '" + name + "' has no value");
        continue;
      }
      const MapReader map(context_, *value, kVolumeSchema);
      Volume volume = read_volume(context_, map, defaults_);
      volume.name = name;
      volume.where = context_.at(*key);
      config_.volumes.push_back(std::move(volume));
    }
  }

  void read_targets(const Node& list) {
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

  void read_lun(const Node& node, Target& target) {
    const MapReader map(context_, node, kLunSchema);
    if (!map.is_map()) return;
    Lun lun;
    lun.read_only = map.boolean("read_only").value_or(false);
    const auto number = map.number("lun");
    if (number) lun.where = context_.at(*map.value("lun"));
    lun.number = static_cast<uint16_t>(number.value_or(0));
    if (map.has("volume")) {
      reference_volume(map, lun);
    } else {
      in_line_volume(map, target, lun);
    }
    if (number) target.luns.push_back(std::move(lun));
  }

  // `volume: NAME`: keys that describe a volume belong to that volume, not to its mapping.
  void reference_volume(const MapReader& map, Lun& lun) {
    for (const Key& key : kVolumeSchema.keys)
      if (map.has(key.name) && find_own_lun_key(key.name) == nullptr && key.unsupported == nullptr)
        context_.error(map.key_node(key.name),
                       "'" + std::string(key.name) + "' beside 'volume': it belongs to the volume itself");
    if (map.has("name"))
      context_.error(map.key_node("name"), "'name' beside 'volume': the volume has its name already");
    if (const Node* volume = map.value("volume")) {
      lun.volume = volume->text;
      lun.volume_where = context_.at(*volume);
    }
  }

  static const Key* find_own_lun_key(const char* name) { return find_key({kLunSchema.what, kLunSchema.keys}, name); }

  void in_line_volume(const MapReader& map, const Target& target, Lun& lun) {
    if (!describes_store(map)) {
      context_.error(
          map.node(),
          "the LUN has no store: give 'volume: NAME' or one of 'zvol', 'device', 'file', 'memory' or 'null'");
      return;
    }
    Volume volume = read_volume(context_, map, defaults_);
    volume.in_line = true;
    volume.where = context_.at(map.node());
    if (const Node* name = map.value("name")) {
      volume.where = context_.at(*name);
      volume.name = name->text;
      const std::string why = check_volume_name(volume.name);
      if (!why.empty()) context_.error(*name, why);
    } else if (!map.has("name") && map.value("lun") != nullptr) {
      volume.name = derived_name(volume, target, lun.number);
    }
    lun.in_line = true;
    lun.volume = volume.name;
    lun.volume_where = volume.where;
    config_.volumes.push_back(std::move(volume));
  }

  // Name of an in-line volume that has none: the zvol's, the file's, or that of the place where it is mapped.
  static std::string derived_name(const Volume& volume, const Target& target, uint16_t number) {
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

  Context context_;
  Config& config_;
  VolumeDefaults defaults_;
};

// File order, each problem once (a shared anchor is visited several times), and not more than anybody reads.
void arrange(std::vector<Problem>& problems) {
  const auto place = [](const Problem& p) { return std::tie(p.where.line, p.where.column); };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  const auto same = [&](const Problem& a, const Problem& b) { return place(a) == place(b) && a.message == b.message; };
  problems.erase(std::unique(problems.begin(), problems.end(), same), problems.end());
  if (problems.size() <= kMaxProblems) return;
  const size_t more = problems.size() - kMaxProblems;
  problems.resize(kMaxProblems);
  problems.push_back({problems.back().where, "and " + std::to_string(more) + " more"});
}

// At most kMaxFileBytes + 1 bytes, so that a device or an endless pipe is no trap. Returns errno.
int read_bounded(const std::string& path, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  std::array<char, 65536> chunk{};
  int error = 0;
  while (text.size() <= kMaxFileBytes) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    text.append(chunk.data(), static_cast<size_t>(n));
  }
  ::close(fd);
  return error;
}

}  // namespace

Loaded load_text(const std::string& text, const std::string& file_name, const LoadOptions& options) {
  Loaded out;
  const YamlTree tree = YamlTree::parse(text, file_name, out.problems);
  if (tree.root() != nullptr) Loader(file_name, options, out).load(*tree.root());
  arrange(out.problems);
  arrange(out.warnings);
  return out;
}

Loaded load_file(const std::string& path, const LoadOptions& options) {
  std::string text;
  const int error = read_bounded(path, text);
  if (error == 0) return load_text(text, path, options);
  Loaded out;
  out.problems.push_back({{path, 1, 1}, std::string("cannot read the file: ") + std::strerror(error)});
  return out;
}

}  // namespace zvolt::config
