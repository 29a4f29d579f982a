// The GoogleTest fixture of the integration tests: a daemon that runs when the test body begins and must end with
// status 0 after it. Its log is printed when the test failed.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/daemon.h"
#include "tests/support/libiscsi_session.h"
#include "tests/support/raw_client.h"

namespace zvolt::test {

class RunningDaemon : public ::testing::Test {
 protected:
  explicit RunningDaemon(DaemonConfig config = {}) : daemon_(std::move(config)) {}

  void SetUp() override {
    const auto started = daemon_.start();
    ASSERT_TRUE(started) << started.error().message;
    pid_ = daemon_.pid();
  }

  void TearDown() override {
    if (daemon_.running()) {
      EXPECT_EQ(daemon_.terminate(), 0) << "the daemon's own end";
    }
    if (HasFailure()) std::cerr << "zvoltd's log:\n" << daemon_.log() << '\n';
  }

  // A raw session in full feature phase.
  RawClient logged_in(const Keys& keys = {}, uint64_t isid = 0x800000000001) {
    RawClient client;
    EXPECT_TRUE(client.connect(daemon_.port()));
    LoginOptions options;
    options.target = kTargetName;
    options.keys = keys;
    options.isid = isid;
    const LoginResult result = client.login(options);
    EXPECT_TRUE(result.ok()) << "login status " << std::hex << result.status;
    EXPECT_TRUE(client.command_none(test_unit_ready()).arrived == Arrived::pdu);  // takes a power-on unit attention
    return client;
  }

  LibiscsiSession opened(int lun = 0, uint32_t isid = 1) {
    auto session = LibiscsiSession::open(daemon_.url(lun), isid);
    EXPECT_TRUE(session) << session.error().message;
    if (!session) return {};
    session->command(test_unit_ready());  // takes a power-on unit attention
    return std::move(*session);
  }

  // After something hostile: the same process, serving a new login and I/O.
  void expect_alive() {
    EXPECT_EQ(daemon_.pid(), pid_);
    ASSERT_FALSE(daemon_.process().wait(std::chrono::milliseconds(0)).has_value()) << "the daemon died";
    RawClient fresh = logged_in({}, 0x8000000000ff);
    const Bytes data = pattern(4096, 77);
    EXPECT_TRUE(fresh.command_out(write10(64, 8), data).good());
    EXPECT_EQ(fresh.command_in(read10(64, 8), 4096).data, data);
  }

  Daemon daemon_;
  pid_t pid_ = -1;
};

}  // namespace zvolt::test
