// See validate.h.
#include "config/validate.h"

#include <algorithm>
#include <map>
#include <set>

#include "config/nearest.h"
#include "config/plan.h"
#include "config/syntax.h"

namespace zvolt::config {
namespace {

constexpr uint16_t kLunSeenByAll = 255;  // many hosts look no further (Linux: scsi_mod.max_luns, ESXi: Disk.MaxLUN)

// Values that may be used once only, with the place of the first use.
class Unique {
 public:
  Unique(Context& context, std::string what) : context_(context), what_(std::move(what)) {}
  void note(const std::string& value, const Location& where) { seen_.emplace(value, where); }
  void add(const std::string& value, const Location& where) {
    const auto [first, fresh] = seen_.emplace(value, where);
    if (!fresh)
      context_.error(where, what_ + " '" + value + "' is already used at " + place_text(first->second, where));
  }

 private:
  Context& context_;
  std::string what_;
  std::map<std::string, Location> seen_;
};

void check_listen(const Config& config, Context& context) {
  Unique addresses(context, "address");
  for (const Listen& listen : config.listen) {
    if (listen.port == 0) {
      context.warn(listen.where, "port 0: the system chooses a port at every start");
      continue;
    }
    const bool v6 = listen.address.find(':') != std::string::npos;
    addresses.add((v6 ? "[" + listen.address + "]" : listen.address) + ":" + std::to_string(listen.port), listen.where);
  }
}

void check_volumes(const Config& config, Context& context) {
  Unique names(context, "volume name");
  Unique uuids(context, "UUID");
  std::map<std::string, const Volume*> paths;
  for (const Volume& volume : config.volumes) {
    if (!volume.name.empty()) names.add(volume.name, volume.where);
    if (volume.uuid) uuids.add(*volume.uuid, volume.uuid_where);
    if (volume.path.empty()) continue;
    const auto [first, fresh] = paths.emplace(store_key(volume), &volume);
    if (fresh) continue;
    context.error(volume.path_where, "'" + first->first + "' is already the store of volume '" + first->second->name +
                                         "' (" + place_text(first->second->path_where, volume.path_where) +
                                         "): describe it once under 'volumes' and map it with 'volume: NAME'");
  }
}

// A log device has one journal, and is nobody's disk: either would overwrite the other.
void check_journals(const Config& config, Context& context) {
  Unique paths(context, "journal path");
  std::map<std::string, const Volume*> stores;
  for (const Volume& volume : config.volumes)
    if (!volume.path.empty()) stores.emplace(store_key(volume), &volume);
  for (const Journal& journal : config.journals) {
    if (journal.path.empty()) continue;
    paths.add(journal.path, journal.path_where);
    const auto store = stores.find(journal.path);
    if (store != stores.end())
      context.error(journal.path_where, "'" + journal.path + "' is the store of volume '" + store->second->name +
                                            "' (" + place_text(store->second->path_where, journal.path_where) +
                                            "): a journal needs a device or file of its own");
  }
}

void check_journal_references(const Config& config, Context& context) {
  std::vector<std::string_view> names;
  std::set<std::string> used;
  for (const Journal& journal : config.journals) names.push_back(journal.name);
  for (const Volume& volume : config.volumes) {
    if (volume.journal.empty()) continue;
    used.insert(volume.journal);
    if (config.journal(volume.journal) != nullptr) continue;
    const std::string near = nearest(volume.journal, names);
    context.error(volume.journal_where,
                  "there is no journal '" + volume.journal + "'" +
                      (near.empty() ? "" : ", did you mean '" + near + "'?") +
                      (config.journals.empty() ? "; describe it under 'journals' of the main file" : ""));
  }
  for (const Journal& journal : config.journals)
    if (!used.contains(journal.name))
      context.warn(journal.where, "journal '" + journal.name + "' is not used by any volume");
}

// Names of volumes, and how many references to nothing are still looked up for a near miss (that is quadratic).
struct References {
  std::set<std::string_view> names;
  size_t guesses = 20;
};

void check_volume_reference(const Lun& lun, References& references, Context& context) {
  if (lun.volume.empty() || references.names.contains(lun.volume)) return;
  std::string near;
  if (references.guesses > 0) {
    --references.guesses;
    near = nearest(lun.volume, {references.names.begin(), references.names.end()});
  }
  context.error(lun.volume_where,
                "there is no volume '" + lun.volume + "'" + (near.empty() ? "" : ", did you mean '" + near + "'?"));
}

void check_luns(const Target& target, References& references, Context& context) {
  Unique numbers(context, "LUN");
  Unique volumes(context, "volume");
  // Two in-line volumes of one name are told by check_volumes().
  for (const Lun& lun : target.luns)
    if (lun.in_line) volumes.note(lun.volume, lun.volume_where);
  for (const Lun& lun : target.luns) {
    numbers.add(std::to_string(lun.number), lun.where);
    if (lun.number > kLunSeenByAll)
      context.warn(lun.where, "LUN " + std::to_string(lun.number) + ": many hosts look at LUNs 0 to 255 only");
    check_volume_reference(lun, references, context);
    if (!lun.volume.empty() && !lun.in_line) volumes.add(lun.volume, lun.volume_where);
  }
}

bool serves(const Target& target, const Listen& listen) {
  return target.groups.empty() ||
         std::find(target.groups.begin(), target.groups.end(), listen.group) != target.groups.end();
}

void check_access(const Target& target, const Config& config, Context& context) {
  if (target.restricted && target.allow_any)
    context.warn(target.where, "'allow_any' has no effect beside 'initiators'");
  if (target.restricted || target.allow_any) return;
  for (const Listen& listen : config.listen) {
    if (!serves(target, listen) || is_loopback(listen.address)) continue;
    context.error(target.where,
                  "every host that reaches " + listen.address +
                      " could log in to this target: name the 'initiators' that may, or say 'allow_any: true'");
    return;
  }
}

void check_targets(const Config& config, Context& context) {
  Unique names(context, "target name");
  References references;
  for (const Volume& volume : config.volumes) references.names.insert(volume.name);
  for (const Target& target : config.targets) {
    if (!target.name.empty()) names.add(target.name, target.where);
    check_luns(target, references, context);
    check_access(target, config, context);
  }
  if (config.targets.empty()) context.warn({config.file, 1, 1}, "there are no targets: nothing is served");
}

void warn_unused(const Config& config, Context& context) {
  std::set<std::string> used;
  for (const Target& target : config.targets)
    for (const Lun& lun : target.luns) used.insert(lun.volume);
  for (const Volume& volume : config.volumes)
    if (!volume.name.empty() && !used.contains(volume.name))
      context.warn(volume.where, "volume '" + volume.name + "' is not a LUN of any target");
}

void warn_durability(const Config& config, Context& context) {
  for (const Volume& volume : config.volumes) {
    if (volume.sync == Sync::disabled)
      context.warn(volume.where,
                   "volume '" + volume.name + "': sync: disabled loses acknowledged writes at a power cut");
    if (!volume.journal.empty() && volume.kind == StoreKind::zvol)
      context.warn(volume.where, "volume '" + volume.name +
                                     "' has a journal: 'zfs snapshot' alone misses what that holds, and takes the rest "
                                     "out of order; use 'zvoltctl snapshot' or 'zvoltctl freeze'");
    if (volume.kind == StoreKind::null)
      context.warn(volume.where, "volume '" + volume.name + "': a null store keeps nothing that is written");
    if (volume.force)
      context.warn(volume.where,
                   "volume '" + volume.name + "': force opens the store although something else may use it");
  }
}

}  // namespace

void validate(const Config& config, Context& context) {
  check_listen(config, context);
  check_volumes(config, context);
  check_journals(config, context);
  check_journal_references(config, context);
  check_targets(config, context);
  warn_unused(config, context);
  warn_durability(config, context);
}

}  // namespace zvolt::config
