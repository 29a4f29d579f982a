// See ring.h.
#include "backing/journal/ring.h"

#include <algorithm>

namespace zvolt::backing::journal {

void Ring::append(const GroupSpan& group, uint64_t promised) {
  promised_ -= promised;
  groups_.push_back(group);
  head_ = {group.last_sequence + 1, group.position + group.bytes, group.crc};
}

Tail Ring::tail_for(uint64_t sequence) const {
  const auto it = std::upper_bound(groups_.begin(), groups_.end(), sequence,
                                   [](uint64_t s, const GroupSpan& group) { return s <= group.last_sequence; });
  if (it == groups_.end()) return head_;
  return {it->first_sequence, it->position, it->chain};
}

uint64_t Ring::sequence_behind(uint64_t bytes) const {
  uint64_t sequence = tail_.sequence;
  for (const GroupSpan& group : groups_) {
    if (sequence != tail_.sequence && group.position + group.bytes - tail_.position > bytes) break;
    sequence = group.last_sequence + 1;
  }
  return sequence;
}

void Ring::release(const Tail& tail) {
  while (!groups_.empty() && groups_.front().position < tail.position) groups_.pop_front();
  tail_ = tail;
}

}  // namespace zvolt::backing::journal
