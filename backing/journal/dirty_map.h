// DirtyMap: what of a LUN is newer than its store: which record holds the newest bytes of each range. And the records
// that hold some, in the order of their sequences: the oldest bounds the ring's tail. No I/O, no lock: guarded by its
// LUN's. Called by append, reads, write-back and replay.
//
// Invariants: extents do not overlap; each lies within its record's range; a record is in the list of live ones exactly
// while an extent refers to it; each extent holds one reference to its record.
#pragma once

#include <cstdint>
#include <map>

#include "backing/journal/record.h"

namespace zvolt::backing::journal {

class DirtyMap {
 public:
  DirtyMap() = default;
  ~DirtyMap() { clear(); }
  DirtyMap(const DirtyMap&) = delete;
  DirtyMap& operator=(const DirtyMap&) = delete;

  // The whole range of `record` is its from now on. Its sequence is above all that were inserted before, its length
  // above 0.
  void insert(Record& record);

  // Of [begin, end) what still belongs to the record with this sequence is in the store now. Newer bytes stay.
  void erase(uint64_t begin, uint64_t end, uint64_t sequence);

  void clear();

  // Calls fn(begin, end, record) for each extent that touches [begin, end), cut to it, in order of offset; fn returns
  // false to stop.
  template <typename Fn>
  void visit(uint64_t begin, uint64_t end, Fn&& fn) const {
    for (auto it = first_touching(begin); it != extents_.end() && it->first < end; ++it) {
      const uint64_t from = it->first < begin ? begin : it->first;
      const uint64_t to = it->second.end > end ? end : it->second.end;
      if (!fn(from, to, *it->second.record)) return;
    }
  }

  Record* oldest() const { return oldest_; }  // of the live records; null: nothing is dirty
  size_t extents() const { return extents_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t ring_bytes() const { return ring_bytes_; }  // sum of the live records'
  uint64_t records() const { return records_; }        // live

 private:
  struct Extent {
    uint64_t end;
    Record* record;
  };
  using Map = std::map<uint64_t, Extent>;  // by begin

  Map::const_iterator first_touching(uint64_t begin) const;
  // Takes [begin, end) out of the map: of all records, or (sequence above 0) of that one only.
  void cut(uint64_t begin, uint64_t end, uint64_t sequence);
  void add_extent(uint64_t begin, uint64_t end, Record& record);
  void drop_extent_of(Record& record);

  Map extents_;
  Record* oldest_ = nullptr;
  Record* newest_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t ring_bytes_ = 0;
  uint64_t records_ = 0;
};

}  // namespace zvolt::backing::journal
