// What names a logical unit to hosts, made of its UUID alone: not of order, LUN number, path or target name, so that it
// stays the same wherever the volume is served. DO NOT CHANGE these derivations: hosts would take the disk for another
// one. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace zvolt::scsi {

using Uuid = std::array<uint8_t, 16>;

std::string unit_serial(const Uuid& uuid);      // 32 hexadecimal digits
uint64_t unit_naa(const Uuid& uuid);            // NAA 3h, locally assigned: 3 and 60 bits of a hash (SPC-4 7.8.6.6.4)
std::string unit_t10_suffix(const Uuid& uuid);  // 16 digits of a hash: ESXi compares the first eight characters only

}  // namespace zvolt::scsi
