// See journal_reader.h.
#include "config/journal_reader.h"

#include <algorithm>

#include "config/syntax.h"
#include "config/volume_reader.h"

namespace zvolt::config {
namespace {

void read_path(Context& context, const MapReader& map, Journal& journal) {
  const Node* node = map.value("path");
  if (node == nullptr) return;
  journal.path_where = context.at(*node);
  journal.path = normal_path(node->text).value_or("");
  if (journal.path.empty()) context.error(*node, "'path' expects an absolute path, found " + describe(*node));
}

void read_provision(Context& context, const MapReader& map, Journal& journal) {
  const Node* node = map.value("provision");
  if (node == nullptr) return;
  const MapReader provision(context, *node, kJournalProvisionSchema);
  journal.provision_size = provision.number("size").value_or(0);
  if (journal.path.starts_with("/dev/"))
    context.error(map.key_node("provision"), "'provision' goes with a file: devices are not made");
}

Journal read_journal(Context& context, const MapReader& map) {
  Journal journal;
  read_path(context, map, journal);
  read_provision(context, map, journal);
  journal.memory = map.number("memory").value_or(journal.memory);
  journal.max_dirty_ms = static_cast<unsigned>(map.number("max_dirty_age").value_or(journal.max_dirty_ms));
  if (map.text("on_failure").value_or("") == "read_only") journal.on_failure = OnJournalFailure::read_only;
  journal.lun_quota = static_cast<unsigned>(map.number("lun_quota").value_or(journal.lun_quota));
  journal.faults = read_faults(context, map);
  return journal;
}

}  // namespace

void read_journals(Context& context, const Node& node, Config& config) {
  for (const auto& [key, value] : node.entries) {
    if (key->kind == Node::Kind::list || key->kind == Node::Kind::map) {
      context.error(*key, "a journal's name is a word, found " + describe(*key));
      continue;
    }
    const std::string name = key_text(*key);
    const std::string why = check_volume_name(name);  // the same rule: it stands in messages and file names
    if (!why.empty()) context.error(*key, why);
    const auto same = [&](const Journal& other) { return other.name == name; };
    if (std::any_of(config.journals.begin(), config.journals.end(), same)) {
      context.error(*key, "journal '" + name + "' is described twice");
      continue;
    }
    if (value->kind == Node::Kind::null) {
      context.error(*key, "journal '" + name + "' has no value");
      continue;
    }
    Journal journal = read_journal(context, MapReader(context, *value, kJournalSchema));
    journal.name = name;
    journal.where = context.at(*key);
    config.journals.push_back(std::move(journal));
  }
}

}  // namespace zvolt::config
