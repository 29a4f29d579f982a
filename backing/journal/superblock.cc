// See superblock.h.
#include "backing/journal/superblock.h"

#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/journal/journal.h"

namespace zvolt::backing::journal {

IoRequest superblock_write(const Superblock& superblock, uint8_t* memory, iovec& iov) {
  memset(memory, 0, superblock.sector);
  encode_superblock(superblock, std::span<uint8_t, kSuperblockBytes>(memory, kSuperblockBytes));
  iov = {memory, superblock.sector};
  IoRequest request;
  request.kind = IoKind::write;
  request.offset = superblock.generation % 2 * kSlotStride;
  request.length = superblock.sector;
  request.iov = &iov;
  request.iov_count = 1;
  return request;
}

Result<Slots> read_superblocks(BlockStore& log, Blocking& io) {
  const uint64_t size = log.size_bytes();
  if (size < kRingStart + kLeastRing) return Error{EBADMSG, log.describe() + " is too small to be a journal"};
  const AlignedBuffer memory = make_aligned(kLargeSector);
  Result<Superblock> slots[2] = {Error{}, Error{}};
  bool never = true;
  for (unsigned i = 0; i < 2; ++i) {
    const int error = io.read(log, i * kSlotStride, memory.get(), kLargeSector);
    if (error != 0) return Error{error, "cannot read " + log.describe() + ": " + strerror(error)};
    slots[i] = decode_superblock({memory.get(), kSuperblockBytes}, size);
    never = never && !slots[i] && memcmp(memory.get(), "ZVOLTJSB", 8) != 0;
    if (slots[i] && slots[i]->generation % 2 != i) slots[i] = Error{EBADMSG, "it is in the other's place"};
  }
  if (slots[0] && slots[1] && slots[0]->uuid != slots[1]->uuid) {
    return Error{EBADMSG, log.describe() + " has superblocks of two journals"};
  }
  if (!slots[0] && !slots[1]) {
    return Error{never ? ENOENT : EBADMSG, log.describe() + " has no good superblock: " + slots[0].error().message +
                                               "; " + slots[1].error().message};
  }
  const unsigned best = !slots[0] || (slots[1] && slots[1]->generation > slots[0]->generation) ? 1 : 0;
  const auto& other = slots[1 - best];
  return Slots{*slots[best], other ? std::string() : other.error().message};
}

int write_superblock(const Superblock& superblock, BlockStore& log, Blocking& io) {
  const AlignedBuffer memory = make_aligned(kLargeSector);
  iovec iov{};
  IoRequest request = superblock_write(superblock, memory.get(), iov);
  const int error = io.run(log, request);
  return error != 0 ? error : io.flush(log);
}

}  // namespace zvolt::backing::journal
