// Owed: what a drain waits for: the ranges that were dirty when it was called, each with the record that held it. A
// range is settled when the flushed store has that record's bytes or newer ones, however often the range was written
// over, or copied forward, in between. No lock: guarded by its LUN's. Filled by Journal::drain, settled by Pass.
#pragma once

#include <cstdint>
#include <vector>

namespace zvolt::backing::journal {

class Owed {
 public:
  // In order of offset, without overlaps.
  void add(uint64_t begin, uint64_t end, uint64_t sequence);
  // The flushed store has [begin, end) as of the record with this sequence.
  void settle(uint64_t begin, uint64_t end, uint64_t sequence);
  void clear();
  bool empty() const { return bytes_ == 0; }

 private:
  struct Range {  // settled parts are cut off; what is settled wholly stays, with begin == end
    uint64_t begin;
    uint64_t end;
    uint64_t sequence;
  };
  std::vector<Range> ranges_;
  uint64_t bytes_ = 0;
};

}  // namespace zvolt::backing::journal
