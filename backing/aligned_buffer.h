// AlignedBuffer: heap memory that O_DIRECT accepts, for bounces and zeros off the hot path. Value type, move only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace zvolt::backing {

struct FreeMemory {
  void operator()(uint8_t* data) const { std::free(data); }
};
using AlignedBuffer = std::unique_ptr<uint8_t[], FreeMemory>;

constexpr size_t kBufferAlignment = 4096;  // no device or file system asks for more

// Null when there is no memory. `size` is rounded up to the alignment.
inline AlignedBuffer make_aligned(size_t size) {
  const size_t rounded = (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  return AlignedBuffer(static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, rounded)));
}

constexpr uint64_t round_down(uint64_t value, uint64_t unit) {
  return value / unit * unit;
}
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return round_down(value + unit - 1, unit);
}

}  // namespace zvolt::backing
