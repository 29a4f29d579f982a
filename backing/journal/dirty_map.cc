// See dirty_map.h.
#include "backing/journal/dirty_map.h"

#include <iterator>

namespace zvolt::backing::journal {

DirtyMap::Map::const_iterator DirtyMap::first_touching(uint64_t begin) const {
  auto it = extents_.upper_bound(begin);
  if (it != extents_.begin() && std::prev(it)->second.end > begin) --it;
  return it;
}

void DirtyMap::add_extent(uint64_t begin, uint64_t end, Record& record) {
  hold(record);
  bytes_ += end - begin;
  extents_.emplace(begin, Extent{end, &record});
  if (record.extents++ != 0) return;
  record.older = newest_;
  record.newer = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->newer) = &record;
  newest_ = &record;
  ring_bytes_ += record.ring_bytes;
  ++records_;
}

void DirtyMap::drop_extent_of(Record& record) {
  if (--record.extents == 0) {
    (record.older == nullptr ? oldest_ : record.older->newer) = record.newer;
    (record.newer == nullptr ? newest_ : record.newer->older) = record.older;
    ring_bytes_ -= record.ring_bytes;
    --records_;
  }
  drop(record);
}

void DirtyMap::insert(Record& record) {
  cut(record.offset, record.end(), 0);
  add_extent(record.offset, record.end(), record);
}

void DirtyMap::erase(uint64_t begin, uint64_t end, uint64_t sequence) {
  if (begin < end) cut(begin, end, sequence);
}

void DirtyMap::cut(uint64_t begin, uint64_t end, uint64_t sequence) {
  auto it = extents_.upper_bound(begin);
  if (it != extents_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != extents_.end() && it->first < end) {
    const uint64_t at = it->first;
    const uint64_t stop = it->second.end;
    Record& record = *it->second.record;
    if (sequence != 0 && record.sequence != sequence) {
      ++it;
      continue;
    }
    // The part behind the cut is added before the part that is cut goes: the record stays live throughout.
    if (stop > end) add_extent(end, stop, record);
    if (at < begin) {
      it->second.end = begin;
      bytes_ -= stop - begin;
      ++it;
    } else {
      bytes_ -= stop - at;
      it = extents_.erase(it);
      drop_extent_of(record);
    }
  }
}

void DirtyMap::clear() {
  for (const auto& [begin, extent] : extents_) drop_extent_of(*extent.record);
  extents_.clear();
  bytes_ = 0;
}

}  // namespace zvolt::backing::journal
