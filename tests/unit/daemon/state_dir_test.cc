// The state directory, sd_notify and log escaping.
#include "target/daemon/state_dir.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "target/daemon/logging.h"
#include "target/daemon/notify.h"
#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

TEST(StateDir, IsCreatedForItsOwnerOnly) {
  const test::TempDir temp;
  const std::string path = temp.file("a/b/state");
  const auto state = StateDir::open(path);
  ASSERT_TRUE(state) << state.error().message;
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST(StateDir, SecondDaemonIsRefusedUntilTheFirstIsGone) {
  const test::TempDir temp;
  {
    const auto first = StateDir::open(temp.file("state"));
    ASSERT_TRUE(first);
    const auto second = StateDir::open(temp.file("state"));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_NE(second.error().message.find("'state_dir'"), std::string::npos) << second.error().message;
  }
  EXPECT_TRUE(StateDir::open(temp.file("state")));
}

TEST(StateDir, FileInItsPlaceIsAnErrorThatNamesTheKey) {
  const test::TempDir temp;
  std::ofstream(temp.file("state")) << "x";
  const auto state = StateDir::open(temp.file("state"));
  ASSERT_FALSE(state);
  EXPECT_NE(state.error().message.find("key 'state_dir'"), std::string::npos) << state.error().message;
  const auto below = StateDir::open(temp.file("state/deeper/still"));
  ASSERT_FALSE(below);
  EXPECT_NE(below.error().message.find("key 'state_dir'"), std::string::npos) << below.error().message;
}

TEST(StateDir, ReplaceIsReadBackAndLeavesNoScrap) {
  const test::TempDir temp;
  const auto state = StateDir::open(temp.file("state"));
  ASSERT_TRUE(state);
  const auto missing = state->read("x.json");
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->has_value());
  ASSERT_TRUE(state->replace("x.json", "one"));
  ASSERT_TRUE(state->replace("x.json", std::string(200000, 'y')));
  const auto content = state->read("x.json");
  ASSERT_TRUE(content);
  EXPECT_EQ(**content, std::string(200000, 'y'));
  EXPECT_FALSE(std::filesystem::exists(temp.file("state/x.json.new")));
}

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    const bool abstract = name[0] == '@';
    if (abstract) address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1));
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0) << name;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~NotifySocket() {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(fd_);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  std::string received() const {
    char text[256];
    const ssize_t n = ::recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
  }

 private:
  int fd_;
};

TEST(Notify, ReachesAPathAndAnAbstractSocket) {
  const test::TempDir temp;
  {
    const NotifySocket socket(temp.file("notify"));
    notify_service_manager("READY=1");
    EXPECT_EQ(socket.received(), "READY=1");
  }
  {
    const NotifySocket socket("@zvolt-test-" + std::to_string(::getpid()));
    notify_service_manager("STOPPING=1");
    EXPECT_EQ(socket.received(), "STOPPING=1");
  }
}

TEST(Notify, WithoutAManagerNothingHappens) {
  ::setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
  notify_service_manager("READY=1");
  ::setenv("NOTIFY_SOCKET", std::string(300, '/').c_str(), 1);
  notify_service_manager("READY=1");
  ::unsetenv("NOTIFY_SOCKET");
  notify_service_manager("READY=1");
}

TEST(JsonLog, TextIsEscaped) {
  EXPECT_EQ(json_escaped("plain"), "plain");
  EXPECT_EQ(json_escaped("a\"b\\c\nd\te"), R"(a\"b\\c\nd\te)");
  EXPECT_EQ(json_escaped(std::string_view("\x01\0", 2)), "\\u0001\\u0000");
  EXPECT_EQ(json_escaped("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(json_escaped("Zürich"), "Zürich");
}

}  // namespace
}  // namespace zvolt::daemon
