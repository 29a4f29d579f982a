// See freeze.h.
#include "tools/zvoltctl/freeze.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/zvoltctl/client.h"

namespace zvolt::control {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;
constexpr const char* kNothingHeld = "none";
constexpr std::chrono::seconds kLimit{90};  // coming to rest and the hold, each at most 25 s, behind another freeze

int fail(const std::string& why) {
  std::fprintf(stderr, "zvoltctl: %s\n", why.c_str());
  return kFailed;
}

// The reply, or nothing with the daemon's word printed.
std::optional<json> ask(const std::string& socket, const std::string& method, const std::string& target) {
  const Response response = request(socket, method, target, kLimit);
  if (!response.error.empty()) {
    fail(socket + ": " + response.error);
    return std::nullopt;
  }
  json reply = json::parse(response.body, nullptr, false);
  if (response.status == 200 && !reply.is_discarded()) return reply;
  const bool told = reply.is_object() && reply.contains("error") && reply["error"].is_string();
  fail(told ? reply["error"].get<std::string>() : "answer " + std::to_string(response.status));
  return std::nullopt;
}

// As a shell says it: 127 not found, 128 + the signal that ended it.
int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return fail(std::string("cannot start a command: ") + std::strerror(errno));
  if (child == 0) {
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "zvoltctl: %s: %s\n", arguments[0], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return kFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// One that the operator has taken offline is written to by nobody; what its journal has of it was written back before.
bool at_rest(const json& lun) {
  return lun.value("state", "") == "offline" && lun["journal"].is_null();
}

// The served zvols that are, or lie below, one of these datasets. Nothing: the daemon could not be asked.
std::optional<std::vector<std::string>> volumes_of(const std::string& socket,
                                                   const std::vector<std::string>& datasets) {
  const auto luns = ask(socket, "GET", "/api/luns");
  if (!luns) return std::nullopt;
  std::vector<std::string> out;
  for (const json& lun : *luns) {
    const std::string path = lun.value("path", "");
    const auto covers = [&](const std::string& dataset) { return path == dataset || path.starts_with(dataset + "/"); };
    if (lun["kind"] == "zvol" && !at_rest(lun) && std::any_of(datasets.begin(), datasets.end(), covers))
      out.push_back(lun.value("volume", ""));
  }
  return out;
}

// A token, or nothing with the reason printed.
std::optional<std::string> take_hold(const FreezeOptions& options) {
  auto volumes = options.datasets ? volumes_of(options.socket, options.volumes) : options.volumes;
  if (!volumes) return std::nullopt;
  if (volumes->empty()) return kNothingHeld;
  std::string names;
  for (const std::string& volume : *volumes) names += (names.empty() ? "" : ",") + volume;
  const auto held = ask(options.socket, "POST",
                        "/api/freeze?luns=" + url_encoded(names) + "&seconds=" + std::to_string(options.seconds));
  if (!held) return std::nullopt;
  return (*held)["token"].dump();
}

}  // namespace

int freeze(const FreezeOptions& options, const std::vector<std::string>& command) {
  if (command.empty()) return fail("what is to be run meanwhile? zvoltctl freeze VOLUME... -- COMMAND"), 2;
  const auto token = take_hold(options);
  if (!token) return kFailed;
  const int status = run(command);
  const int thawed = thaw(options.socket, *token);
  return status != 0 ? status : thawed;
}

int hold(const FreezeOptions& options) {
  const auto token = take_hold(options);
  if (!token) return kFailed;
  std::printf("%s\n", token->c_str());
  return 0;
}

int thaw(const std::string& socket, const std::string& token) {
  if (token == kNothingHeld) return 0;
  return ask(socket, "POST", "/api/thaw?token=" + url_encoded(token)) ? 0 : kFailed;
}

int snapshot(FreezeOptions options, const std::string& name, bool recursive) {
  const auto luns = ask(options.socket, "GET", "/api/luns");
  if (!luns) return kFailed;
  std::vector<std::string> command = {"zfs", "snapshot"};
  if (const char* other = std::getenv("ZVOLT_ZFS_COMMAND")) command[0] = other;  // tests
  if (recursive) command.emplace_back("-r");
  std::vector<std::string> datasets;
  for (const std::string& volume : options.volumes) {
    const auto found =
        std::find_if(luns->begin(), luns->end(), [&](const json& lun) { return lun["volume"] == volume; });
    if (found == luns->end()) return fail("there is no volume '" + volume + "'");
    if ((*found)["kind"] != "zvol") return fail("volume " + volume + " is no zvol; use 'zvoltctl freeze'");
    datasets.push_back((*found)["path"].get<std::string>());
    command.push_back(datasets.back() + "@" + name);
  }
  for (const json& lun : *luns) {
    const std::string path = lun.value("path", ""), volume = lun.value("volume", "");
    const auto below = [&](const std::string& dataset) { return path.starts_with(dataset + "/"); };
    const bool named = std::find(options.volumes.begin(), options.volumes.end(), volume) != options.volumes.end();
    if (recursive && !named && lun["kind"] == "zvol" && std::any_of(datasets.begin(), datasets.end(), below))
      options.volumes.push_back(volume);
  }
  const int status = freeze(options, command);
  if (status != 0)
    std::fprintf(stderr, "zvoltctl: snapshots @%s that were made all the same may not be consistent\n", name.c_str());
  return status;
}

}  // namespace zvolt::control
