// One request to the admin endpoint of zvoltd, over its Unix socket. Blocking, bounded in time and size. Used by
// zvoltctl.
#pragma once

#include <chrono>
#include <string>

namespace zvolt::control {

struct Response {
  unsigned status = 0;  // HTTP
  std::string body;
  std::string error;  // not empty: there was no answer, and this is why
};

// `limit`: for the whole exchange.
Response request(const std::string& socket_path, const std::string& method, const std::string& target,
                 std::chrono::seconds limit);

std::string url_encoded(const std::string& text);

}  // namespace zvolt::control
