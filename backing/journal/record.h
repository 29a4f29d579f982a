// Record: one change of a LUN in memory: what the ring holds of it, and what reads and write-back take until it is in
// the store. Counted by references: the commit queue, each extent of a dirty map, each write-back or read under way.
// Any thread; fields are constant after Core::append(), except those said to be guarded.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backing/journal/format.h"

namespace zvolt::backing::journal {

class PayloadPool;

struct Record {
  std::atomic<uint32_t> refs{1};
  RecordKind kind = RecordKind::write;
  uint8_t flags = 0;
  uint32_t payload_crc = 0;
  Uuid lun{};
  uint64_t sequence = 0;  // set by append(), under the journal's lock
  uint64_t offset = 0;
  uint64_t length = 0;
  uint8_t* data = nullptr;  // kind write: padded with zeros to whole sectors
  uint64_t capacity = 0;    // bytes of memory at data
  uint64_t ring_bytes = 0;  // it takes at most this much of the ring, its share of a header included
  uint64_t time_ns = 0;     // when it was made
  PayloadPool* pool = nullptr;

  Record* next_queued = nullptr;  // guarded by the journal's lock

  // Guarded by the lock of the LUN: the dirty map's.
  uint32_t extents = 0;  // that refer to it; in the list of live records while above 0
  Record* older = nullptr;
  Record* newer = nullptr;

  uint64_t end() const { return offset + length; }
};

// Memory of payloads: page-aligned, in powers of two from 4 KiB, counted. Some freed memory is kept for the
// next ones. Thread-safe; a mutex is held for a few instructions.
class PayloadPool {
 public:
  PayloadPool() = default;
  ~PayloadPool();
  PayloadPool(const PayloadPool&) = delete;
  PayloadPool& operator=(const PayloadPool&) = delete;

  static uint64_t capacity_for(uint64_t bytes);  // what `bytes` will take
  uint8_t* take(uint64_t capacity);              // null: the system has no memory
  void give(uint8_t* data, uint64_t capacity);

  // The budget: promised before take(), given back by give() (or forget(), when nothing was taken after all).
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  void promise(uint64_t capacity) { used_.fetch_add(capacity, std::memory_order_relaxed); }
  void forget(uint64_t capacity) { used_.fetch_sub(capacity, std::memory_order_relaxed); }

 private:
  static constexpr unsigned kClasses = 9;                // 4 KiB to 1 MiB
  static constexpr uint64_t kKept = uint64_t{64} << 20;  // bytes of free memory kept, all classes
  static constexpr uint64_t kLeast = 4096;               // bytes
  static_assert(kLeast << (kClasses - 1) == kMostPayload);

  std::atomic<uint64_t> used_{0};
  std::mutex mutex_;  // guards the rest
  std::vector<uint8_t*> free_[kClasses];
  uint64_t kept_ = 0;
};

inline void hold(Record& record) {
  record.refs.fetch_add(1, std::memory_order_relaxed);
}
void drop(Record& record);  // the last reference gives its memory back

// A reference as a value.
class RecordRef {
 public:
  RecordRef() = default;
  explicit RecordRef(Record& record) : record_(&record) { hold(record); }
  RecordRef(RecordRef&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  RecordRef& operator=(RecordRef&& other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  RecordRef(const RecordRef&) = delete;
  RecordRef& operator=(const RecordRef&) = delete;
  ~RecordRef() {
    if (record_ != nullptr) drop(*record_);
  }
  static RecordRef adopt(Record* record) {  // takes over the reference that `new` came with
    RecordRef ref;
    ref.record_ = record;
    return ref;
  }
  Record& operator*() const { return *record_; }
  Record* operator->() const { return record_; }
  explicit operator bool() const { return record_ != nullptr; }

 private:
  Record* record_ = nullptr;
};

}  // namespace zvolt::backing::journal
