// See owed.h.
#include "backing/journal/owed.h"

#include <algorithm>

namespace zvolt::backing::journal {

void Owed::add(uint64_t begin, uint64_t end, uint64_t sequence) {
  ranges_.push_back({begin, end, sequence});
  bytes_ += end - begin;
}

void Owed::settle(uint64_t begin, uint64_t end, uint64_t sequence) {
  if (bytes_ == 0) return;
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), begin,
                             [](uint64_t at, const Range& range) { return at < range.end; });
  for (; it != ranges_.end() && it->begin < end; ++it) {
    if (it->sequence > sequence) continue;
    const uint64_t from = std::max(it->begin, begin);
    const uint64_t to = std::min(it->end, end);
    if (from >= to) continue;
    bytes_ -= to - from;
    if (from == it->begin) {
      it->begin = to;
    } else if (to == it->end) {
      it->end = from;
    } else {
      const Range behind{to, it->end, it->sequence};
      it->end = from;
      it = ranges_.insert(it + 1, behind);
    }
  }
}

void Owed::clear() {
  ranges_.clear();
  ranges_.shrink_to_fit();
  bytes_ = 0;
}

}  // namespace zvolt::backing::journal
