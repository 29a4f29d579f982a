// See daemon.h.
#include "tests/support/daemon.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cstdlib>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

namespace zvolt::test {

namespace {

// Below the kernel's default range for outgoing connections (32768..60999), so that no client socket takes the port
// between the probe and the daemon's bind.
constexpr int kFirstPort = 20000, kLastPort = 31999;
constexpr int kPortAttempts = 5;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool can_bind(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(port);
  const bool free =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 1) == 0;
  ::close(fd);
  return free;
}

bool accepts(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

// The receiving end of sd_notify: READY=1 tells that the daemon serves.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ok_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  bool ok() const { return ok_; }
  int fd() const { return fd_; }
  bool ready() const {  // call when readable
    char text[1024];
    const ssize_t n = ::recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return n > 0 && std::string_view(text, static_cast<size_t>(n)).find("READY=1") != std::string_view::npos;
  }

 private:
  int fd_;
  bool ok_ = false;
};

}  // namespace

std::string program(const std::string& name) {
  // tools/test.sh runs the integration tests once more against the release build's programs.
  const char* other = std::getenv("ZVOLT_BIN_DIR");
  return std::string(other != nullptr ? other : ZVOLT_BIN_DIR) + "/" + name;
}

std::string fake_zfs(const std::string& name) {
  return std::string(ZVOLT_FAKE_ZFS) + "/" + name;
}

uint16_t probe_free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstPort, kLastPort);
  for (;;) {
    const auto port = static_cast<uint16_t>(ports(random));
    if (can_bind(port)) return port;
  }
}

Daemon::Daemon(DaemonConfig config) : config_(std::move(config)) {}

Daemon::~Daemon() {
  kill();
}

std::string Daemon::portal() const {
  return "127.0.0.1:" + std::to_string(port_);
}

std::string Daemon::url(int lun, const std::string& target) const {
  return "iscsi://" + portal() + "/" + target + "/" + std::to_string(lun);
}

std::string Daemon::yaml() const {
  std::string text = "listen: [\"" + portal() + "\"]\n";
  text += "state_dir: " + directory_.file("state") + "\n";
  text += "threads: " + std::to_string(config_.threads) + "\n";
  text += "admin: { socket: " + admin_socket() + " }\n";
  text += config_.more_yaml;
  text += "targets:\n  - name: " + std::string(kTargetName) + "\n    luns:\n";
  for (const std::string& lun : config_.luns) text += "      - " + lun + "\n";
  for (const std::string& target : config_.more_targets) text += "  - " + target + "\n";
  return text;
}

void Daemon::write_config() const {
  write_file(config_path(), yaml());
}

Result<void> Daemon::start() {
  if (port_ == 0) port_ = probe_free_port();
  for (int attempt = 1;; ++attempt) {
    auto started = start_once();
    const bool taken = !started && log().find("in use") != std::string::npos && !can_bind(port_);
    if (started || !taken || attempt == kPortAttempts) return started;
    port_ = probe_free_port();
  }
}

Result<void> Daemon::start_once() {
  write_config();
  const NotifySocket notify(directory_.file("notify"));
  if (!notify.ok()) return Error{errno, "cannot bind the notify socket"};
  ::unlink(log_path().c_str());
  std::vector<std::string> command = {program("zvoltd"), "-c", config_path()};
  command.insert(command.end(), config_.arguments.begin(), config_.arguments.end());
  std::vector<std::string> environment = config_.environment;
  environment.push_back("NOTIFY_SOCKET=" + directory_.file("notify"));
  auto process = Process::start(command, log_path(), environment);
  if (!process) return process.error();
  process_ = std::move(*process);

  const auto deadline = std::chrono::steady_clock::now() + kDaemonLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd events[2] = {{notify.fd(), POLLIN, 0}, {process_.pidfd(), POLLIN, 0}};
    ::poll(events, 2, 1000);
    if (events[1].revents != 0) {
      const auto status = process_.wait(std::chrono::milliseconds(0));
      return Error{0, "zvoltd ended with status " + std::to_string(status.value_or(-1)) + ":\n" + log()};
    }
    if ((events[0].revents & POLLIN) != 0 && notify.ready()) {
      if (accepts(port_)) return {};
      return Error{0, "zvoltd said READY=1 but does not accept on " + portal() + ":\n" + log()};
    }
  }
  kill();
  return Error{ETIMEDOUT, "zvoltd was not ready in time:\n" + log()};
}

ExitStatus Daemon::terminate() {
  process_.signal(SIGTERM);
  const auto status = process_.wait(kDaemonLimit);
  if (!status) kill();
  return status.value_or(128 + SIGKILL);
}

void Daemon::kill() {
  process_ = Process();
}

}  // namespace zvolt::test
