// Steps of volumes: what is opened, resized, changed and closed. See plan_parts.h.
#include <algorithm>

#include "config/duration.h"
#include "config/plan_parts.h"
#include "config/size.h"

namespace zvolt::config {
namespace {

using Kind = Step::Kind;

uint64_t rounded_up(uint64_t size, uint64_t unit) {
  return unit == 0 ? size : (size + unit - 1) / unit * unit;
}

const char* sync_text(Sync sync) {
  switch (sync) {
    case Sync::standard:
      return "standard";
    case Sync::always:
      return "always";
    case Sync::disabled:
      break;
  }
  return "disabled";
}

std::string bool_text(bool value) {
  return value ? "true" : "false";
}

std::string physical_text(uint32_t size) {
  if (size == 0) return "auto";
  return size == UINT32_MAX ? "volblocksize" : std::to_string(size);
}

std::string limit_text(const Limit& limit) {
  if (limit.unlimited()) return "none";
  std::string out;
  if (limit.iops != 0) out = std::to_string(limit.iops) + " IOPS";
  if (limit.bandwidth != 0) out += (out.empty() ? "" : ", ") + readable_size(limit.bandwidth) + "/s";
  return out + ", burst " + format_duration(limit.burst_ms);
}

const char* kind_text(StoreKind kind) {
  switch (kind) {
    case StoreKind::file:
      return "file";
    case StoreKind::device:
      return "device";
    case StoreKind::zvol:
      return "zvol";
    case StoreKind::memory:
      return "memory";
    case StoreKind::null:
      break;
  }
  return "null";
}

// "zvol tank/a", "file /srv/a", "1 GiB of memory"
std::string store_text(const Volume& volume) {
  if (volume.kind == StoreKind::memory) return readable_size(volume.size) + " of memory";
  if (volume.kind == StoreKind::null) return "a null store of " + readable_size(volume.size);
  return std::string(kind_text(volume.kind)) + " " + volume.path;
}

bool in_memory(const Volume& volume) {
  return volume.kind == StoreKind::memory || volume.kind == StoreKind::null;
}

class VolumeSteps {
 public:
  VolumeSteps(const PlanInput& in, std::vector<Step>& steps) : in_(in), steps_(steps) {}

  void run() {
    for (const VolumePair& pair : in_.pairs()) {
      if (pair.old == nullptr || pair.other_store) fresh(*pair.now);
      if (pair.now == nullptr || pair.other_store) close(*pair.old);
      if (pair.old != nullptr && pair.now != nullptr && !pair.other_store) kept(*pair.old, *pair.now);
    }
  }

 private:
  Step& add(Kind kind, const Volume& volume, std::string text) {
    Step& step = steps_.emplace_back();
    step.kind = kind;
    step.subject = step.volume = volume.name;
    step.text = std::move(text);
    return step;
  }

  const StoreFacts* store_facts(const std::string& key) const {
    const auto found = in_.facts.stores.find(key);
    return found == in_.facts.stores.end() ? nullptr : &found->second;
  }

  void close(const Volume& old) {
    const bool lost = old.kind == StoreKind::memory;
    Step& step = add(Kind::close, old,
                     lost ? store_text(old) + " is given back and its contents are lost"
                          : store_text(old) + " is closed" + (in_memory(old) ? "" : " and kept as it is"));
    step.destructive = lost;
    if (!old.journal.empty()) step.text += "; what journal " + old.journal + " holds for it is written to it first";
  }

  // A volume that no unit serves yet.
  void fresh(const Volume& now) {
    if (in_memory(now)) {
      add(Kind::open, now, store_text(now) + " is set up");
      return;
    }
    const StoreFacts* store = store_facts(store_key(now));
    if (store == nullptr) {
      add(Kind::open, now,
          store_text(now) + " is opened; its present state could not be asked" +
              (now.provision ? ", so it is neither created nor resized" : ""));
    } else if (store->exists) {
      add(Kind::open, now, store_text(now) + " is opened, " + readable_size(store->size));
      if (now.provision && now.provision->size) resize(nullptr, now, *store);
    } else {
      missing(now);
    }
  }

  void missing(const Volume& now) {
    if (now.provision) {
      create(now);
      add(Kind::open, now, store_text(now) + " is opened");
    } else if (now.kind == StoreKind::file) {
      add(Kind::refuse, now,
          "there is no file " + now.path + "; create it, or give 'provision' with the size it is to have");
    } else {
      add(Kind::open, now,
          store_text(now) + " is not there yet; hosts are told to wait, and it is opened when it appears");
    }
  }

  void create(const Volume& now) {
    const Provision& provision = *now.provision;
    std::string text = store_text(now) + " is created";
    const uint64_t size = rounded_up(provision.size.value_or(0), provision.volblocksize);
    if (!provision.clone_from.empty()) text += " as a clone of " + provision.clone_from;
    if (size != 0) text += ", " + readable_size(size);
    if (size != provision.size.value_or(0)) text += " (rounded up to whole volblocks)";
    if (provision.volblocksize != 0) text += ", volblocksize " + readable_size(provision.volblocksize);
    if (now.kind == StoreKind::zvol && provision.clone_from.empty())
      text += provision.sparse ? ", sparse" : ", with its space reserved";
    for (const auto& [name, value] : provision.properties) text += ", " + name + "=" + value;
    add(Kind::create_store, now, std::move(text)).size = size;
  }

