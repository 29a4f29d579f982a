// Followed: the fixture of the followed store's tests: a loop device whose presence a test decides, the store that
// follows it, and a record of what it told.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backing/followed_store.h"
#include "tests/unit/backing/loop_device.h"
#include "tests/unit/backing/mock_engine.h"
#include "tests/unit/backing/support.h"

namespace zvolt::backing {

using Report = FollowedStore::Report;

class Followed : public testing::Test {
 protected:
  void SetUp() override {
    if (loop_.path().empty()) GTEST_SKIP() << loop_.why();
  }

  FollowOptions options() {
    FollowOptions options;
    options.name = "tank/a";
    options.busy_wait = std::chrono::milliseconds(0);
    options.locate = [this]() -> Result<std::string> {
      if (there_) return path_;
      return Error{ENOENT, "tank/a is not imported"};
    };
    options.probe = [this](int) { return there_ ? 0 : ENXIO; };
    return options;
  }
  std::shared_ptr<FollowedStore> follow(FollowOptions options) {
    auto store = follow_device(std::move(options));
    if (!store) {
      ADD_FAILURE() << store.error().message;
      return nullptr;
    }
    (*store)->on_change([this](const Report& report) {
      const std::lock_guard lock(mutex_);
      changes_.push_back(report);
      changed_.notify_all();
    });
    return *store;
  }
  // Waits for a notice that says so (the helper thread acts by itself). False after 20 s.
  bool told(Presence presence) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return !changes_.empty() && changes_.back().presence == presence; });
  }
  size_t changes() {
    const std::lock_guard lock(mutex_);
    return changes_.size();
  }
  Submitted submit(FollowedStore& store, Io& io) {
    io.completed = false;
    const Submitted submitted = store.submit(io.request, engine_);
    if (submitted == Submitted::done) io.completed = true;
    return submitted;
  }
  // Until the request has been answered by the helper.
  void await(Io& io) {
    while (!io.completed) ASSERT_TRUE(engine_.turn());
  }
  // The last close of a descriptor is not waited for by those who drop theirs.
  bool closed_soon() const {
    for (int tries = 0; tries < 200; ++tries) {
      if (loop_.unclaimed()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a claim cannot be waited for
    }
    return false;
  }

  TempDir dir_;
  LoopDevice loop_{dir_.file("disk", 8 * kMiB), 512};
  std::string path_ = loop_.path();
  std::atomic<bool> there_{true};
  MockEngine engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Report> changes_;  // guarded by mutex_
};

}  // namespace zvolt::backing
