// FollowedDevice: the FollowedStore of a block device. Made by follow_device().
//
// Each opening of the device is a DeviceStore of its own behind one descriptor number for life: while the device is
// away the number refers to a place holder (dup3), so whoever still uses it meets EBADF and never another file. A
// request enters (ShardCount) before it sees that store and leaves when the store is done with it; the store is taken
// down when nobody is inside.
//
//   state_    kOpen: requests enter.  kClosing: none does, those inside run to their end, the last one out says so.
//             kClosed: no DeviceStore.  Changed under look_mutex_ only.
//   shard     submit() ... ended(): counts, and hands what failed to the helper. Takes help_mutex_ for a failed
//   request,
//             nothing else.                                                                     followed_device.cc
//   helper    one thread, started with the first failure: looks at the device once for all that have failed, answers
//             them; closes the device when the last one is out; brings zeroes back after space_wait. followed_device.cc
//   look      watcher and helper, under look_mutex_.                                            followed_look.cc
// Locks: look_mutex_, then help_mutex_ or report_mutex_.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backing/device_probe.h"
#include "backing/device_store.h"
#include "backing/followed_store.h"
#include "backing/shard_count.h"
#include "backing/worker_pool.h"

namespace zvolt::backing {

// Errno of a probe or an opening that means: not there, may come.
bool says_gone(int error);

class FollowedDevice final : public FollowedStore {
 public:
  FollowedDevice(FollowOptions options, OpenDevice number);
  ~FollowedDevice() override;

  Submitted submit(IoRequest& request, IoEngine& engine) override;
  const Geometry& geometry() const override { return face_.load(std::memory_order_acquire)->geometry; }
  uint64_t size_bytes() const override { return size_.load(std::memory_order_relaxed); }
  const std::string& describe() const override { return face_.load(std::memory_order_acquire)->description; }
  StoreCounters counters() const override { return tally_->sum(); }
  Result<uint64_t> refresh_size() override { return look().size; }

  Report look() override;
  Report set_offline(bool offline) override;
  Report report() const override;
  bool look_wanted() const override { return look_wanted_.load(std::memory_order_relaxed); }
  void set_flushes_told() override;
  int device_fd() const override { return state_.load(std::memory_order_acquire) == kOpen ? number_.fd() : -1; }
  uint64_t generation() const override { return opened_.load(std::memory_order_acquire); }
  uint64_t requests_parked() const override { return parked_count_.load(std::memory_order_relaxed); }

  void first_look();

 private:
  enum State : int { kClosed, kOpen, kClosing };
  struct Face {  // what the device showed at an opening
    Geometry geometry;
    std::string description;
  };
  struct Standing {  // what one look found; for the requests that failed before it
    bool open = false;
    bool read_only = false;
    uint64_t size = 0;
    uint64_t generation = 0;
  };
  struct Retry {
    std::chrono::steady_clock::time_point due;
    IoRequest* request;
  };
  using Lock = std::unique_lock<std::mutex>;

  // --- shard ---
  bool enter(IoEngine& engine);
  void leave(IoEngine& engine);
  Submitted refuse(IoRequest& request);
  static void on_end(IoRequest& request) noexcept;
  static void on_retry(IoRequest& request) noexcept;
  void ended(IoRequest& request);
  void hand_to_helper(IoRequest& request, IoEngine& engine);
  void tell_drained();

  // --- helper ---
  bool start_helper_locked();  // help_mutex_
  void help();
  bool wait_for_work(Lock& lock);
  void bring_back_due(Lock& lock);
  void answer(IoRequest& request, const Standing& standing);
  int verdict(const IoRequest& request, const Standing& standing);
  bool retry_later(IoRequest& request, int error);

  // --- look; all need look_mutex_ ---
  Standing look_briefly();  // closes, does not open
  void follow_open();
  void follow_read_only();
  void follow_flushes();
  bool can_write_now() const;
  void begin_close(Presence presence, std::string reason);
  void wait_drained(std::chrono::milliseconds most);
  void close_if_drained();
  void reopen_for_writing();
  void try_open(std::chrono::milliseconds busy_wait);
  Result<OpenDevice> claim(const std::string& path, std::chrono::milliseconds busy_wait);
  void install(const std::string& path, OpenDevice opened, DeviceFacts facts);
  void set_away(Presence presence, std::string reason);
  Presence away_presence() const { return generation_ == 0 ? Presence::late : Presence::gone; }
  void show(const Geometry& geometry, const std::string& description);
  void set_size(uint64_t size);
  Report publish();

  const FollowOptions options_;
  const OpenDevice number_;  // the descriptor number; what it refers to is replaced
  const std::shared_ptr<StoreTally> tally_ = std::make_shared<StoreTally>();

  // The way of every request. device_ and generation_ are written by look only, with nobody inside.
  alignas(64) std::atomic<int> state_{kClosed};
  std::unique_ptr<DeviceStore> device_;
  uint64_t generation_ = 0;          // openings so far
  std::atomic<uint64_t> opened_{0};  // generation_, for others
  std::atomic<uint64_t> size_{0};
  std::atomic<const Face*> face_;
  ShardCount inside_;

  std::atomic<bool> look_wanted_{false};
  std::atomic<bool> flush_failed_{false};
  std::atomic<uint64_t> parked_count_{0};

  std::mutex look_mutex_;   // guards from here ...
  std::deque<Face> faces_;  // all that were ever shown, each once: references to them are out
  Presence presence_ = Presence::late;
  std::string reason_;
  std::string path_;
  bool offline_ = false;
  bool writable_open_ = false;  // opened O_RDWR
  bool left_ = false;           // kClosing: everybody was seen to have left
  bool face_changed_ = false;   // since the last publish()
  bool just_closed_ = false;    // by us: the kernel may still hold the claim for a moment
  int flush_lost_ = 0;          // errno of a flush that failed on a device that was there and writable
  std::chrono::steady_clock::time_point busy_since_{};
  // ... to here

  mutable std::mutex report_mutex_;
  Report report_;  // guarded by report_mutex_

  std::mutex help_mutex_;  // guards all below
  std::condition_variable wake_;
  RequestList failed_;
  std::deque<Retry> retries_;
  bool drained_ = false;
  bool stopping_ = false;
  std::thread helper_;
};

}  // namespace zvolt::backing
