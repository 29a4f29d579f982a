// What changes when one configuration takes the place of another, as steps in a safe order: a pure difference of two
// Configs and of Facts that the caller gathered. Called by the daemon (plan, apply, SIGHUP, start: then `running` is an
// empty Config) and rendered by plan_text.h. No I/O, no clock; values, no threading rule.
//
// Order of the steps: what may fail without anybody noticing comes first (create, open, grow, live changes, portals),
// then the switch of targets and LUN maps in one go (Server::reconfigure), then what takes something away (shrink,
// close). A plan with a refused step is not applied at all.
//
// Volumes of the two configurations belong together when they serve the same store (one zvol, device or file, however
// it is called and spelled), else when they have the same name. So a volume may be renamed in the YAML, and a zvol in
// ZFS, without a host noticing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/model.h"

namespace zvolt::config {

// A session that is logged in now.
struct Session {
  std::string initiator;
  std::string target;
  uint16_t tsih = 0;
  std::string address;  // of the initiator, "10.0.0.5:51234"
  uint16_t group = 0;   // portal group it came through, 0 = not known
  std::string portal;   // listen address it came through, "10.0.0.1:3260"; "" = not known
  bool operator==(const Session&) const = default;
};

// A store as it is now, open or not.
struct StoreFacts {
  bool exists = false;
  uint64_t size = 0;          // bytes
  uint64_t volblocksize = 0;  // zvol: bytes, else 0
};

// An open volume as it is now.
struct OpenFacts {
  std::string store;  // store_key() of the name that its device has now: differs from the YAML's after `zfs rename`
  std::string uuid;   // identity it is served with, canonical text
};

struct Facts {
  // By store_key(), for the stores of both configurations. One that is not in here could not be asked (zfs hangs): the
  // plan then says so and neither creates nor resizes it.
  std::map<std::string, StoreFacts> stores;
  std::map<std::string, OpenFacts> open;  // by name of a running volume
  std::vector<Session> sessions;
};

// What a volume serves, one spelling: "/dev/zvol/tank/a" for a zvol (also when it is given as `device:`), the path of a
// device or file, "memory:NAME" and "null:NAME".
std::string store_key(const Volume& volume);

struct Step {
  enum class Kind : uint8_t {
    open_journal,    // subject: "journal NAME". Its log is opened (and formatted when it is empty)
    create_store,    // subject: volume. Make the zvol or file of `wanted`; its size is `size`
    open,            // volume. Open the store (or wait for it) and make its unit
    rename_volume,   // volume (new name), `from`: the running name. Same store, same unit, same identity
    grow,            // volume, `from` -> `to`; `size` bytes
    change,          // volume, "log.level" or a mapping ("TARGET LUN n"): live change of `what`, `from` -> `to`
    replace_unit,    // volume: nobody uses it, its unit is made anew (`what`); memory: the store too
    add_portal,      // "address:port"
    change_portal,   // "address:port": its group
    add_target,      // target
    change_target,   // target: `what` is alias, groups, initiators or allow_any
    map_lun,         // target, lun, volume
    move_lun,        // target, lun, volume; `from` is the old number
    replace_lun,     // target, lun, volume; `from` is the old volume. The old unit is fenced, hosts see a new disk
    unmap_lun,       // target, lun, volume
    remove_target,   // target
    remove_portal,   // "address:port"
    shrink,          // volume; destructive
    shrink_refused,  // volume: an edit to a smaller size without allow_shrink
    close_journal,   // "journal NAME": its log is written back, closed and kept
    close,           // volume (running name). The store itself is kept
    refuse,          // an edit that cannot be made now; the text says what to do instead
    restart,         // an edit that counts at the next start of the daemon; `what`
    note,            // nothing is done, but somebody should know
  };
  Kind kind = Kind::note;
  std::string subject;
  std::string text;  // one sentence for a storage administrator, no full stop, sizes in units

  // For the one who carries it out; empty where it does not belong to the kind.
  std::string volume;  // name in `wanted` (unmap_lun, close: in `running`)
  std::string target;
  std::optional<uint16_t> lun;
  std::string what;  // YAML key that was edited: "sync", "limit", "provision.properties.compression"
  std::string from, to;
  uint64_t size = 0;  // bytes

  std::vector<Session> sessions;  // those that see it (their LUNs, data or connection); others notice nothing
  bool ends_sessions = false;     // they are logged out
  bool destructive = false;       // data is lost
  bool refused() const { return kind == Kind::shrink_refused || kind == Kind::refuse; }
};

// "create_store" and so on: the word in JSON.
const char* kind_name(Step::Kind kind);

struct Plan {
  std::vector<Step> steps;
  bool refused() const;                   // some step is: nothing of it may be applied
  bool destructive() const;               // some step loses data
  bool nothing() const;                   // no step but notes
  std::vector<Session> sessions() const;  // touched by any step, each once
};

Plan make_plan(const Config& running, const Config& wanted, const Facts& facts);

// What runs after `wanted` was applied: `wanted`, with the values that only a start reads (Step::restart) as they were,
// so that the next plan still tells of them.
Config after_apply(const Config& running, const Config& wanted);

}  // namespace zvolt::config
