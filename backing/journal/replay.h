// Reading a ring from its tail to its end: what open() builds the dirty maps from, what inspect shows. Blocking I/O;
// reads only.
//
// The end. A group is good when every CRC is right and UUID, sequence, position, chain and epoch are the expected ones.
// The first one that is not ends the ring. It is the torn tail, never acknowledged, when nothing says that it was
// durable; it is corruption when something does: the superblock's watermark, or a later group (groups are written one
// at a time, each after the one before was durable).
#pragma once

#include <functional>
#include <span>

#include "backing/journal/blocking.h"
#include "backing/journal/format.h"
#include "backing/journal/ring.h"

namespace zvolt::backing::journal {

struct RingEnd {
  Tail head;  // what the next group must have
  uint64_t groups = 0;
  bool torn = false;  // remains of a group stand there
  std::string torn_text;
};

// `payloads`: of the records, each padded to sectors, one after the other.
using OnGroup = std::function<void(const Group& group, std::span<const uint8_t> payloads, const GroupSpan& span)>;

// EBADMSG: corruption; the message says which records are lost. Groups before it were handed out all the same.
Result<RingEnd> read_ring(BlockStore& log, const Superblock& superblock, Blocking& io, const OnGroup& on_group);

}  // namespace zvolt::backing::journal
