// See state_dir.h.
#include "target/daemon/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace zvolt::daemon {
namespace {

constexpr size_t kMaxStateFile = size_t{64} << 20;   // bytes; far more than any of ours has
constexpr auto kLockWait = std::chrono::seconds(3);  // an old daemon's last moments
constexpr auto kLockPoll = std::chrono::milliseconds(50);

Error failure(const std::string& what, int error) {
  return {error, what + ": " + std::strerror(error)};
}

int write_all(int fd, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    done += static_cast<size_t>(n);
  }
  return 0;
}

int sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

Result<StateDir> StateDir::open(const std::string& path) {
  const std::string what = "state directory " + path + " (key 'state_dir')";
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
  if (ec) return Error{ec.value(), "cannot create the parent of the " + what + ": " + ec.message()};
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failure("cannot create the " + what, errno);
  const int fd = ::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return failure("cannot write to the " + what, errno);
  const auto end = std::chrono::steady_clock::now() + kLockWait;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kLockPoll);
      continue;
    }
    ::close(fd);
    if (error == EWOULDBLOCK) return Error{EBUSY, "another zvoltd uses the " + what};
    return failure("cannot lock the " + what, error);
  }
  return StateDir(path, fd);
}

StateDir::StateDir(StateDir&& other) noexcept : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

StateDir& StateDir::operator=(StateDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

StateDir::~StateDir() {
  if (lock_ >= 0) ::close(lock_);
}

Result<std::optional<std::string>> StateDir::read(const std::string& name) const {
  const std::string file = path_ + "/" + name;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::optional<std::string>();
  if (fd < 0) return failure("cannot read " + file, errno);
  std::string content;
  char chunk[65536];
  int error = 0;
  while (content.size() <= kMaxStateFile) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    content.append(chunk, static_cast<size_t>(n));
  }
  ::close(fd);
  if (error != 0) return failure("cannot read " + file, error);
  if (content.size() > kMaxStateFile) return Error{EFBIG, file + " is too large to be a state file"};
  return std::optional(std::move(content));
}

Result<void> StateDir::replace(const std::string& name, const std::string& content) const {
  const std::string file = path_ + "/" + name, fresh = file + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return failure("cannot write " + fresh, errno);
  int error = write_all(fd, content);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  if (error == 0 && ::rename(fresh.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) error = sync_directory(path_);
  if (error != 0) return failure("cannot write " + file, error);
  return {};
}

}  // namespace zvolt::daemon
