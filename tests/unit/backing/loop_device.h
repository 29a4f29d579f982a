// A file as a block device, for tests that need one. Needs root and a free loop device; NEEDS() skips without them.
#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

namespace zvolt::backing {

// A file as a block device. path() is empty when this machine gives none; `why` then says what failed.
class LoopDevice {
 public:
  LoopDevice(const std::string& file, uint32_t block_size, bool read_only = false) : file_(file) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int backing = open(file.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    // Another process may take the free number between the two calls: try again.
    for (int tries = 0; control >= 0 && backing >= 0 && fd_ < 0 && tries < 20; ++tries) {
      const int number = ioctl(control, LOOP_CTL_GET_FREE);
      if (number >= 0) attach("/dev/loop" + std::to_string(number), backing, block_size, read_only);
    }
    if (fd_ < 0) why_ = std::string("no loop device here: ") + strerror(errno);
    if (control >= 0) close(control);
    if (backing >= 0) close(backing);
  }
  ~LoopDevice() {
    if (fd_ < 0) return;
    ioctl(fd_, LOOP_CLR_FD, 0);
    close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  // Follows the size of the file. 0 or errno.
  int resize(uint64_t bytes) {
    std::filesystem::resize_file(file_, bytes);
    return ioctl(fd_, LOOP_SET_CAPACITY, 0) == 0 ? 0 : errno;
  }
  int set_read_only(int read_only) { return ioctl(fd_, BLKROSET, &read_only) == 0 ? 0 : errno; }
  // Nobody else has it open exclusively.
  bool unclaimed() const {
    const int fd = open(path_.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0;
  }

  const std::string& path() const { return path_; }
  const std::string& why() const { return why_; }
  int fd() const { return fd_; }

 private:
  void attach(const std::string& path, int backing, uint32_t block_size, bool read_only) {
    fd_ = open(path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (fd_ < 0) return;
    loop_config config{};
    config.fd = static_cast<uint32_t>(backing);
    config.block_size = block_size;
    config.info.lo_flags = read_only ? LO_FLAGS_READ_ONLY : 0;
    if (ioctl(fd_, LOOP_CONFIGURE, &config) == 0) {
      path_ = path;
      return;
    }
    close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
  std::string file_;
  std::string path_;
  std::string why_;
};

#define NEEDS(loop) \
  if ((loop).path().empty()) GTEST_SKIP() << (loop).why()

}  // namespace zvolt::backing
