// EraseJob: makes byte ranges of a unit read as zeros, or frees them. What UNMAP and a WRITE SAME of zeros come down
// to. Exact: a store discards whole granules only (a zvol answers OK to less and changes nothing), so the edges are
// zeroed by writing, and only where they hold data: zeroing a hole would allocate, and fail on a full pool just when
// the user frees space. SBC-3 4.7.3.4 (LBPRZ). Shard thread only.
#pragma once

#include <vector>

#include "scsi/job.h"

namespace zvolt::scsi {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

enum class EraseStep : uint8_t { discard, zero_mapped, write_zeroes };

struct EraseSegment {
  EraseStep step = EraseStep::discard;
  ByteRange range;
};

// Discard of all whole granules in the ranges, after those the edges; adjacent and overlapping ranges count as one.
// Without `zero_edges` (a store whose discarded blocks read as anything) the edges keep their data.
std::vector<EraseSegment> plan_discard(std::vector<ByteRange> ranges, uint64_t granularity, uint64_t alignment,
                                       bool zero_edges);

// UNMAP of ranges: whatever reads of them return afterwards is allowed by what the unit says of itself.
void erase_unmap(Task& task, std::vector<ByteRange> ranges);
// The range reads as zeros afterwards; `may_unmap`: it may be freed for that.
void erase_to_zeros(Task& task, ByteRange range, bool may_unmap);

}  // namespace zvolt::scsi
