// A child process: started with its output in a log file, watched through a pidfd, and always reaped. Used for zvoltd,
// zvoltctl and other programs under test. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "backing/result.h"

namespace zvolt::test {

// How a process ended: its exit status, or 128 + the signal that ended it, as a shell says it.
using ExitStatus = int;

class Process {
 public:
  Process() = default;
  ~Process();  // SIGKILL and reap when it still runs
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // Output and errors are appended to `log_path`; standard input is /dev/null. `environment`: NAME=value, added.
  static Result<Process> start(const std::vector<std::string>& arguments, const std::string& log_path,
                               const std::vector<std::string>& environment = {});

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_; }  // readable once the process has ended
  void signal(int number) const;
  // nullopt: still running after `limit`.
  std::optional<ExitStatus> wait(std::chrono::milliseconds limit);

 private:
  void drop();

  pid_t pid_ = -1;
  int pidfd_ = -1;
};

struct CommandResult {
  ExitStatus status = -1;
  std::string output;  // standard output and errors together
};

// Runs a command to its end; one that lasts longer than `limit` is killed (status 137).
CommandResult run_command(const std::vector<std::string>& arguments,
                          std::chrono::milliseconds limit = std::chrono::seconds(60));

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace zvolt::test
