// Sets up spdlog's default logger: lines of text or of JSON on standard error. Called once by main() before any thread;
// afterwards every layer above backing logs through spdlog from any thread.
#pragma once

#include <string>
#include <string_view>

namespace zvolt::daemon {

// level: trace debug info warning error. A slow reader of standard error never stops a shard: lines wait in a bounded
// queue and the oldest are dropped.
void start_logging(const std::string& level, bool json);

// Another level from now on. Any thread.
void set_log_level(const std::string& level);

// Writes what is queued and ends the logger's thread. Nothing is logged afterwards.
void stop_logging();

// Text as the inside of a JSON string. Bytes that are not UTF-8 become U+FFFD: peers choose some of what is logged.
std::string json_escaped(std::string_view text);

}  // namespace zvolt::daemon
