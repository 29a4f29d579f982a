// The REPORT LUNS parameter data, shared by the command and by the answer of an unmapped LUN 0. SPC-4 6.33.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace zvolt::scsi {

struct LunMap;

// Nothing: this SELECT REPORT value is not supported.
std::optional<std::vector<uint8_t>> lun_list(const LunMap& map, uint8_t select_report);

}  // namespace zvolt::scsi
