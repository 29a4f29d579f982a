// The two superblock slots on the log: which one is good, and how one is written. Called by open, the tail's mover,
// tools.
#pragma once

#include "backing/block_store.h"
#include "backing/journal/blocking.h"
#include "backing/journal/format.h"

namespace zvolt::backing::journal {

// The write of a superblock into its slot. `memory`: kLargeSector bytes, aligned, the request's until it is done.
IoRequest superblock_write(const Superblock& superblock, uint8_t* memory, iovec& iov);

struct Slots {
  Superblock newest;
  std::string other_fault;  // what is wrong with the other slot; empty: nothing
};
// EBADMSG with the faults of both when neither is good; ENOENT when neither was ever a superblock.
Result<Slots> read_superblocks(BlockStore& log, Blocking& io);

// Writes it and flushes; durable when it returns 0.
int write_superblock(const Superblock& superblock, BlockStore& log, Blocking& io);

}  // namespace zvolt::backing::journal
