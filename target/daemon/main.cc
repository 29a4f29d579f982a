// zvoltd: command line, configuration, logging; then daemon.h. Exit status: 0 good, 1 failed, 2 wrong use.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <spdlog/spdlog.h>

#include "config/loader.h"
#include "target/daemon/daemon.h"
#include "target/daemon/host_check.h"
#include "target/daemon/logging.h"

namespace {

struct Arguments {
  std::string config_file;
  std::string log_level;
  bool check = false;
  bool test_stores = false;
};

constexpr int kFailed = 1, kWrongUse = 2;

void print(const char* kind, const std::vector<zvolt::config::Problem>& problems) {
  for (const auto& problem : problems)
    std::fprintf(stderr, "%s:%d:%d: %s: %s\n", problem.where.file.c_str(), problem.where.line, problem.where.column,
                 kind, problem.message.c_str());
}

// Test doubles of ZFS's commands and devices, by the environment and with --test-stores only.
zvolt::daemon::RunOptions run_options(const Arguments& arguments) {
  zvolt::daemon::RunOptions options;
  options.load.test_stores = arguments.test_stores;
  if (!arguments.test_stores) return options;
  if (const char* zfs = std::getenv("ZVOLT_ZFS_COMMAND")) options.volumes.zfs.command = zfs;
  if (const char* zpool = std::getenv("ZVOLT_ZPOOL_COMMAND")) options.volumes.zfs.zpool_command = zpool;
  if (const char* links = std::getenv("ZVOLT_ZVOL_LINKS")) {
    options.volumes.search.dev_root = links;
    options.volumes.search.trust_links = true;
  }
  return options;
}

int check(const zvolt::config::Loaded& loaded, const zvolt::daemon::RunOptions& options) {
  print("error", loaded.problems);
  print("warning", loaded.warnings);
  if (!loaded.ok()) return kFailed;
  const auto host = zvolt::daemon::check_host(loaded.config, {.zfs = options.volumes.zfs});
  print("error", host.missing);
  print("warning", host.warnings);
  if (!host.missing.empty()) return kFailed;
  std::printf("%s: good\n", loaded.config.file.c_str());
  return 0;
}

int serve(const zvolt::config::Loaded& loaded, const Arguments& arguments) {
  if (!loaded.ok()) {
    print("error", loaded.problems);
    return kFailed;
  }
  zvolt::daemon::block_signals();
  zvolt::daemon::start_logging(arguments.log_level.empty() ? loaded.config.log_level : arguments.log_level,
                               loaded.config.log_json);
  for (const auto& warning : loaded.warnings) spdlog::warn("{}", warning.text());
  int status = kFailed;
  try {
    status = zvolt::daemon::run(loaded.config, run_options(arguments));
  } catch (const std::exception& e) {  // out of memory or of threads while starting
    spdlog::error("zvoltd: {}", e.what());
  }
  zvolt::daemon::stop_logging();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("zvoltd: userspace iSCSI target for zvols, block devices and files");
  app.add_option("-c,--config", arguments.config_file, "Configuration, a YAML file")->required()->type_name("FILE");
  app.add_flag("--check", arguments.check,
               "Load and validate the configuration, look at this host, print errors and warnings, and end");
  app.add_flag("--test-stores", arguments.test_stores, "Accept 'faults:' in volumes; for tests only");
  app.add_option("--log-level", arguments.log_level, "Instead of the configuration's log.level")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}));
  app.set_version_flag("--version", "zvoltd " ZVOLT_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUse;
  }
  const auto loaded = zvolt::config::load_file(arguments.config_file, {.test_stores = arguments.test_stores});
  return arguments.check ? check(loaded, run_options(arguments)) : serve(loaded, arguments);
}
