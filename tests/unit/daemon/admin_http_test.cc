// The admin endpoint's transport: its socket file, and what clients send that they should not.
#include "target/daemon/admin_http.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

int connect_to(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval limit{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// Sends, reads until the peer closes. (Not named exchange: std::exchange would be found for std::string and preferred.)
std::string ask(const std::string& path, const std::string& text) {
  const int fd = connect_to(path);
  if (fd < 0) return "no connection";
  ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  std::string out;
  char chunk[4096];
  for (ssize_t n = 0; (n = ::recv(fd, chunk, sizeof chunk, 0)) > 0;) out.append(chunk, static_cast<size_t>(n));
  ::close(fd);
  return out;
}

class AdminHttpTest : public ::testing::Test {
 protected:
  AdminHttpTest() : path_(temp_.file("run/admin.sock")) {}
  void serve() {
    const auto bound = http_.bind(path_);
    ASSERT_TRUE(bound) << bound.error().message;
    http_.start([this](const AdminRequest& request, AdminHttp::Answer answer) {
      if (request.target == "/later") {
        std::scoped_lock lock(mutex_);
        later_.push_back(std::move(answer));
        return;
      }
      answer({request.target == "/missing" ? 404u : 200u, request.method + " " + request.target});
    });
  }
  std::string get(const std::string& target) {
    return ask(path_, "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  // Waits until `count` requests for /later have come.
  std::vector<AdminHttp::Answer> later(size_t count) {
    for (;;) {
      std::scoped_lock lock(mutex_);
      if (later_.size() >= count) return std::exchange(later_, {});
      std::this_thread::yield();
    }
  }

  const test::TempDir temp_;
  std::string path_;
  std::mutex mutex_;
  std::vector<AdminHttp::Answer> later_;
  AdminHttp http_;
};

TEST_F(AdminHttpTest, AnswersWhatTheHandlerSays) {
  serve();
  const std::string answer = get("/api/status?x=1");
  EXPECT_EQ(answer.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_NE(answer.find("\r\n\r\nGET /api/status?x=1"), std::string::npos) << answer;
  EXPECT_EQ(get("/missing").substr(0, 12), "HTTP/1.1 404");
}

TEST_F(AdminHttpTest, SocketIsForItsOwnerAndGoesAtTheEnd) {
  serve();
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  http_.stop();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(AdminHttpTest, LiveSocketIsNotTakenOver) {
  serve();
  AdminHttp second;
  const auto bound = second.bind(path_);
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message.find("another zvoltd answers"), std::string::npos) << bound.error().message;
  second.stop();
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK") << "the first one's socket file must stay";
}

TEST_F(AdminHttpTest, StaleSocketIsReplaced) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  serve();
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(AdminHttpTest, FileInItsPlaceIsLeftAlone) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << "precious";
  const auto bound = http_.bind(path_);
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message.find("key 'admin.socket'"), std::string::npos) << bound.error().message;
  http_.stop();
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(AdminHttpTest, DirectoryThatCannotBeMadeNamesTheKey) {
  std::ofstream(temp_.file("run")) << "a file";
  const auto bound = http_.bind(path_);
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message.find("key 'admin.socket'"), std::string::npos) << bound.error().message;
}

TEST_F(AdminHttpTest, BadRequestsGetTheirStatusAndNoMore) {
  serve();
  EXPECT_EQ(ask(path_, "nonsense\r\n\r\n").substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(ask(path_, "GET /" + std::string(20000, 'x') + " HTTP/1.1\r\n\r\n").substr(0, 12), "HTTP/1.1 431");
  EXPECT_EQ(ask(path_, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n").substr(0, 12), "HTTP/1.1 413");
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(AdminHttpTest, IdleAndHalfOpenClientsMakeRoomAtOnce) {
  serve();
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(connect_to(path_));
    if (i % 2 == 0) ::send(idle.back(), "GET /x HT", 9, MSG_NOSIGNAL);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK");
  // Their own timeout is 10 s: an answer long before shows that nobody waited for it.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (const int fd : idle) ::close(fd);
}

TEST_F(AdminHttpTest, AnswerThatComesLaterHoldsUpNobody) {
  serve();
  std::string slow;
  std::thread client([&] { slow = get("/later"); });
  auto answers = later(1);
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK");
  answers[0]({200, "at last"});
  client.join();
  EXPECT_NE(slow.find("at last"), std::string::npos) << slow;
}

TEST_F(AdminHttpTest, TooManyAtOnceAreToldSo) {
  serve();
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i) clients.emplace_back([this] { get("/later"); });
  auto answers = later(32);
  EXPECT_EQ(get("/x").substr(0, 12), "HTTP/1.1 503");
  for (auto& answer : answers) answer({200, ""});
  for (auto& client : clients) client.join();
  EXPECT_EQ(get("/x").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(AdminHttpTest, AnswerAfterTheEndDoesNothing) {
  serve();
  std::thread client([this] { get("/later"); });
  auto answers = later(1);
  http_.stop();
  client.join();
  answers[0]({200, "too late"});
}

TEST_F(AdminHttpTest, StopsWithClientsConnected) {
  serve();
  const int fd = connect_to(path_);
  ASSERT_GE(fd, 0);
  ::send(fd, "GET /x HT", 9, MSG_NOSIGNAL);
  http_.stop();
  ::close(fd);
}

}  // namespace
}  // namespace zvolt::daemon
