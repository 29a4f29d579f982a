// Loop devices for tests that need a real block device. Root only: a test says so and skips when there are none.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"

namespace zvolt::test {

class LoopDevice {
 public:
  LoopDevice() = default;
  // Not attached (attached() is false) where that is not possible. `block_size`: logical, 0 is the kernel's choice.
  explicit LoopDevice(const std::string& file, unsigned block_size = 0, bool partitions = false) {
    std::vector<std::string> command = {"losetup", "--find", "--show"};
    if (block_size != 0) command.insert(command.end(), {"--sector-size", std::to_string(block_size)});
    if (partitions) command.emplace_back("--partscan");
    command.push_back(file);
    const CommandResult result = run_command(command);
    if (result.status == 0) path_ = result.output.substr(0, result.output.find('\n'));
  }
  ~LoopDevice() { detach(); }
  LoopDevice(LoopDevice&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LoopDevice& operator=(LoopDevice&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  bool attached() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  void detach() {
    if (attached()) run_command({"losetup", "--detach", path_});
    path_.clear();
  }

 private:
  std::string path_;
};

// Loop devices and mounts can be made here.
inline bool may_use_devices() {
  return ::geteuid() == 0 && ::access("/dev/loop-control", R_OK | W_OK) == 0;
}

// A mount that lasts as long as the object.
class Mount {
 public:
  Mount(const std::vector<std::string>& arguments, std::string point) : point_(std::move(point)) {
    std::vector<std::string> command = {"mount"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back(point_);
    mounted_ = run_command(command).status == 0;
  }
  ~Mount() {
    if (mounted_) run_command({"umount", point_});
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string point_;
  bool mounted_ = false;
};

}  // namespace zvolt::test
