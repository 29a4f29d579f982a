// Daemon: one life of zvoltd from a loaded configuration to the exit status: state directory, stores, admin endpoint,
// server, signals, drain, last flush. Called by main() on the main thread, after logging was started.
#pragma once

#include "config/loader.h"
#include "target/daemon/volume_set.h"

namespace zvolt::daemon {

// Signals that the daemon waits for are blocked in every thread: call before any thread is started.
void block_signals();

struct RunOptions {
  config::LoadOptions load;  // as the configuration was loaded: apply loads it again
  VolumeSetOptions volumes;
};

// 0: served and ended well. 1: could not start, or something was lost at the end (the log says what).
int run(const config::Config& config, const RunOptions& options);

}  // namespace zvolt::daemon
