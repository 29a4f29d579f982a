// The validated configuration as plain structs. Produced by config/loader.h, consumed by the daemon's composition root
// and by zvoltctl. Depends on no other layer. Sizes are bytes. Values, no threading rule.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zvolt::config {

struct Location {
  std::string file;
  int line = 0;    // 1-based
  int column = 0;  // 1-based
};

struct Problem {
  Location where;
  std::string message;       // "unknown key 'volums', did you mean 'volumes'?"
  std::string text() const;  // file:line:column: message
};

struct Listen {
  std::string address;  // "0.0.0.0", "::", "127.0.0.1"
  uint16_t port = 3260;
  uint16_t group = 1;  // portal group tag
  Location where;
};

enum class StoreKind { file, device, zvol, memory, null };
enum class Sync { standard, always, disabled };

// Test stores (zvoltd --test-stores only): one rule of the fault-injecting store.
struct FaultRule {
  std::string op = "any";  // read write flush write_zeroes discard any
  std::string action;      // delay error short stall lose_unflushed
  uint64_t offset = 0;     // range the rule watches; length 0 = to the end
  uint64_t length = 0;
  uint64_t after = 0;  // skip that many matching requests first
  uint64_t count = 0;  // then act on that many, 0 = for ever
  uint64_t bytes = 0;  // short: done before the error
  uint64_t delay_us = 0;
  int error = 5;  // errno
  bool operator==(const FaultRule&) const = default;
};

// How a store that is missing is made, and how large it is to be. A store that exists keeps everything but its size and
// the ZFS properties that are named here. Never destroys.
struct Provision {
  std::optional<uint64_t> size;  // bytes; absent only beside clone_from: then the snapshot's
  uint64_t volblocksize = 0;     // zvol: bytes, 0 = what ZFS chooses
  // zvol: reserve no space. Default false as `zfs create -V`: a pool that runs full then fails a creation, not the
  // writes of every host. Files are always sparse; a clone shares its snapshot's blocks: both are true here.
  bool sparse = false;
  std::map<std::string, std::string> properties;  // zvol: further ZFS properties, set at creation and when edited
  std::string clone_from;                         // zvol: pool/path@snapshot
  bool allow_shrink = false;                      // an edit to a smaller size cuts the end off; else it is refused
  Location where;
};

// Rate limits of a volume, over all its sessions; enforced by delay. 0 = unlimited.
struct Limit {
  uint64_t iops = 0;       // commands that read or write, per second
  uint64_t bandwidth = 0;  // bytes per second, both directions together
  unsigned burst_ms =
      1000;  // after idleness that much of the limit may be used at once: 1000 ms of 500 IOPS are 500 ops
  bool unlimited() const { return iops == 0 && bandwidth == 0; }
  bool operator==(const Limit&) const = default;
};

// How long an absent device answers "becoming ready" (02/04/01) before it counts as lost (04/3E/01), unless
// `wait_for_device` says otherwise. Hosts retry the first, each within its own command and path timeouts; ESXi takes
// the second for permanent loss. So the time must outlast a pool that is exported, moved and imported by hand, or a
// slow import after a power cut, and it must end, so that a cluster fails over to a path that still has the disk.
inline constexpr unsigned kDefaultNotReadySeconds = 300;

// What becomes of a journal's volumes while it cannot be used.
enum class OnJournalFailure { write_through, read_only };

// A log device in front of the stores of volumes that name it.
struct Journal {
  std::string name;
  std::string path;             // device, partition or file, absolute
  uint64_t provision_size = 0;  // bytes; a missing file is made with this size. 0: it must be there
  uint64_t memory = uint64_t{256} << 20;
  unsigned max_dirty_ms = 2000;
  OnJournalFailure on_failure = OnJournalFailure::write_through;
  unsigned lun_quota = 50;  // percent of log and memory that one volume may hold
  std::vector<FaultRule> faults;
  Location where;       // its name
  Location path_where;  // value
};

struct Volume {
  std::string name;
  StoreKind kind = StoreKind::file;
  std::string path;                    // file, device; zvol: pool/path
  uint64_t size = 0;                   // memory, null
  std::optional<Provision> provision;  // file, zvol
  Limit limit;
  unsigned not_ready_seconds = kDefaultNotReadySeconds;
  uint32_t block_size = 512;
  uint32_t physical_block_size = 0;  // 0 auto; volblocksize is UINT32_MAX
  Sync sync = Sync::standard;
  std::string journal;  // key into Config::journals, empty: none
  bool read_only = false;
  bool force = false;               // open although the device is in use (still waits for an old process's requests)
  std::optional<std::string> uuid;  // canonical text form
  std::vector<FaultRule> faults;
  bool in_line = false;                            // described in a target's LUN list
  Location where;                                  // its name
  Location path_where, uuid_where, journal_where;  // values, when given
};

struct Lun {
  uint16_t number = 0;
  std::string volume;  // key into Config::volumes (in-line volumes are entered there too)
  bool read_only = false;
  Location where;         // its number
  bool in_line = false;   // the volume is described here
  Location volume_where;  // the name in `volume:`
};

struct Target {
  std::string name;  // iqn, eui or naa
  std::string alias;
  std::vector<uint16_t> groups;         // portal groups, empty = all
  std::vector<std::string> initiators;  // patterns with * at the end, empty = any (then allow_any or loopback only)
  bool allow_any = false;
  bool restricted = false;  // says who may log in (`initiators` or `auth`, whatever they are worth)
  std::vector<Lun> luns;
  Location where;
};

struct Config {
  std::string file;
  std::vector<std::string> files;  // `file` and what it includes, each once, in the order they were read
  std::vector<Listen> listen;
  std::string state_dir = "/var/lib/zvolt";
  unsigned threads = 0;  // 0 = auto: one per core
  uint64_t memory = 0;   // data buffers in all, 0 = auto
  std::string admin_socket = "/run/zvolt/admin.sock";
  std::string log_level = "info";
  bool log_json = false;
  std::vector<Journal> journals;
  std::vector<Volume> volumes;
  std::vector<Target> targets;

  const Volume* volume(const std::string& name) const;
  const Journal* journal(const std::string& name) const;
};

}  // namespace zvolt::config
