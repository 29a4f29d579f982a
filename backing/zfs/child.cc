// See child.h.
#include "backing/zfs/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

namespace zvolt::backing {

namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// What is kept of one pipe, and whether it may still bring something.
struct Stream {
  Descriptor from;
  std::string text;
  size_t limit = 0;
  bool overflow = false;
  std::function<void(std::string_view)> take;  // instead of `text`

  // Reads what is there without waiting.
  void drain() {
    char buffer[16384];
    // A pipe is never larger than this many; a command that never stops writing must not keep us here.
    constexpr int kMostReads = 64;
    for (int reads = 0; from.get() >= 0 && reads < kMostReads; ++reads) {
      const ssize_t got = read(from.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return from.reset();
      if (take) {
        take({buffer, static_cast<size_t>(got)});
        continue;
      }
      const size_t room = limit - std::min(limit, text.size());
      overflow = overflow || static_cast<size_t>(got) > room;
      text.append(buffer, std::min(room, static_cast<size_t>(got)));
      if (overflow) return;
    }
  }
};

std::mutex abandoned_mutex;
std::vector<pid_t> abandoned;

size_t sweep_abandoned() {
  const std::lock_guard lock(abandoned_mutex);
  std::erase_if(abandoned, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  return abandoned.size();
}

void abandon(pid_t pid) {
  const std::lock_guard lock(abandoned_mutex);
  abandoned.push_back(pid);
}

bool make_pipe(Descriptor& reader, Descriptor& writer) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  reader.reset(ends[0]);
  writer.reset(ends[1]);
  return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

std::vector<std::string> child_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.rfind("LC_", 0) != 0 && text.rfind("LANG", 0) != 0) all.push_back(text);
  }
  all.emplace_back("LC_ALL=C");  // the texts of errors are read
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// posix_spawn with everything that a child of ours needs. 0 or errno.
int spawn(const std::vector<std::string>& arguments, int out, int err, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);  // so that what the command starts is killed with it
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> words = arguments;
  std::vector<std::string> environment = child_environment();
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(environment);
  int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), envp.data());
  if (arguments[0].find('/') == std::string::npos) {
    for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/local/sbin/"}) {
      if (error != ENOENT) break;
      error = posix_spawn(&pid, (folder + arguments[0]).c_str(), &files, &attributes, argv.data(), envp.data());
    }
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

bool ended_by(int pidfd, Clock::time_point when) {
  pollfd wait{pidfd, POLLIN, 0};
  for (;;) {
    const int ready = poll(&wait, 1, milliseconds_until(when));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

int reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void kill_child(pid_t pid, int pidfd) {
  kill(-pid, SIGKILL);
  if (pidfd >= 0 && ended_by(pidfd, Clock::now() + kKillGrace)) {
    reap(pid);
  } else {
    abandon(pid);
  }
}

// Reads both streams until the process has ended. 0, ETIMEDOUT or EOVERFLOW. What a grandchild might still write after
// the command ended is not waited for.
int collect(int pidfd, Stream& out, Stream& err, Clock::time_point when) {
  for (;;) {
    pollfd waits[3] = {{pidfd, POLLIN, 0}, {out.from.get(), POLLIN, 0}, {err.from.get(), POLLIN, 0}};
    const int ready = poll(waits, 3, milliseconds_until(when));
    if (ready < 0 && errno != EINTR) return errno;
    out.drain();
    err.drain();
    if (out.overflow) return EOVERFLOW;
    err.overflow = false;  // the rest is dropped
    if (ready > 0 && waits[0].revents != 0) {
      out.drain();
      return out.overflow ? EOVERFLOW : 0;
    }
    if (Clock::now() >= when) return ETIMEDOUT;
  }
}

Error failed(const std::string& command, int error, const ChildLimits& limits) {
  switch (error) {
    case ENOENT:
      return {ENOSYS, "cannot run '" + command + "': it is not installed"};
    case ETIMEDOUT:
      return {ETIMEDOUT, "'" + command + "' gave no answer in " + std::to_string(limits.deadline.count()) + " ms"};
    case EOVERFLOW:
      return {EOVERFLOW, "'" + command + "' wrote more than " + std::to_string(limits.output) + " bytes"};
    default:
      return {error, "cannot run '" + command + "': " + strerror(error)};
  }
}

}  // namespace

size_t abandoned_children() {
  return sweep_abandoned();
}

Result<ChildResult> run_child(const std::vector<std::string>& arguments, const ChildLimits& limits) {
  if (arguments.empty() || arguments[0].empty()) return Error{EINVAL, "no command"};
  for (const std::string& argument : arguments) {
    if (argument.find('\0') != std::string::npos) return Error{EINVAL, "an argument has a NUL byte in it"};
  }
  const size_t hanging = sweep_abandoned();
  if (hanging >= kMaxAbandoned) {
    return Error{EBUSY, std::to_string(hanging) + " earlier commands still hang in the kernel; '" + arguments[0] +
                            "' is not started again before one ends"};
  }
  const auto when = Clock::now() + limits.deadline;
  Stream out, err;
  out.limit = limits.output;
  out.take = limits.take;
  err.limit = kMaxErrorText;
  Descriptor out_end, err_end;
  if (!make_pipe(out.from, out_end) || !make_pipe(err.from, err_end)) return failed(arguments[0], errno, limits);
  pid_t pid = -1;
  if (const int error = spawn(arguments, out_end.get(), err_end.get(), pid); error != 0) {
    return failed(arguments[0], error, limits);
  }
  out_end.reset();
  err_end.reset();
  const Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int error = pidfd.get() < 0 ? errno : collect(pidfd.get(), out, err, when);
  if (error != 0) {
    kill_child(pid, pidfd.get());
    return failed(arguments[0], error, limits);
  }
  ChildResult result;
  result.status = reap(pid);
  result.out = std::move(out.text);
  result.err = std::move(err.text);
  return result;
}

}  // namespace zvolt::backing
