// Verbs for the tests of backing/: an engine that is run until requests complete, requests that own their memory,
// temporary files and directories. One Shard per test thread.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backing/aligned_buffer.h"
#include "backing/io_engine.h"
#include "backing/stores.h"

namespace zvolt::backing {

// A request with its own aligned memory; `completed` says whether it has its result.
struct Io {
  IoRequest request;
  AlignedBuffer memory;
  uint8_t* data = nullptr;
  iovec iov{};
  bool completed = false;

  Io(IoKind kind, uint64_t offset, uint64_t length, size_t misalign = 0) {
    request.kind = kind;
    request.offset = offset;
    request.length = length;
    request.context = this;
    request.done = [](IoRequest& r) noexcept { static_cast<Io*>(r.context)->completed = true; };
    if (kind != IoKind::read && kind != IoKind::write) return;
    memory = make_aligned(length + misalign + 1);
    data = memory.get() + misalign;
    memset(data, 0, length);
    iov = {data, length};
    request.iov = &iov;
    request.iov_count = 1;
  }
  Io& fill(uint8_t value) {
    memset(data, value, request.length);
    return *this;
  }
  Io& fua() {
    request.fua = true;
    return *this;
  }
  bool holds(uint8_t value) const {
    for (uint64_t i = 0; i < request.length; ++i) {
      if (data[i] != value) return false;
    }
    return true;
  }
};

class Shard {
 public:
  explicit Shard(bool uring = true, unsigned entries = 64)
      : engine_(make_engine({.ring_entries = entries, .worker_threads = 2, .allow_uring = uring})) {}

  IoEngine& engine() { return *engine_; }

  void submit(BlockStore& store, Io& io) {
    if (store.submit(io.request, *engine_) == Submitted::done) {
      EXPECT_FALSE(io.completed) << "done() must not be called when submit() said done";
      io.completed = true;
    }
  }
  // Waits as a shard does: flush, sleep on wait_fd, reap. False when nothing happened for 20 s.
  bool turn() {
    engine_->flush();
    pollfd waiting{engine_->wait_fd(), POLLIN, 0};
    const auto start = std::chrono::steady_clock::now();
    const int ready = poll(&waiting, 1, 20000);
    if (ready != 1 && !(ready < 0 && errno == EINTR)) return false;  // EINTR: io_uring posts completions that way
    // poll() looks once more when its time is over: a wake-up that was lost must not pass for one that was slow.
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(19)) return false;
    engine_->reap(256);
    engine_->flush();
    return true;
  }
  void finish(Io& io) {
    while (!io.completed) ASSERT_TRUE(turn()) << "no completion";
  }
  int run(BlockStore& store, Io& io) {
    io.completed = false;
    submit(store, io);
    finish(io);
    return io.request.error;
  }
  int write(BlockStore& store, uint64_t offset, uint64_t length, uint8_t value, bool fua = false) {
    Io io(IoKind::write, offset, length);
    io.request.fua = fua;
    return run(store, io.fill(value));
  }
  int plain(BlockStore& store, IoKind kind, uint64_t offset = 0, uint64_t length = 0) {
    Io io(kind, offset, length);
    return run(store, io);
  }
  // True when every byte of the range is `value`.
  bool reads(BlockStore& store, uint64_t offset, uint64_t length, uint8_t value) {
    Io io(IoKind::read, offset, length);
    EXPECT_EQ(run(store, io), 0);
    return io.holds(value);
  }

 private:
  std::unique_ptr<IoEngine> engine_;
};

class TempDir {
 public:
  explicit TempDir(const std::string& under = std::filesystem::temp_directory_path().string()) {
    std::string path = under + "/zvolt-test-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string file(const std::string& name, uint64_t size) const {
    std::ofstream(path(name)).close();
    std::filesystem::resize_file(path(name), size);
    return path(name);
  }

 private:
  std::string path_;
};

inline std::shared_ptr<BlockStore> must(Result<std::shared_ptr<BlockStore>> result) {
  if (result) return *result;
  ADD_FAILURE() << result.error().message;
  return nullptr;
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace zvolt::backing
