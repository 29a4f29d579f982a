// The name of the pool that a device says it is a member of: the ZFS vdev label. Only used to name who has a device
// claimed (zvol_use.cc): a guest's own pool on its disk has such a label too, so a label alone refuses nothing.
//
// Layout (OpenZFS vdev_impl.h): four labels of 256 KiB, two at the start and two at the end of the device; in each, at
// 16 KiB, 112 KiB with an nvlist in XDR encoding, whose top level has a string "name". Pure function, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zvolt::backing {

inline constexpr size_t kLabelListOffset = 16u << 10;  // bytes into the first label
inline constexpr size_t kLabelListSize = 112u << 10;

// The value of the top-level string `key` in an XDR nvlist, "" when there is none or the bytes are no nvlist.
std::string nvlist_string(std::span<const uint8_t> list, const std::string& key);

// The pool name in the first label of an open device, "" none. Blocks.
std::string pool_on_device(int fd);

}  // namespace zvolt::backing
