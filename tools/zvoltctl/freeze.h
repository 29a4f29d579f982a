// `zvoltctl freeze` and `zvoltctl snapshot`: writes of volumes are held, their stores brought up to date, a command is
// run, and they go on. For hooks of snapshot tools; needed with a journal, good without. Blocking.
#pragma once

#include <string>
#include <vector>

namespace zvolt::control {

struct FreezeOptions {
  std::string socket;
  std::vector<std::string> volumes;
  unsigned seconds = 10;  // the hold ends by itself after that: hosts time out
  bool datasets = false;  // `volumes` are ZFS datasets: all served zvols that are or lie below one of them, maybe none
};

// The command's exit status, or 1 when nothing was held, or the hold was over before the command was.
int freeze(const FreezeOptions& options, const std::vector<std::string>& command);
// For tools that run something before and something after: holds, prints a token ("none": nothing to hold) and returns.
int hold(const FreezeOptions& options);
// 1: the hold was over before, so that what was done meanwhile did not find the volumes at rest.
int thaw(const std::string& socket, const std::string& token);
// `zfs snapshot` of these zvols at one instant; `name` after the '@'. `recursive`: with all datasets below, and with
// the writes of the served volumes among those held too.
int snapshot(FreezeOptions options, const std::string& name, bool recursive);

}  // namespace zvolt::control
