// zvoltd as a child process of a test: writes its YAML, gives it a free loopback port, waits until it listens, ends it
// and checks how it ended. The binary is the one of the same build. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backing/result.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace zvolt::test {

inline constexpr const char* kTargetName = "iqn.2026-11.org.example:test";
// ASan builds on a busy machine are slow to start and to stop; a healthy one needs far less.
inline constexpr std::chrono::seconds kDaemonLimit{30};

struct DaemonConfig {
  // Lines of `luns:` of the one target, in YAML flow form: "{ lun: 0, name: a, memory: 64MiB }".
  std::vector<std::string> luns = {"{ lun: 0, name: disk, memory: 64MiB }"};
  int threads = 2;
  std::vector<std::string> more_targets;  // further entries of `targets:`, in flow form
  std::string more_yaml;                  // further top-level lines
  std::vector<std::string> arguments;     // further arguments of zvoltd
  std::vector<std::string> environment;   // NAME=value, added
};

// A program of this build: "zvoltd", "zvoltctl", "zvolt-verify-loop".
std::string program(const std::string& name);
// A command of the made-up ZFS (tests/support/fake_zfs): "zfs", "zpool".
std::string fake_zfs(const std::string& name);

// A loopback TCP port that was free a moment ago, outside the range of outgoing connections. Who binds it must be ready
// to try again.
uint16_t probe_free_port();

class Daemon {
 public:
  explicit Daemon(DaemonConfig config = {});
  ~Daemon();  // SIGKILL when it still runs

  // Starts (again: with the same port where it is still free) and waits until the port accepts. The error carries the
  // log.
  Result<void> start();
  // SIGTERM, then the exit status; 137 when it had to be killed after kDaemonLimit.
  ExitStatus terminate();
  void kill();  // SIGKILL and reap: a crash, as far as clients can tell

  bool running() const { return process_.running(); }
  pid_t pid() const { return process_.pid(); }
  Process& process() { return process_; }
  uint16_t port() const { return port_; }
  std::string portal() const;  // 127.0.0.1:PORT
  std::string url(int lun = 0) const { return url(lun, kTargetName); }
  std::string url(int lun, const std::string& target) const;  // iscsi://PORTAL/TARGET/LUN
  std::string config_path() const { return directory_.file("zvolt.yaml"); }
  std::string admin_socket() const { return directory_.file("admin.sock"); }
  std::string log() const { return read_file(log_path()); }
  const TempDir& directory() const { return directory_; }
  DaemonConfig& config() { return config_; }  // takes effect at the next start() or write_config()
  void write_config() const;                  // for a daemon that runs: apply or SIGHUP makes it read it

 private:
  std::string log_path() const { return directory_.file("zvoltd.log"); }
  std::string yaml() const;
  Result<void> start_once();

  TempDir directory_;
  DaemonConfig config_;
  uint16_t port_ = 0;
  Process process_;
};

}  // namespace zvolt::test