  // One volume before and after, on one store.
  void kept(const Volume& old, const Volume& now) {
    if (old.name != now.name) {
      Step& step = add(Kind::rename_volume, now, "volume '" + old.name + "' is called '" + now.name + "' from now on");
      step.from = old.name;
      step.to = now.name;
    }
    path(old, now);
    remake(old, now);
    journal_of_kept(in_, old, now, steps_);
    live_changes(old, now);
    provision(old, now);
  }

  void path(const Volume& old, const Volume& now) {
    const std::string open = in_.open_store(old), named = store_key(now);
    if (store_key(old) != named) {
      Step& step = changed(old, now, kind_text(now.kind), old.path, now.path,
                           store_text(now) + " is followed under its new name, it was " + old.path);
      step.sessions.clear();  // nothing that a host could see
    } else if (open != named) {
      const std::string shown = open.starts_with("/dev/zvol/") ? open.substr(10) : open;
      add(Kind::note, now,
          "what is open as " + store_text(now) + " is called " + shown +
              " by now; write that name into the configuration, or it is not found at the next start");
    } else if (old.kind != now.kind) {
      restart(now, kind_text(now.kind), std::string(kind_text(old.kind)) + " " + old.path, store_text(now));
    }
    if (old.force != now.force) restart(now, "force", bool_text(old.force), bool_text(now.force));
  }

  void restart(const Volume& now, const char* what, const std::string& from, const std::string& to) {
    Step& step =
        add(Kind::restart, now,
            std::string(what) + " becomes " + to + " (was " + from + ") when the store is opened at the next start");
    step.what = what;
    step.from = from;
    step.to = to;
  }

  Step& changed(const Volume& old, const Volume& now, const std::string& what, const std::string& from,
                const std::string& to, std::string text = {}) {
    if (text.empty()) text = what + " becomes " + to + " (was " + from + ")";
    Step& step = add(Kind::change, now, std::move(text));
    step.what = what;
    step.from = from;
    step.to = to;
    step.sessions = in_.sessions_of_volume(old.name);
    return step;
  }

  // What a host that uses the disk would trip over: only done while none does.
  void remake(const Volume& old, const Volume& now) {
    remake(old, now, "block_size", std::to_string(old.block_size), std::to_string(now.block_size));
    remake(old, now, "physical_block_size", physical_text(old.physical_block_size),
           physical_text(now.physical_block_size));
    if (in_memory(now))
      remake(old, now, kind_text(now.kind), readable_size(old.size), readable_size(now.size),
             now.kind == StoreKind::memory);
    if (old.faults != now.faults)
      remake(old, now, "faults", std::to_string(old.faults.size()) + " rules",
             std::to_string(now.faults.size()) + " other rules");
    const auto open = in_.facts.open.find(old.name);
    const std::string before =
        open != in_.facts.open.end() && !open->second.uuid.empty() ? open->second.uuid : old.uuid.value_or("its own");
    if (now.uuid || old.uuid) remake(old, now, "uuid", before, now.uuid.value_or(old.uuid ? "a new one" : before));
  }

  void remake(const Volume& old, const Volume& now, const char* what, const std::string& from, const std::string& to,
              bool loses = false) {
    if (from == to) return;
    const auto users = in_.sessions_of_volume(old.name);
    const std::string change = std::string(what) + " " + from + " -> " + to;
    std::string text = change + ": the disk is taken down and comes back changed; no host uses it";
    if (loses) text += "; its contents are lost";
    if (!users.empty())
      text = change + " while hosts use the disk would damage what they have on it; log them out, then apply again";
    Step& step = add(users.empty() ? Kind::replace_unit : Kind::refuse, now, std::move(text));
    step.what = what;
    step.from = from;
    step.to = to;
    step.destructive = loses && users.empty();
    step.sessions = users;
  }

  void live_changes(const Volume& old, const Volume& now) {
    if (old.sync != now.sync) {
      std::string text = "sync becomes " + std::string(sync_text(now.sync)) + " (was " + sync_text(old.sync) + ")";
      if (now.sync == Sync::disabled) text += "; writes that were acknowledged are lost at a power cut";
      changed(old, now, "sync", sync_text(old.sync), sync_text(now.sync), std::move(text));
    }
    if (old.read_only != now.read_only)
      changed(old, now, "read_only", bool_text(old.read_only), bool_text(now.read_only),
              now.read_only ? "hosts can no longer write" : "hosts can write again");
    if (limit_text(old.limit) != limit_text(now.limit))
      changed(old, now, "limit", limit_text(old.limit), limit_text(now.limit));
    if (old.not_ready_seconds != now.not_ready_seconds)
      changed(old, now, "wait_for_device", format_duration(uint64_t{old.not_ready_seconds} * 1000),
              format_duration(uint64_t{now.not_ready_seconds} * 1000))
          .sessions.clear();
  }

