// BufferPool: page-aligned data buffers with a fixed budget, one pool per shard, used only on that shard's thread.
//
// Two kinds of memory inside one budget: *reserved* (promised at login to sessions for the unsolicited data that their
// command window allows: such an allocation never fails) and *general* (R2T data, read data: fails when the budget is
// spent, and the caller waits in the shard's queue). Buffers come in powers of two from 4 KiB to 256 KiB, cut from
// 2 MiB slabs that are mapped when first needed, so that an idle target holds no memory and a busy one a fixed amount.
#pragma once

#include <cstddef>
#include <cstdint>
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
  size_t mapped() const { return slabs_.size() * kSlab; }

 private:
  friend class Buffer;
  struct FreeNode {
    FreeNode* next;
  };
  uint8_t* take(size_t cls);
  void give_back(uint8_t* data, size_t cls, bool reserved);

  size_t budget_;
  size_t reserved_ = 0;
  size_t general_in_use_ = 0;
  FreeNode* free_[kClasses] = {};
  std::vector<uint8_t*> slabs_;
  uint8_t* fresh_ = nullptr;  // unused rest of the newest slab
  size_t fresh_left_ = 0;
};

inline void Buffer::release() {
  if (data_ == nullptr) return;
  pool_->give_back(data_, class_, reserved_);
  data_ = nullptr;
}

}  // namespace zvolt::backing
