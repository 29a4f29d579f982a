// Daemon: one life of zvoltd from a loaded configuration to the exit status: state directory, stores, admin endpoint,
// server, signals, drain, last flush. Called by main() on the main thread, after logging was started.
#pragma once

#include "config/model.h"

namespace zvolt::daemon {

// Signals that the daemon waits for are blocked in every thread: call before any thread is started.
void block_signals();

// 0: served and ended well. 1: could not start, or something was lost at the end (the log says what).
int run(const config::Config& config);

}  // namespace zvolt::daemon
