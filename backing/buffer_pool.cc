// See buffer_pool.h. A block of order n starts at a page number that is a multiple of 2^n (slabs are aligned to their
// size), so its neighbour to join with is the page number with bit n flipped.
#include "backing/buffer_pool.h"

#include <sys/mman.h>

#include <bit>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ZVOLT_POISON(data, size) ASAN_POISON_MEMORY_REGION(data, size)
#define ZVOLT_UNPOISON(data, size) ASAN_UNPOISON_MEMORY_REGION(data, size)
#else
#define ZVOLT_POISON(data, size) static_cast<void>(0)
#define ZVOLT_UNPOISON(data, size) static_cast<void>(0)
#endif

namespace zvolt::backing {

namespace {

size_t class_of(size_t size) {
  if (size <= BufferPool::kMinBuffer) return 0;
  return static_cast<size_t>(std::bit_width(size - 1)) - 12;
}

}  // namespace

BufferPool::BufferPool(size_t budget_bytes) : budget_(budget_bytes) {
  free_.fill(kNone);
  slab_limit_ = (budget_ + kSlab - 1) / kSlab + 1;
  slab_most_ = 2 * slab_limit_;
  range_ = (slab_most_ + 1) * kSlab;  // one more, to align
  void* range = mmap(nullptr, range_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    slab_limit_ = slab_most_ = range_ = 0;  // every allocation comes back empty
    return;
  }
  range_start_ = static_cast<uint8_t*>(range);
  const size_t over = reinterpret_cast<uintptr_t>(range) % kSlab;
  base_ = range_start_ + (over == 0 ? 0 : kSlab - over);
}

BufferPool::~BufferPool() {
  if (range_start_ == nullptr) return;
  ZVOLT_UNPOISON(range_start_, range_);
  munmap(range_start_, range_);
}

size_t BufferPool::rounded(size_t size) {
  return kMinBuffer << class_of(size);
}

Buffer BufferPool::allocate(size_t size) {
  const size_t cls = class_of(size);
  if (size == 0 || cls >= kClasses) return {};
  const size_t bytes = kMinBuffer << cls;
  if (general_in_use_ + bytes > budget_ - reserved_) return {};
  Buffer buffer = make(cls, false);
  if (buffer) general_in_use_ += bytes;
  return buffer;
}

Buffer BufferPool::allocate_reserved(size_t size) {
  const size_t cls = class_of(size);
  if (size == 0 || cls >= kClasses) return {};
  return make(cls, true);
}

Buffer BufferPool::make(size_t cls, bool reserved) {
  Buffer buffer;
  buffer.data_ = take(cls, reserved);
  if (buffer.data_ == nullptr) return buffer;
  buffer.pool_ = this;
  buffer.class_ = static_cast<uint8_t>(cls);
  buffer.reserved_ = reserved;
  ZVOLT_UNPOISON(buffer.data_, kMinBuffer << cls);
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

uint8_t* BufferPool::take(size_t cls, bool reserved) {
  Recent& recent = recent_[cls];
  if (recent.count > 0) return address(recent.pages[--recent.count]);
  uint32_t page = cut(cls);
  if (page == kNone) {
    join_recent();
    page = cut(cls);
  }
  if (page == kNone && add_slab(reserved)) page = cut(cls);
  return page == kNone ? nullptr : address(page);
}

void BufferPool::give_back(uint8_t* data, size_t cls, bool reserved) {
  if (!reserved) general_in_use_ -= kMinBuffer << cls;
  ZVOLT_POISON(data, kMinBuffer << cls);
  const auto page = static_cast<uint32_t>(static_cast<size_t>(data - base_) / kMinBuffer);
  Recent& recent = recent_[cls];
  // While more is mapped than the budget asks for, join at once, so that the surplus slab becomes whole.
  if (recent.count < kRecent && slabs_in_use_ <= slab_limit_) {
    recent.pages[recent.count++] = page;
  } else {
    join(page, cls);
  }
}

uint32_t BufferPool::cut(size_t order) {
  size_t from = order;
  while (from < kOrders && free_[from] == kNone) ++from;
  if (from == kOrders) return kNone;
  const uint32_t page = free_[from];
  unlink(page);
  while (from > order) {
    --from;
    link(page + (uint32_t{1} << from), from);  // the upper half
  }
  return page;
}

void BufferPool::join(uint32_t page, size_t order) {
  while (order + 1 < kOrders) {
    const uint32_t neighbour = page ^ (uint32_t{1} << order);
    if (pages_[neighbour].order != order) break;
    unlink(neighbour);
    page &= ~(uint32_t{1} << order);
    ++order;
  }
  if (order + 1 == kOrders && slabs_in_use_ > slab_limit_) return drop_slab(page);
  link(page, order);
}

void BufferPool::join_recent() {
  for (size_t cls = 0; cls < kClasses; ++cls) {
    while (recent_[cls].count > 0) join(recent_[cls].pages[--recent_[cls].count], cls);
  }
}

void BufferPool::link(uint32_t page, size_t order) {
  pages_[page] = {free_[order], kNone, static_cast<uint8_t>(order)};
  if (free_[order] != kNone) pages_[free_[order]].previous = page;
  free_[order] = page;
}

void BufferPool::unlink(uint32_t page) {
  Page& block = pages_[page];
  if (block.next != kNone) pages_[block.next].previous = block.previous;
  (block.previous == kNone ? free_[block.order] : pages_[block.previous].next) = block.next;
  block.order = kNotFree;
}

bool BufferPool::add_slab(bool beyond_budget) {
  if (slabs_in_use_ >= (beyond_budget ? slab_most_ : slab_limit_)) return false;
  uint32_t first;
  if (!dropped_.empty()) {
    first = dropped_.back();
    dropped_.pop_back();
  } else {
    first = static_cast<uint32_t>(pages_.size());
    pages_.resize(pages_.size() + kSlabPages);
    ZVOLT_POISON(address(first), kSlab);
  }
  // One huge page per slab: the kernel pins one page per direct I/O instead of 64 (see README.md, what was measured).
  // Without huge pages the call fails and nothing else changes.
  madvise(address(first), kSlab, MADV_HUGEPAGE);
  ++slabs_in_use_;
  link(first, kOrders - 1);
  return true;
}

void BufferPool::drop_slab(uint32_t first_page) {
  madvise(address(first_page), kSlab, MADV_DONTNEED);
  --slabs_in_use_;
  dropped_.push_back(first_page);
}

}  // namespace zvolt::backing
