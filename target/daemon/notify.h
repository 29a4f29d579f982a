// sd_notify(3) without libsystemd: one datagram to $NOTIFY_SOCKET. Called by the daemon's main thread. Does nothing
// when the variable is not set; what goes wrong is not worth stopping for.
#pragma once

#include <string_view>

namespace zvolt::daemon {

void notify_service_manager(std::string_view state);  // "READY=1"

}  // namespace zvolt::daemon
