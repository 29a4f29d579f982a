// See buffer_pool.h. Free lists are intrusive: a free buffer's first bytes link to the next.
#include "backing/buffer_pool.h"

#include <sys/mman.h>

#include <bit>

namespace zvolt::backing {

namespace {

size_t class_of(size_t size) {
  if (size <= BufferPool::kMinBuffer) return 0;
  return static_cast<size_t>(std::bit_width(size - 1)) - 12;
}

}  // namespace

BufferPool::BufferPool(size_t budget_bytes) : budget_(budget_bytes) {}

BufferPool::~BufferPool() {
  for (uint8_t* slab : slabs_) munmap(slab, kSlab);
}

size_t BufferPool::rounded(size_t size) {
  return kMinBuffer << class_of(size);
}

Buffer BufferPool::allocate(size_t size) {
  Buffer buffer;
  const size_t cls = class_of(size);
  const size_t bytes = kMinBuffer << cls;
  if (size == 0 || cls >= kClasses || general_in_use_ + bytes > budget_ - reserved_) return buffer;
  buffer.data_ = take(cls);
  if (buffer.data_ == nullptr) return buffer;
  buffer.pool_ = this;
  buffer.class_ = static_cast<uint8_t>(cls);
  general_in_use_ += bytes;
  return buffer;
}

Buffer BufferPool::allocate_reserved(size_t size) {
  Buffer buffer;
  const size_t cls = class_of(size);
  if (size == 0 || cls >= kClasses) return buffer;
  buffer.data_ = take(cls);
  if (buffer.data_ == nullptr) return buffer;
  buffer.pool_ = this;
  buffer.class_ = static_cast<uint8_t>(cls);
  buffer.reserved_ = true;
  return buffer;
}

bool BufferPool::reserve(size_t bytes) {
  if (bytes > budget_ - reserved_ || reserved_ + bytes + general_in_use_ > budget_) return false;
  reserved_ += bytes;
  return true;
}

void BufferPool::unreserve(size_t bytes) {
  reserved_ -= bytes;
}

uint8_t* BufferPool::take(size_t cls) {
  if (free_[cls] == nullptr) {
    const size_t bytes = kMinBuffer << cls;
    if (fresh_left_ < bytes) {
      // The rest of the old slab (smaller than this class) goes to the lists of the classes that fit.
      while (fresh_left_ >= kMinBuffer) {
        const size_t rest = static_cast<size_t>(std::bit_width(fresh_left_)) - 13;
        auto* node = reinterpret_cast<FreeNode*>(fresh_);
        node->next = free_[rest];
        free_[rest] = node;
        fresh_ += kMinBuffer << rest;
        fresh_left_ -= kMinBuffer << rest;
      }
      void* slab = mmap(nullptr, kSlab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (slab == MAP_FAILED) return nullptr;
      slabs_.push_back(static_cast<uint8_t*>(slab));
      fresh_ = static_cast<uint8_t*>(slab);
      fresh_left_ = kSlab;
    }
    uint8_t* data = fresh_;
    fresh_ += bytes;
    fresh_left_ -= bytes;
    return data;
  }
  FreeNode* node = free_[cls];
  free_[cls] = node->next;
  return reinterpret_cast<uint8_t*>(node);
}

void BufferPool::give_back(uint8_t* data, size_t cls, bool reserved) {
  if (!reserved) general_in_use_ -= kMinBuffer << cls;
  auto* node = reinterpret_cast<FreeNode*>(data);
  node->next = free_[cls];
  free_[cls] = node;
}

}  // namespace zvolt::backing
