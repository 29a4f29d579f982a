// A pool of the fake zfs (tests/support/fake_zfs) for one test: a state directory, commands, faults, a count of what
// was run. One thread; sets FAKE_ZFS_DIR of this process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "backing/zfs/child.h"
#include "backing/zfs/zfs.h"
#include "tests/support/temp_dir.h"

namespace zvolt::test {

// Bytes of the pool "tank".
inline constexpr char kPoolSize[] = "1G";

class FakePool {
 public:
  FakePool() {
    setenv("FAKE_ZFS_DIR", dir_.path().c_str(), 1);
    zpool({"create", "tank", kPoolSize});
  }
  ~FakePool() {
    heal();
    unsetenv("FAKE_ZFS_DIR");
  }

  static std::string command(const std::string& name);
  static backing::ZfsOptions options(std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    return {command("zfs"), command("zpool"), deadline};
  }
  std::string file(const std::string& name) const { return dir_.file(name); }

  void zfs(std::vector<std::string> arguments) { run("zfs", std::move(arguments)); }
  void zpool(std::vector<std::string> arguments) { run("zpool", std::move(arguments)); }

  // What every command does from now on (README of the fake); heal() ends it.
  void fault(const std::string& json) const { write("fault", json); }
  void heal() const { std::remove(file("fault").c_str()); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }

  size_t commands_run() const {
    std::ifstream log(file("log"));
    size_t count = 0;
    for (std::string line; std::getline(log, line);) ++count;
    return count;
  }

 private:
  static void run(const std::string& program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), command(program));
    const auto result = backing::run_child(arguments, {.deadline = std::chrono::seconds(30)});
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_EQ(result->status, 0) << result->err;
  }

  TempDir dir_;
};

// What a real zfs has printed: a file of recorded/.
std::string recorded(const std::string& name);

}  // namespace zvolt::test
