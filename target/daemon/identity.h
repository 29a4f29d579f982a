// Identities: the UUID of every volume, design section 8. A UUID in the YAML counts; else one is made at first use and
// kept in the state directory (identity.json) under what the volume serves, so that order, LUN numbers, target and
// volume names may change. Volumes in memory derive theirs from their name and the state directory. Main thread, before
// serving.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backing/result.h"
#include "target/daemon/state_dir.h"

namespace zvolt::daemon {

using Uuid = std::array<uint8_t, 16>;

std::string uuid_text(const Uuid& uuid);
Result<Uuid> parse_uuid(const std::string& text);

// What the identity of one volume is found by.
struct VolumeKey {
  std::string name;
  std::string pinned;   // `uuid:`, empty when there is none
  std::string backing;  // "file:/srv/a.img", "zvol:tank/a"; empty: a volume that is gone after a restart
  std::string path;     // in the file system; empty like `backing`
};

// In the order of `volumes`. What was made is durable in the state directory when this returns.
Result<std::vector<Uuid>> identify(const StateDir& state, const std::vector<VolumeKey>& volumes);

}  // namespace zvolt::daemon
