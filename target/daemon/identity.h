// Identities: the UUID of every volume, design section 8. A UUID in the YAML counts; else a zvol's is its ZFS property
// org.zvolt:uuid, which travels with the pool, and any other's is made at first use and kept in the state directory
// (identity.json) under what the volume serves: so order, LUN numbers, target and volume names may change. Volumes in
// memory derive theirs from their name and the state directory. Called at start and by each apply, one at a time.
//
// A zvol whose property cannot be read yet (late, pool not imported, zfs hangs) has the identity that identity.json
// remembers for it. One that was never seen has none until it comes: nothing is invented for it, because its property
// may already say something else. Its LUN is announced to hosts when it has one (volume_set.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backing/result.h"
#include "target/daemon/state_dir.h"

namespace zvolt::daemon {

using Uuid = std::array<uint8_t, 16>;

std::string uuid_text(const Uuid& uuid);
Result<Uuid> parse_uuid(const std::string& text);

// What is known of a zvol when its identity is asked for.
enum class ZvolSight : uint8_t {
  none,    // the volume is no zvol
  unseen,  // not there, or nobody could say
  fresh,   // about to be made: whatever had its name before was another disk
  seen,    // there: `property` and `guid` are its own
};

// What the identity of one volume is found by.
struct VolumeKey {
  std::string name;
  std::string pinned;   // `uuid:`, empty when there is none
  std::string backing;  // "file:/srv/a.img", "zvol:tank/a"; empty: a volume that is gone after a restart
  std::string path;     // in the file system; empty like `backing`
  ZvolSight sight = ZvolSight::none;
  std::string property;  // org.zvolt:uuid, empty when there is none
  uint64_t guid = 0;     // of the dataset
  std::string dataset;   // its name, for messages; empty when it is no zvol
};

struct Identity {
  std::optional<Uuid> uuid;  // nothing: a zvol that was never seen
  uint64_t guid = 0;         // of the dataset that has it, 0: not known
};

// In the order of `volumes`. What was made is durable in the state directory when this returns; `look_only` writes
// nothing and logs nothing (plan).
Result<std::vector<Identity>> identify(const StateDir& state, const std::vector<VolumeKey>& volumes,
                                       bool look_only = false);

}  // namespace zvolt::daemon
