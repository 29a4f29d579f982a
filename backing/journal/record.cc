// See record.h.
#include "backing/journal/record.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace zvolt::backing::journal {

namespace {

constexpr uint64_t kPage = 4096;

unsigned class_of(uint64_t capacity) {
  return static_cast<unsigned>(std::countr_zero(capacity / kPage));
}

}  // namespace

PayloadPool::~PayloadPool() {
  for (auto& list : free_) {
    for (uint8_t* data : list) std::free(data);
  }
}

uint64_t PayloadPool::capacity_for(uint64_t bytes) {
  return bytes == 0 ? 0 : std::bit_ceil(std::max(bytes, kLeast));
}

uint8_t* PayloadPool::take(uint64_t capacity) {
  {
    const std::lock_guard lock(mutex_);
    auto& list = free_[class_of(capacity)];
    if (!list.empty()) {
      uint8_t* data = list.back();
      list.pop_back();
      kept_ -= capacity;
      return data;
    }
  }
  return static_cast<uint8_t*>(std::aligned_alloc(kPage, capacity));
}

void PayloadPool::give(uint8_t* data, uint64_t capacity) {
  forget(capacity);
  {
    const std::lock_guard lock(mutex_);
    if (kept_ + capacity <= kKept) {
      kept_ += capacity;
      free_[class_of(capacity)].push_back(data);
      return;
    }
  }
  std::free(data);
}

void drop(Record& record) {
  if (record.refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (record.data != nullptr) record.pool->give(record.data, record.capacity);
  delete &record;
}

}  // namespace zvolt::backing::journal
