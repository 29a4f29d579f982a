// Many blocking jobs on a few threads, within a deadline: opening and provisioning hundreds of volumes. Called by the
// composition root on any thread but a shard's.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace zvolt::daemon {

// Threads at once: opening mostly waits for devices and commands, so more than there are cores.
inline constexpr unsigned kParallelJobs = 16;

// Runs job(0) .. job(count - 1), each once. True: all have ended. False: `limit` passed; no further one is begun, but
// some still run, so what `job` refers to must be owned by it (shared pointers). Jobs must not throw.
bool run_parallel(size_t count, std::function<void(size_t)> job, std::chrono::milliseconds limit);

}  // namespace zvolt::daemon
