// TestStore and TestEngine: a block store in memory whose geometry, answers and timing a test chooses, with a record of
// what it was asked; and the engine whose turns the test runs by hand. Single-threaded but for TestEngine::post().
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "backing/io_engine.h"

namespace zvolt::scsi::test {

class TestEngine : public backing::IoEngine {
 public:
  void queue(backing::IoRequest&, int) override {}
  void queue_sync(backing::IoRequest&, int) override {}
  void offload(backing::IoRequest& request, void (*work)(backing::IoRequest&)) override;
  void park(backing::IoRequest&) override {}
  void finish_from_any_thread(backing::IoRequest& request) override;
  void flush() override {}
  uint64_t submissions() const override { return 0; }
  size_t reap(size_t limit) override;
  void post(void (*fn)(void*), void* arg) override;
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return 0; }
  const std::string& description() const override { return description_; }

  bool idle();
  void wait_for_work();  // until something was posted

 private:
  struct Posted {
    void (*fn)(void*);
    void* arg;
  };
  std::string description_ = "test engine";
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Posted> queue_;
};

struct Event {
  backing::IoKind kind;
  uint64_t offset;
  uint64_t length;
  bool operator==(const Event&) const = default;
};

enum class Timing : uint8_t {
  at_once,   // submit() says done
  later,     // pending, done on the engine's next turn
  withheld,  // pending until release_withheld()
};

class TestStore : public backing::BlockStore {
 public:
  static constexpr uint64_t kDefaultSize = uint64_t{4} << 20;
  explicit TestStore(uint64_t size = kDefaultSize, backing::Geometry geometry = default_geometry());
  static backing::Geometry default_geometry();  // 512/4096, granules of 4096, zeros after discard, volatile cache

  backing::Submitted submit(backing::IoRequest& request, backing::IoEngine& engine) override;
  const backing::Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  const std::string& describe() const override { return name_; }

  // --- what the test sets and sees ---
  Timing timing = Timing::at_once;
  std::map<backing::IoKind, int> errors;  // every request of the kind fails with this errno
  uint64_t bad_offset = UINT64_MAX;       // a read that covers this byte fails with EIO there
  std::vector<Event> events;
  void resize(uint64_t size) { bytes_.resize(size), mapped_.resize(size); }
  backing::Geometry& change_geometry() { return geometry_; }
  void fill(uint8_t value);  // all data, all mapped
  std::vector<uint8_t> bytes(uint64_t offset, uint64_t length) const;
  bool mapped(uint64_t offset) const { return mapped_[offset]; }
  size_t count(backing::IoKind kind) const;
  void release_withheld();
  size_t withheld() const { return withheld_.size(); }

 private:
  int perform(backing::IoRequest& request);
  int read(backing::IoRequest& request);
  void write(const backing::IoRequest& request);
  void discard(uint64_t offset, uint64_t length);
  void allocation_status(backing::IoRequest& request) const;

  backing::Geometry geometry_;
  std::string name_ = "test store";
  std::vector<uint8_t> bytes_;
  std::vector<bool> mapped_;  // per byte, so that granules of any size and alignment can be told
  std::vector<backing::IoRequest*> withheld_;
};

}  // namespace zvolt::scsi::test
