// See loader.h. The shape of the file, top down; volumes are in volume_reader.cc, targets in target_reader.cc,
// rules that span places in validate.cc.
#include "config/loader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "config/include.h"
#include "config/journal_reader.h"
#include "config/reader.h"
#include "config/syntax.h"
#include "config/target_reader.h"
#include "config/validate.h"
#include "config/volume_reader.h"

namespace zvolt::config {
namespace {

constexpr size_t kMaxSocketPath = 107;  // bytes: sockaddr_un without the final zero

class Loader {
 public:
  Loader(const std::string& file, const LoadOptions& options, Loaded& out)
      : context_(options, out), config_(out.config) {
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
    if (const Node* node = map.value("defaults")) shared_.defaults = read_defaults(context_, *node);
    if (const Node* node = map.value("admin")) read_admin(*node);
    if (const Node* node = map.value("log")) read_log(*node);
    if (const Node* node = map.value("listen")) read_listen(*node);
    if (const Node* node = map.value("journals")) read_journals(context_, *node, config_);
    // What is included is as if it stood at the end of `volumes` and of `targets`.
    Includes includes(context_, config_.files);
    if (const Node* node = map.value("include")) includes.read(*node);
    if (const Node* node = map.value("volumes")) read_volumes(*node);
    for (const MapReader& document : includes.documents())
      if (const Node* node = document.value("volumes")) read_volumes(*node);
    if (const Node* node = map.value("targets")) read_targets(context_, *node, shared_, config_);
    for (const MapReader& document : includes.documents())
      if (const Node* node = document.value("targets")) read_targets(context_, *node, shared_, config_);
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
      if (value->kind == Node::Kind::null) {
        check_name(context_, *key, key_text(*key), Series());
        context_.error(*key, "volume '" + key_text(*key) + "' has no value");
        continue;
      }
      const MapReader map(context_, *value, kVolumeSchema);
      Series series = read_series(context_, map, shared_);
      if (!check_name(context_, *key, key_text(*key), series)) series.count = 1;
      Volume volume = read_volume(context_, map, shared_.defaults, series);
      volume.name = key_text(*key);
      volume.where = context_.at(*key);
      for (uint64_t i = 0; series.many && i < series.count; ++i)
        config_.volumes.push_back(expand_volume(volume, series.first + i));
      if (!series.many) config_.volumes.push_back(std::move(volume));
    }
  }

  Context context_;
  Config& config_;
  Shared shared_;
};

using Order = std::map<std::string, size_t>;  // of the files

// File order, each problem once (a shared anchor is visited several times), few of one place (a template makes many
// volumes), and not more than anybody reads.
void arrange(std::vector<Problem>& problems, const Order& order) {
  const auto file = [&](const Problem& p) {
    const auto found = order.find(p.where.file);
    return found == order.end() ? order.size() : found->second;
  };
  const auto place = [&](const Problem& p) { return std::tuple(file(p), p.where.line, p.where.column); };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  const auto same = [&](const Problem& a, const Problem& b) { return place(a) == place(b) && a.message == b.message; };
  problems.erase(std::unique(problems.begin(), problems.end(), same), problems.end());

  std::vector<Problem> kept;
  for (size_t i = 0; i < problems.size();) {
    size_t end = i;
    while (end < problems.size() && place(problems[end]) == place(problems[i])) ++end;
    const size_t shown = std::min(end - i, kMaxProblemsOfOnePlace);
    kept.insert(kept.end(), problems.begin() + static_cast<ptrdiff_t>(i),
                problems.begin() + static_cast<ptrdiff_t>(i + shown));
    if (shown < end - i)
      kept.push_back({problems[i].where, "and " + std::to_string(end - i - shown) + " more of this entry"});
    i = end;
  }
  problems = std::move(kept);
  if (problems.size() <= kMaxProblems) return;
  const size_t more = problems.size() - kMaxProblems;
  problems.resize(kMaxProblems);
  problems.push_back({problems.back().where, "and " + std::to_string(more) + " more"});
}

}  // namespace

Loaded load_text(const std::string& text, const std::string& file_name, const LoadOptions& options) {
  Loaded out;
  const YamlTree tree = YamlTree::parse(text, file_name, out.problems);
  if (tree.root() != nullptr) Loader(file_name, options, out).load(*tree.root());
  Order order;
  for (const std::string& file : out.config.files) order.emplace(file, order.size());
  arrange(out.problems, order);
  arrange(out.warnings, order);
  return out;
}

Loaded load_file(const std::string& path, const LoadOptions& options) {
  std::string text;
  const int error = read_bounded(path, false, text);
  if (error == 0) return load_text(text, path, options);
  Loaded out;
  out.problems.push_back({{path, 1, 1}, std::string("cannot read the file: ") + std::strerror(error)});
  return out;
}

}  // namespace zvolt::config
