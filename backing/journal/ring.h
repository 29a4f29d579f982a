// Ring: the account of the log's space: what is promised to records in memory, where the head is, which groups stand
// between tail and head. No I/O, no lock: guarded by the journal's. Called by admission, commit and the tail's mover.
//
// Invariant: used() + promised() <= limit, and limit <= ring_bytes: nothing between tail and head is written over.
#pragma once

#include <cstdint>
#include <deque>

#include "backing/journal/format.h"

namespace zvolt::backing::journal {

struct GroupSpan {
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  uint64_t position = 0;
  uint64_t bytes = 0;
  uint32_t chain = 0;  // of the group before
  uint32_t crc = 0;    // its own
};

class Ring {
 public:
  Ring() = default;
  // `tail`: where an empty ring begins.
  Ring(const Tail& tail, uint64_t limit) : tail_(tail), head_(tail), limit_(limit) {}

  // Room for `bytes` when `spare` stays free.
  bool fits(uint64_t bytes, uint64_t spare) const { return used() + promised_ + bytes + spare <= limit_; }
  void promise(uint64_t bytes) { promised_ += bytes; }
  void forget(uint64_t bytes) { promised_ -= bytes; }

  // The group at the head, made of records that `promised` bytes were promised to.
  void append(const GroupSpan& group, uint64_t promised);

  // Where the tail may be when every record below `sequence` is in its store: the group that holds `sequence`, or the
  // head. `sequence` is at most one above the last that was appended.
  Tail tail_for(uint64_t sequence) const;
  // The first sequence behind the groups at the tail that take `bytes` together; behind one group at least.
  uint64_t sequence_behind(uint64_t bytes) const;
  void release(const Tail& tail);  // the superblock that says so is durable

  const Tail& tail() const { return tail_; }
  const Tail& head() const { return head_; }  // what the next group must have
  uint64_t used() const { return head_.position - tail_.position; }
  uint64_t promised() const { return promised_; }
  uint64_t limit() const { return limit_; }

 private:
  std::deque<GroupSpan> groups_;
  Tail tail_;
  Tail head_;
  uint64_t limit_ = 0;
  uint64_t promised_ = 0;
};

}  // namespace zvolt::backing::journal
