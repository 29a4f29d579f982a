// See process.h.
#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/support/temp_dir.h"

namespace zvolt::test {

namespace {

// In the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* argv, char* const* environment, size_t extra, int log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves no daemon behind
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  for (size_t i = 0; i < extra; ++i) ::putenv(environment[i]);
  ::execvp(argv[0], argv);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process::~Process() {
  drop();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    drop();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::exchange(other.pidfd_, -1);
  }
  return *this;
}

void Process::drop() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (pidfd_ >= 0) ::close(pidfd_);
  pid_ = pidfd_ = -1;
}

Result<Process> Process::start(const std::vector<std::string>& arguments, const std::string& log_path,
                               const std::vector<std::string>& environment) {
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return Error{errno, "cannot write " + log_path};
  std::vector<std::string> argument_copy = arguments, environment_copy = environment;
  const std::vector<char*> argv = pointers(argument_copy), extra = pointers(environment_copy);
  const pid_t pid = ::fork();
  if (pid == 0) become(argv.data(), extra.data(), environment.size(), log);
  const int failure = errno;
  ::close(log);
  if (pid < 0) return Error{failure, "fork failed"};
  Process process;
  process.pid_ = pid;
  process.pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process.pidfd_ < 0) return Error{errno, "pidfd_open failed"};
  return process;
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<ExitStatus> Process::wait(std::chrono::milliseconds limit) {
  if (pid_ <= 0) return std::nullopt;
  pollfd ended{pidfd_, POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  drop();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CommandResult run_command(const std::vector<std::string>& arguments, std::chrono::milliseconds limit) {
  const TempDir directory;
  const std::string log = directory.file("output");
  auto process = Process::start(arguments, log);
  if (!process) return {-1, process.error().message};
  const std::optional<ExitStatus> status = process->wait(limit);
  if (!status) *process = Process();
  return {status.value_or(128 + SIGKILL), read_file(log)};
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace zvolt::test
