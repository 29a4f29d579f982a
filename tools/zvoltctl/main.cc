// zvoltctl: checks configurations, and asks a running zvoltd over its admin socket. Exit status: 0 good, 1 failed, 2
// wrong use.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/loader.h"
#include "tools/zvoltctl/client.h"
#include "tools/zvoltctl/show.h"

namespace {

using nlohmann::json;
using zvolt::config::Problem;

constexpr int kFailed = 1, kWrongUse = 2;

struct Arguments {
  std::string socket = "/run/zvolt/admin.sock";
  std::string output = "text";
  std::string file, lun;
  bool test_stores = false;
};

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

json problems_json(const std::vector<Problem>& problems) {
  json out = json::array();
  for (const Problem& p : problems)
    out.push_back({{"file", p.where.file}, {"line", p.where.line}, {"column", p.where.column}, {"message", p.message}});
  return out;
}

void print_problems(const char* kind, const std::vector<Problem>& problems) {
  for (const Problem& p : problems)
    std::fprintf(stderr, "%s:%d:%d: %s: %s\n", p.where.file.c_str(), p.where.line, p.where.column, kind,
                 p.message.c_str());
}

int check(const Arguments& arguments) {
  const auto loaded = zvolt::config::load_file(arguments.file, {.test_stores = arguments.test_stores});
  if (arguments.output == "json") {
    const json reply = {
        {"ok", loaded.ok()}, {"errors", problems_json(loaded.problems)}, {"warnings", problems_json(loaded.warnings)}};
    std::printf("%s\n", dump(reply).c_str());
  } else {
    print_problems("error", loaded.problems);
    print_problems("warning", loaded.warnings);
    if (loaded.ok())
      std::printf("%s: good, %zu targets, %zu volumes\n", arguments.file.c_str(), loaded.config.targets.size(),
                  loaded.config.volumes.size());
  }
  return loaded.ok() ? 0 : kFailed;
}

// Asks and prints; the daemon's own word when it refuses.
int ask(const Arguments& arguments, const std::string& target, std::string (*show)(const json&)) {
  const auto response = zvolt::control::request(arguments.socket, "GET", target);
  if (!response.error.empty()) {
    std::fprintf(stderr, "zvoltctl: %s: %s; does zvoltd run, with this 'admin.socket'?\n", arguments.socket.c_str(),
                 response.error.c_str());
    return kFailed;
  }
  const json reply = json::parse(response.body, nullptr, false);
  if (response.status != 200 || reply.is_discarded()) {
    const bool told = reply.is_object() && reply.contains("error") && reply["error"].is_string();
    const std::string why = told ? reply["error"].get<std::string>() : "answer " + std::to_string(response.status);
    std::fprintf(stderr, "zvoltctl: %s\n", why.c_str());
    return kFailed;
  }
  std::fputs((arguments.output == "json" ? dump(reply) + "\n" : show(reply)).c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  namespace control = zvolt::control;
  Arguments arguments;
  CLI::App app("zvoltctl: checks configurations of zvoltd and asks a running one");
  app.set_version_flag("--version", "zvoltctl " ZVOLT_VERSION);
  app.add_option("-s,--socket", arguments.socket, "Admin socket of zvoltd")
      ->envname("ZVOLT_SOCKET")
      ->capture_default_str()
      ->type_name("PATH");
  app.add_option("-o,--output", arguments.output, "Form of the output")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.require_subcommand(1);
  app.fallthrough();
  auto* check_command = app.add_subcommand("check", "Load and validate a configuration; nothing is opened");
  check_command->add_option("file", arguments.file, "YAML file")->required()->type_name("FILE");
  check_command->add_flag("--test-stores", arguments.test_stores, "Accept 'faults:' in volumes");
  const auto* status_command = app.add_subcommand("status", "What the daemon serves, where, since when");
  const auto* luns_command = app.add_subcommand("luns", "Volumes: size, identity, mappings");
  const auto* sessions_command = app.add_subcommand("sessions", "Who is logged in");
  auto* stats_command = app.add_subcommand("stats", "Latency by LUN, class and stage");
  stats_command->add_option("lun", arguments.lun, "Only this volume")->type_name("LUN");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUse;
  }
  if (check_command->parsed()) return check(arguments);
  if (status_command->parsed()) return ask(arguments, "/api/status", control::show_status);
  if (luns_command->parsed()) return ask(arguments, "/api/luns", control::show_luns);
  if (sessions_command->parsed()) return ask(arguments, "/api/sessions", control::show_sessions);
  const std::string query = arguments.lun.empty() ? "" : "?lun=" + control::url_encoded(arguments.lun);
  return ask(arguments, "/api/stats" + query, control::show_stats);
}
