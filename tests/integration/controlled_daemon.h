// The fixture of tests that change a running daemon: its configuration is edited, zvoltctl plans, applies and orders.
// The daemon's log is printed when the test failed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/loop_device.h"
#include "tests/support/daemon.h"
#include "tests/support/libiscsi_session.h"

namespace zvolt::test {

class ControlledDaemon : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << "zvoltd's log:\n" << daemon_.log() << '\n';
  }
  void start() {
    const auto started = daemon_.start();
    ASSERT_TRUE(started) << started.error().message;
  }
  // Starts, must fail with status 1; the log for the caller to judge.
  std::string refused() {
    const auto started = daemon_.start();
    EXPECT_FALSE(started) << "it serves";
    std::string text = started ? "" : started.error().message;
    EXPECT_NE(text.find("ended with status 1"), std::string::npos) << text;
    return text;
  }
  std::string path(const std::string& name) const { return daemon_.directory().file(name); }
  std::string file_lun(int number, const std::string& name, const std::string& size = "16MiB") const {
    return "{ lun: " + std::to_string(number) + ", name: " + name + ", file: " + path(name + ".img") +
           ", provision: { size: " + size + " } }";
  }
  // A second target of its own with these LUNs, so that the first one's sessions are not concerned.
  void set_other_target(const std::string& luns) {
    daemon_.config().more_targets = {"{ name: \"" + std::string(kOther) + "\", luns: [ " + luns + " ] }"};
  }

  CommandResult control(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {program("zvoltctl"), "--socket", daemon_.admin_socket()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_command(command);
  }
  // What zvoltctl says in JSON, with this exit status.
  nlohmann::json asked(const std::vector<std::string>& arguments, int status = 0) const {
    std::vector<std::string> all = {"-o", "json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CommandResult result = control(all);
    EXPECT_EQ(result.status, status) << result.output;
    return nlohmann::json::parse(result.output, nullptr, false);
  }
  // Writes the configuration as it is in daemon_.config() and applies it.
  nlohmann::json apply(int status = 0) {
    daemon_.write_config();
    return asked({"apply"}, status);
  }
  nlohmann::json lun(const std::string& volume) const {
    for (auto& entry : asked({"luns"}))
      if (entry.value("volume", "") == volume) return entry;
    return {};
  }
  std::string state_of(const std::string& volume) const { return lun(volume).value("state", "no such volume"); }

  // There is no event to wait for on this side of the socket.
  static bool eventually(const std::function<bool()>& condition,
                         std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }
  bool becomes(const std::string& volume, const std::string& state) const {
    return eventually([&] { return state_of(volume) == state; });
  }

  LibiscsiSession opened(int lun, uint32_t isid = 1, const std::string& target = kTargetName) {
    auto session = LibiscsiSession::open(daemon_.url(lun, target), isid);
    EXPECT_TRUE(session) << session.error().message;
    if (!session) return {};
    session->command(test_unit_ready());  // takes a power-on unit attention
    return std::move(*session);
  }

  static constexpr const char* kOther = "iqn.2026-11.org.example:other";
  Daemon daemon_;
};

// Runs zvolt-verify-loop beside the test.
class Load {
 public:
  Load(const std::string& url, int sessions, int seconds, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {program("zvolt-verify-loop"), "--url",  url,       "--sessions",
                                        std::to_string(sessions),     "--qd",   "2",       "--seconds",
                                        std::to_string(seconds),      "--span", "33554432"};
    command.insert(command.end(), more.begin(), more.end());
    thread_ = std::thread([this, command] { result_ = run_command(command, std::chrono::seconds(100)); });
  }
  ~Load() {
    if (thread_.joinable()) thread_.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  CommandResult result() {
    if (thread_.joinable()) thread_.join();
    return result_;
  }

 private:
  std::thread thread_;
  CommandResult result_;
};

}  // namespace zvolt::test
