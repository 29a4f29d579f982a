// zvoltctl: checks configurations, and asks and orders a running zvoltd over its admin socket. Exit status: 0 good, 1
// failed or refused, 2 wrong use.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/json_schema.h"
#include "config/loader.h"
#include "config/size.h"
#include "target/daemon/host_check.h"
#include "tools/zvoltctl/client.h"
#include "tools/zvoltctl/freeze.h"
#include "tools/zvoltctl/journal_tool.h"
#include "tools/zvoltctl/show.h"

namespace {

namespace control = zvolt::control;
using nlohmann::json;
using zvolt::config::Problem;

constexpr int kFailed = 1, kWrongUse = 2;
constexpr std::chrono::seconds kLook{15};    // for what only reads
constexpr std::chrono::seconds kOrder{600};  // hundreds of zvols take their time

struct Arguments {
  std::string socket = "/run/zvolt/admin.sock";
  std::string output = "text";
  std::string file, lun, size, path, store, token;
  std::vector<std::string> volumes, command;  // command: what stands behind --
  unsigned seconds = 10;
  bool test_stores = false, recursive = false, records = false, force = false, datasets = false, keep = false;
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

// May be asked on any machine: what is missing on this one is a warning here (zvoltd --check says error).
int check(const Arguments& arguments) {
  auto loaded = zvolt::config::load_file(arguments.file, {.test_stores = arguments.test_stores});
  if (loaded.ok()) {
    const auto host = zvolt::daemon::check_host(loaded.config, {});
    loaded.warnings.insert(loaded.warnings.end(), host.missing.begin(), host.missing.end());
    loaded.warnings.insert(loaded.warnings.end(), host.warnings.begin(), host.warnings.end());
  }
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

struct Question {
  std::string method, target;
  std::string (*show)(const json&);
  std::chrono::seconds limit = kLook;
};

// Asks and prints; the daemon's own word when it refuses.
int ask(const Arguments& arguments, const Question& question) {
  const auto response = control::request(arguments.socket, question.method, question.target, question.limit);
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
  const bool good = !reply.is_object() || reply.value("ok", true);
  const std::string text = arguments.output == "json" ? dump(reply) + "\n" : question.show(reply);
  std::fputs(text.c_str(), good || arguments.output == "json" ? stdout : stderr);
  return good ? 0 : kFailed;
}

// The daemon has another working directory than who names the file.
std::string file_query(const std::string& file) {
  if (file.empty()) return {};
  std::error_code ec;
  const auto absolute = std::filesystem::absolute(file, ec);
  return "?file=" + control::url_encoded(ec ? file : absolute.string());
}

int resize(const Arguments& arguments) {
  std::string query = "?lun=" + control::url_encoded(arguments.lun);
  if (!arguments.size.empty()) {
    const auto bytes = zvolt::config::parse_size(arguments.size).bytes;
    if (!bytes || *bytes == 0) {
      std::fprintf(stderr, "zvoltctl: '%s' is no size; write 200GiB or a number of bytes\n", arguments.size.c_str());
      return kWrongUse;
    }
    query += "&size=" + std::to_string(*bytes);
  }
  return ask(arguments, {"POST", "/api/resize" + query, control::show_volume, kOrder});
}

int schema() {
  std::fputs(zvolt::config::json_schema().c_str(), stdout);
  return 0;
}

// One subcommand: how it is called, and what it does.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {}
  CLI::App* add(const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = app_.add_subcommand(name, what);
    commands_.emplace_back(command, std::move(run));
    return command;
  }
  bool parsed() const {
    return std::any_of(commands_.begin(), commands_.end(), [](const auto& each) { return each.first->parsed(); });
  }
  int run() const {
    for (const auto& [command, run] : commands_)
      if (command->parsed()) return run();
    return kWrongUse;
  }

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands_;
};

void add_looks(Commands& commands, Arguments& a) {
  commands.add("status", "What the daemon serves, where, since when", [&a] {
    return ask(a, {"GET", "/api/status", control::show_status});
  });
  commands.add("luns", "Volumes: state, size, identity, mappings", [&a] {
    return ask(a, {"GET", "/api/luns", control::show_luns});
  });
  commands.add("sessions", "Who is logged in", [&a] {
    return ask(a, {"GET", "/api/sessions", control::show_sessions});
  });
  auto* stats = commands.add("stats", "Latency by LUN, class and stage", [&a] {
    const std::string query = a.lun.empty() ? "" : "?lun=" + control::url_encoded(a.lun);
    return ask(a, {"GET", "/api/stats" + query, control::show_stats});
  });
  stats->add_option("lun", a.lun, "Only this volume")->type_name("LUN");
}

void add_files(Commands& commands, Arguments& a) {
  auto* checked = commands.add("check", "Validate a configuration and look at this host; nothing is changed",
                               [&a] { return check(a); });
  checked->add_option("file", a.file, "YAML file")->required()->type_name("FILE");
  checked->add_flag("--test-stores", a.test_stores, "Accept 'faults:' in volumes");
  commands.add("schema", "The JSON Schema of the configuration, for editors", [] { return schema(); });
  auto* plan = commands.add("plan", "What 'apply' would change; changes nothing", [&a] {
    return ask(a, {"GET", "/api/plan" + file_query(a.file), control::show_plan, kOrder});
  });
  plan->add_option("file", a.file, "Instead of the file that the daemon was started with")->type_name("FILE");
  auto* apply = commands.add("apply", "Make the daemon serve what the configuration says now", [&a] {
    return ask(a, {"POST", "/api/apply" + file_query(a.file), control::show_apply, kOrder});
  });
  apply->add_option("file", a.file, "Instead of the file that the daemon was started with")->type_name("FILE");
}

void add_orders(Commands& commands, Arguments& a) {
  constexpr const char* kWhich = "Name of the volume, or TARGET/LUN";
  auto* offline = commands.add("offline", "Close a volume's store; hosts are told to wait", [&a] {
    return ask(a, {"POST", "/api/offline?lun=" + control::url_encoded(a.lun), control::show_volume, kOrder});
  });
  offline->add_option("lun", a.lun, kWhich)->required()->type_name("LUN");
  auto* online = commands.add("online", "Serve a volume again that was taken offline", [&a] {
    return ask(a, {"POST", "/api/online?lun=" + control::url_encoded(a.lun), control::show_volume, kOrder});
  });
  online->add_option("lun", a.lun, kWhich)->required()->type_name("LUN");
  auto* sized = commands.add("resize", "Grow a volume, or look at its size once more", [&a] { return resize(a); });
  sized->add_option("lun", a.lun, kWhich)->required()->type_name("LUN");
  sized->add_option("size", a.size, "New size, 200GiB; without it only looks")->type_name("SIZE");
}

int snapshot(Arguments& a) {
  const size_t at = a.volumes.back().find('@');
  if (at == std::string::npos || at + 1 == a.volumes.back().size()) {
    std::fprintf(stderr, "zvoltctl: the last volume needs the snapshot's name: zvoltctl snapshot VOLUME...@NAME\n");
    return kWrongUse;
  }
  const std::string name = a.volumes.back().substr(at + 1);
  a.volumes.back().resize(at);
  return control::snapshot({a.socket, a.volumes, a.seconds, false}, name, a.recursive);
}

void add_rest(Commands& commands, Arguments& a) {
  auto* flush = commands.add("flush", "Bring a volume's store up to date with its journal, and flush it", [&a] {
    return ask(a, {"POST", "/api/flush?lun=" + control::url_encoded(a.lun), control::show_volume, kOrder});
  });
  flush->add_option("lun", a.lun, "Name of the volume, or TARGET/LUN")->required()->type_name("LUN");
  auto* taken =
      commands.add("snapshot", "ZFS snapshots of volumes at one instant: VOLUME...@NAME", [&a] { return snapshot(a); });
  taken->add_option("volumes", a.volumes, "Volumes; the last with @NAME")->required()->type_name("VOLUME");
  taken->add_flag("-r,--recursive", a.recursive, "With all datasets below them");
  auto* frozen = commands.add("freeze", "Hold the writes of volumes while a command runs: VOLUME... -- COMMAND", [&a] {
    const control::FreezeOptions options{a.socket, a.volumes, a.seconds, a.datasets};
    return a.keep ? control::hold(options) : control::freeze(options, a.command);
  });
  frozen->add_option("volumes", a.volumes, "Volumes")->required()->type_name("VOLUME");
  frozen->add_flag("--datasets", a.datasets, "ZFS datasets instead: all volumes that are or lie below one of them");
  frozen->add_flag("--keep", a.keep, "Hold, print a token for 'thaw' and return");
  auto* thawed =
      commands.add("thaw", "End a hold of 'freeze --keep'", [&a] { return control::thaw(a.socket, a.token); });
  thawed->add_option("token", a.token, "What freeze printed")->required()->type_name("TOKEN");
  for (CLI::App* command : {taken, frozen})
    command->add_option("--seconds", a.seconds, "Longest hold, 1 to 25")->capture_default_str();
}

int discard(const Arguments& a) {
  if (!a.path.empty()) return control::journal_discard(a.path, a.lun);
  return ask(a, {"POST", "/api/journal/discard?lun=" + control::url_encoded(a.lun), control::show_volume, kOrder});
}

// `journal` alone is the state of the running daemon's; the others work on a device or file without one.
void add_journal(Commands& commands, std::unique_ptr<Commands>& nested, Arguments& a) {
  auto* journal = commands.add("journal", "Journals: state, or work on one without its daemon", [&a, &nested] {
    if (nested->parsed()) return nested->run();
    return ask(a, {"GET", "/api/journals", control::show_journals});
  });
  nested = std::make_unique<Commands>(*journal);
  const auto with_path = [&a](CLI::App* command) {
    command->add_option("path", a.path, "Device or file of the journal")->required()->type_name("PATH");
    return command;
  };
  auto* inspect = with_path(nested->add("inspect", "What is on it; changes nothing", [&a] {
    return control::journal_inspect(a.path, a.records, a.output == "json");
  }));
  inspect->add_flag("--records", a.records, "Each record");
  with_path(nested->add("verify", "Whether all that was durable is good; changes nothing",
                        [&a] { return control::journal_verify(a.path, a.output == "json"); }));
  auto* replay = with_path(nested->add("replay", "Write what it holds of one LUN to that LUN's store",
                                       [&a] { return control::journal_replay(a.path, a.lun, a.store); }));
  replay->add_option("--lun", a.lun, "UUID of the LUN")->required()->type_name("UUID");
  replay->add_option("--store", a.store, "Its device or file")->required()->type_name("PATH");
  auto* given_up = nested->add("discard", "Give up what a journal holds of one LUN", [&a] { return discard(a); });
  given_up->add_option("path", a.path, "Device or file; without it the running daemon is told")->type_name("PATH");
  given_up->add_option("--lun", a.lun, "UUID; for a running daemon the volume")->required()->type_name("LUN");
  auto* format = with_path(
      nested->add("format", "Make an empty journal", [&a] { return control::journal_format(a.path, a.force); }));
  format->add_flag("--force", a.force, "Whatever is there is lost");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("zvoltctl: checks configurations of zvoltd, asks a running one, and changes what it serves");
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
  Commands commands(app);
  add_files(commands, arguments);
  add_looks(commands, arguments);
  add_orders(commands, arguments);
  add_rest(commands, arguments);
  std::unique_ptr<Commands> journal;
  add_journal(commands, journal, arguments);
  // What stands behind -- is another program's command line.
  int own = argc;
  for (int i = argc - 1; i > 0; --i)
    if (std::string_view(argv[i]) == "--") own = i;
  for (int i = own + 1; i < argc; ++i) arguments.command.emplace_back(argv[i]);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUse;
  }
  return commands.run();
}