  void provision(const Volume& old, const Volume& now) {
    if (!now.provision) return;
    if (now.provision->size) size_of_kept(old, now);
    properties(old, now);
    creation_only(old, now);
  }

  void size_of_kept(const Volume& old, const Volume& now) {
    const bool edited = !old.provision || old.provision->size != now.provision->size;
    const StoreFacts* store = store_facts(in_.open_store(old));
    if (store == nullptr || !store->exists) {
      if (!edited) return;
      add(Kind::note, now,
          store_text(now) + (store == nullptr ? " could not be asked for its size" : " is not there now") +
              ": it keeps its size; apply again when it is back");
      return;
    }
    resize(&old, now, *store);
  }

  // Growing is harmless and done whenever the file asks for more than there is. Shrinking needs an edit that asks for
  // it: a size that was always smaller says nothing (somebody has grown the store by hand), and cuts nothing off.
  void resize(const Volume* old, const Volume& now, const StoreFacts& store) {
    const uint64_t size = rounded_up(*now.provision->size, store.volblocksize);
    if (size == store.size) return;
    const std::string from = readable_size(store.size), to = readable_size(size);
    const bool asked_less =
        old != nullptr && old->provision && old->provision->size && *now.provision->size < *old->provision->size;
    const bool newly_allowed =
        old != nullptr && now.provision->allow_shrink && !(old->provision && old->provision->allow_shrink);
    std::vector<Session> users = old == nullptr ? std::vector<Session>() : in_.sessions_of_volume(old->name);
    Step* step = nullptr;
    if (size > store.size) {
      step = &add(Kind::grow, now, now.name + " grows from " + from + " to " + to);
      if (size != *now.provision->size) step->text += " (rounded up to whole volblocks)";
    } else if (now.provision->allow_shrink && (asked_less || newly_allowed)) {
      step = &add(Kind::shrink, now,
                  "the last " + readable_size(store.size - size) + " of " + now.name +
                      " are cut off and lost: " + from + " become " + to);
      step->destructive = true;
    } else if (asked_less) {
      step = &add(Kind::shrink_refused, now,
                  now.name + " is not made smaller, " + from + " -> " + to + ": the last " +
                      readable_size(store.size - size) +
                      " would be lost; if that is meant, say 'allow_shrink: true' in 'provision'");
    } else {
      step = &add(Kind::note, now,
                  now.name + " has " + from + " although the configuration says " + to + ": it stays as it is");
      users.clear();
    }
    step->what = "provision.size";
    step->from = from;
    step->to = to;
    step->size = size;
    step->sessions = std::move(users);
  }

  void properties(const Volume& old, const Volume& now) {
    static const std::map<std::string, std::string> kNone;
    const auto& before = old.provision ? old.provision->properties : kNone;
    const auto& after = now.provision->properties;
    for (const auto& [name, value] : after) {
      const auto found = before.find(name);
      if (found == before.end())
        property(old, now, name, "", value);
      else if (found->second != value)
        property(old, now, name, found->second, value);
    }
    for (const auto& [name, value] : before)
      if (!after.contains(name))
        add(Kind::note, now, "ZFS property " + name + " of " + now.path + " is no longer named; it stays " + value);
    const bool both_made = old.provision && old.provision->clone_from.empty() && now.provision->clone_from.empty();
    if (!both_made || old.provision->sparse == now.provision->sparse) return;
    const bool sparse = now.provision->sparse;
    changed(old, now, "provision.sparse", bool_text(!sparse), bool_text(sparse),
            sparse ? now.path + " gives the space back that it has reserved in the pool"
                   : now.path + " reserves the space of its whole size in the pool")
        .sessions.clear();
  }

  void property(const Volume& old, const Volume& now, const std::string& name, const std::string& from,
                const std::string& to) {
    changed(old, now, "provision.properties." + name, from, to,
            "ZFS property " + name + " of " + now.path + " becomes " + to + (from.empty() ? "" : " (was " + from + ")"))
        .sessions.clear();
  }

  // What ZFS decides once, when a zvol is made.
  void creation_only(const Volume& old, const Volume& now) {
    if (!old.provision) return;
    const StoreFacts* store = store_facts(in_.open_store(old));
    const uint64_t wanted = now.provision->volblocksize;
    const bool same = wanted == 0 || (store != nullptr && store->volblocksize == wanted);
    if (old.provision->volblocksize != wanted && !same)
      add(Kind::note, now,
          "volblocksize of an existing zvol cannot change: " + readable_size(wanted) + " counts for a new one only");
    if (old.provision->clone_from != now.provision->clone_from)
      add(Kind::note, now, "clone_from counts when a zvol is created; " + now.path + " stays what it is");
  }

  const PlanInput& in_;
  std::vector<Step>& steps_;
};

}  // namespace

void volume_steps(const PlanInput& in, std::vector<Step>& steps) {
  VolumeSteps(in, steps).run();
}

}  // namespace zvolt::config
