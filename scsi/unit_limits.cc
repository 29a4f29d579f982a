// See unit_limits.h.
#include "scsi/unit_limits.h"

#include <algorithm>
#include <bit>

#include "scsi/logical_unit.h"

namespace zvolt::scsi {

namespace {

// One command's longest transfer, in bytes: what a host may ask of the transport's buffers and of the store at once.
constexpr uint64_t kMaxTransfer = uint64_t{32} << 20;
// Best transfer, in bytes: large enough to hide a round trip, small enough to pipeline.
constexpr uint64_t kOptimalTransfer = uint64_t{1} << 20;
// One WRITE SAME, in bytes: a pattern that has to be written for real stays a matter of a second or less.
constexpr uint64_t kMaxWriteSame = kMaxTransfer;
// One UNMAP, in blocks of all its descriptors: a whole-disk UNMAP arrives in portions that delay nobody.
constexpr uint32_t kMaxUnmapBlocks = uint32_t{1} << 20;
constexpr uint32_t kMaxUnmapDescriptors = 256;
// Hosts accept 512/512, 512/4096 and 4096/4096 disks only, so a larger store block is not published as a physical
// block.
constexpr uint32_t kLargestAutoPhysical = 4096;
constexpr uint32_t kMaxExponent = 15;  // LBPPBE is four bits

uint32_t store_block(const backing::Geometry& geometry, uint32_t block) {
  return std::max({geometry.physical_block, geometry.logical_block, block});
}

uint32_t physical_block(const UnitOptions& options, const backing::Geometry& geometry) {
  if (options.physical_block_size == UnitOptions::kPhysicalOfStore) return store_block(geometry, options.block_size);
  if (options.physical_block_size != 0) return std::max(options.physical_block_size, options.block_size);
  return std::min(store_block(geometry, options.block_size), kLargestAutoPhysical);
}

uint32_t optimal_transfer_bytes(uint64_t granule) {
  const uint64_t rounded = (kOptimalTransfer + granule - 1) / granule * granule;
  return static_cast<uint32_t>(std::min(rounded, kMaxTransfer));
}

void set_unmap_limits(UnitLimits& out, const backing::Geometry& geometry, uint32_t block) {
  out.unmap = geometry.discard_granularity != 0;
  if (!out.unmap) return;
  out.unmapped_reads_zero = geometry.discard_zeroes;
  out.max_unmap_blocks = kMaxUnmapBlocks;
  out.max_unmap_descriptors = kMaxUnmapDescriptors;
  out.unmap_granularity = std::max(1u, geometry.discard_granularity / block);
  // An alignment that is no whole number of blocks cannot be said, and hosts then lose nothing but a hint.
  if (geometry.discard_alignment % block == 0) out.unmap_alignment = geometry.discard_alignment / block;
}

}  // namespace

UnitLimits make_limits(const UnitOptions& options, const backing::Geometry& geometry) {
  const uint32_t block = options.block_size;
  const uint32_t granule = store_block(geometry, block);
  UnitLimits out;
  out.max_transfer = static_cast<uint32_t>(kMaxTransfer / block);
  out.optimal_transfer = optimal_transfer_bytes(granule) / block;
  out.transfer_granularity = static_cast<uint16_t>(std::min<uint32_t>(granule / block, UINT16_MAX));
  const uint32_t ratio = physical_block(options, geometry) / block;
  out.physical_exponent =
      static_cast<uint8_t>(std::min<uint32_t>(static_cast<uint32_t>(std::bit_width(ratio)) - 1, kMaxExponent));
  out.max_write_same = static_cast<uint32_t>(kMaxWriteSame / block);
  set_unmap_limits(out, geometry, block);
  return out;
}

}  // namespace zvolt::scsi
