// BufferPool: page-aligned data buffers with a fixed budget, one pool per shard, used only on that shard's thread.
//
// Two kinds of memory inside one budget: *reserved* (promised at login to sessions for the unsolicited data that their
// command window allows: such an allocation never fails) and *general* (R2T data, read data: fails when the budget is
// spent, and the caller waits in the shard's queue). Buffers come in powers of two from 4 KiB to 256 KiB.
//
// A buddy allocator over 2 MiB slabs of one reserved address range: a freed buffer joins its neighbour again, so that
// no size class strands memory, and what is mapped stays within the budget plus one slab. (One exception, for the
// promise: a reserved allocation that finds only fragments maps another slab, which goes back as soon as it is free.)
// Its bookkeeping lies outside the buffers, so freeing touches no cold page and free buffers can be poisoned under
// ASan. A few recently freed buffers of each size stay unjoined: the usual allocate and release are an array pop and
// push.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace zvolt::backing {

class BufferPool;

// Move-only handle. Destroy it on the pool's thread, before the pool.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      swap(other);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  uint8_t* data() const { return data_; }
  size_t capacity() const { return data_ == nullptr ? 0 : size_t{4096} << class_; }
  explicit operator bool() const { return data_ != nullptr; }
  void release();

 private:
  friend class BufferPool;
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(pool_, other.pool_);
    std::swap(class_, other.class_);
    std::swap(reserved_, other.reserved_);
  }
  uint8_t* data_ = nullptr;
  BufferPool* pool_ = nullptr;
  uint8_t class_ = 0;
  bool reserved_ = false;
};

class BufferPool {
 public:
  static constexpr size_t kMinBuffer = 4096;
  static constexpr size_t kMaxBuffer = size_t{256} << 10;  // larger transfers are cut into pieces of this size
  static constexpr size_t kClasses = 7;                    // 4, 8, 16, 32, 64, 128, 256 KiB
  static constexpr size_t kSlab = size_t{2} << 20;

  explicit BufferPool(size_t budget_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // size in (0, kMaxBuffer], rounded up to a class. Empty when the general budget is spent or the kernel has no memory.
  Buffer allocate(size_t size);
  // From memory that was reserved before. The caller keeps its own account of how much it may take.
  Buffer allocate_reserved(size_t size);

  // Promise `bytes` for allocate_reserved; false when more than the budget would be promised. unreserve() gives it
  // back.
  bool reserve(size_t bytes);
  void unreserve(size_t bytes);

  static size_t rounded(size_t size);  // bytes that an allocation of `size` takes

  size_t budget() const { return budget_; }
  size_t reserved() const { return reserved_; }
  size_t general_in_use() const { return general_in_use_; }
  size_t mapped() const { return slabs_in_use_ * kSlab; }  // bytes of slabs that hold or may hold buffers

 private:
  friend class Buffer;
  static constexpr size_t kOrders = 10;  // 4 KiB .. 2 MiB: order of a block = class, on to a whole slab
  static constexpr size_t kSlabPages = kSlab / kMinBuffer;
  static constexpr size_t kRecent = 16;  // freed buffers kept unjoined per class: one burst's worth
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint8_t kNotFree = 0xff;

  // One per 4 KiB page of the range; meaningful at the first page of a free block.
  struct Page {
    uint32_t next = kNone;  // page numbers in the order's list
    uint32_t previous = kNone;
    uint8_t order = kNotFree;
  };
  struct Recent {
    std::array<uint32_t, kRecent> pages;
    size_t count = 0;
  };

  Buffer make(size_t cls, bool reserved);
  uint8_t* take(size_t cls, bool reserved);
  void give_back(uint8_t* data, size_t cls, bool reserved);
  uint32_t cut(size_t order);              // a block from the lists, split to size; kNone
  void join(uint32_t page, size_t order);  // puts a block back, with its free neighbours
  void join_recent();
  void link(uint32_t page, size_t order);
  void unlink(uint32_t page);
  bool add_slab(bool beyond_budget);
  void drop_slab(uint32_t first_page);
  uint8_t* address(uint32_t page) const { return base_ + size_t{page} * kMinBuffer; }

  size_t budget_;
  size_t reserved_ = 0;
  size_t general_in_use_ = 0;
  size_t range_ = 0;  // bytes of address space at range_start_
  uint8_t* range_start_ = nullptr;
  uint8_t* base_ = nullptr;  // range_start_ aligned to a slab
  size_t slab_limit_;        // slabs within the budget
  size_t slab_most_;         // slabs that the range has room for
  size_t slabs_in_use_ = 0;
  std::vector<Page> pages_;        // of all slabs ever used
  std::vector<uint32_t> dropped_;  // first pages of slabs given back
  std::array<uint32_t, kOrders> free_;
  std::array<Recent, kClasses> recent_;
};

inline void Buffer::release() {
  if (data_ == nullptr) return;
  pool_->give_back(data_, class_, reserved_);
  data_ = nullptr;
}

}  // namespace zvolt::backing
