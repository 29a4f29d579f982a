// UnitLimits: what a logical unit promises of itself in VPD B0h, B2h and READ CAPACITY(16), and holds commands to; made
// from the options and the store's geometry. Immutable; a change of the store makes a new one (LogicalUnit). SBC-3
// 6.6.4, 6.6.6, 5.16.
#pragma once

#include <cstdint>

#include "backing/block_store.h"

namespace zvolt::scsi {

struct UnitOptions;

// In logical blocks.
struct UnitLimits {
  uint32_t max_transfer = 0;  // READ, WRITE, VERIFY: longer ones are refused
  uint32_t optimal_transfer = 0;
  uint16_t transfer_granularity = 1;  // OPTIMAL TRANSFER LENGTH GRANULARITY: the store's physical block
  uint8_t physical_exponent = 0;      // LBPPBE
  bool unmap = false;                 // the store can discard: UNMAP, WRITE SAME with UNMAP, thin provisioning
  bool unmapped_reads_zero = false;   // LBPRZ
  uint32_t max_unmap_blocks = 0;      // of all descriptors of one UNMAP
  uint32_t max_unmap_descriptors = 0;
  uint32_t unmap_granularity = 0;
  uint32_t unmap_alignment = 0;
  uint32_t max_write_same = 0;
  bool operator==(const UnitLimits&) const = default;
};

UnitLimits make_limits(const UnitOptions& options, const backing::Geometry& geometry);

}  // namespace zvolt::scsi
