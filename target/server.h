// Server: portals, shards, targets and sessions of one daemon. The composition root builds it from the configuration
// and the opened logical units; the admin endpoint asks it for state. start(), stop(), reconfigure() and the snapshots
// may be called from the main thread or the admin thread; everything else happens on shard threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backing/result.h"
#include "scsi/it_nexus.h"
#include "scsi/logical_unit.h"
#include "target/stats/lun_stats.h"

namespace zvolt::iscsi {

struct PortalOptions {
  std::string address;  // literal IPv4 or IPv6 address
  uint16_t port = 3260;
  uint16_t group = 1;  // target portal group tag
};

struct TargetNode {
  std::string name;
  std::string alias;
  std::vector<uint16_t> groups;         // empty: every group
  std::vector<std::string> initiators;  // patterns, '*' at the end matches the rest; empty: any
  std::shared_ptr<const scsi::LunMap> luns;
};

struct ServerOptions {
  unsigned shards = 1;
  uint64_t memory_bytes = 0;  // data buffers of all shards together
  std::vector<PortalOptions> portals;
  std::vector<TargetNode> targets;
  bool allow_uring = true;
  // How long a session that must go may take to log out before its connection is closed.
  std::chrono::seconds logout_time{10};
};

struct SessionInfo {
  std::string initiator, target, address;
  uint16_t tsih = 0;
  unsigned shard = 0;
  uint64_t commands_in_flight = 0;
  uint64_t map_generation = 0;  // the configuration (1 at start, one more each reconfigure) that last changed its LUNs
};

// What the server shall look like from now on: all of it, not the difference.
struct ServerChange {
  std::vector<TargetNode> targets;
  std::vector<PortalOptions> portals;
};

struct ChangeReport {
  uint64_t generation = 0;
  unsigned sessions_changed = 0;  // their LUN map is another one now
  unsigned sessions_leaving = 0;  // asked to log out: their target is gone or no longer theirs
};

// What was not answered when the server stopped.
struct StopReport {
  uint64_t changes =
      0;  // writes, flushes and the like that the store had not ended: not acknowledged, their fate unknown
  uint64_t reads = 0;  // other commands that the store had not ended
  uint64_t peer = 0;   // the initiator did not send their data, or did not take the answers before theirs
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  // Binds all portals, then starts the shards. On error nothing is left running.
  Result<void> start();
  // Port that a portal really has (options may say 0), in order of the options.
  std::vector<uint16_t> ports() const;
  // No new connections or commands; waits until commands in flight are answered (at most `limit`), closes the
  // connections, stops the shards. Returns the number of commands that were still in flight when the limit passed.
  uint64_t stop(std::chrono::milliseconds limit);
  // The same, and tells them apart. Commands that wait for their initiator are waited for as long as it moves only.
  StopReport stop_and_report(std::chrono::milliseconds limit);

  // Changes targets, LUN maps and portals while serving; any thread but a shard's or the accept thread, one after the
  // other. New portals are bound first: an error there changes nothing (but where a new address overlaps one that goes,
  // the old one is closed for it and bound again). Then the target table is swapped and every session gets its new map
  // on its shard (ItNexus::replace_map); those it does not concern see nothing. Sessions whose target is gone or no
  // longer theirs lose their LUNs at once, are asked to log out and closed after `logout_time`. When this returns every
  // shard has switched: no new command reaches a unit that is mapped no more. Its old commands hold it until they end.
  // Portals that go stop listening; sessions that came through them stay.
  Result<ChangeReport> reconfigure(ServerChange change);

  std::vector<SessionInfo> sessions() const;
  // By volume name, in order of first mapping. A volume keeps its statistics as long as it is mapped.
  std::vector<std::shared_ptr<stats::LunStats>> lun_stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zvolt::iscsi
