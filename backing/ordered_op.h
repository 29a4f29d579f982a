// OrderedOp: one request of an FdStore that needs more than a plain transfer: part of a block is written
// (read-modify-write under an exclusive range), memory or range is not aligned (bounce buffer), or the store is tracked
// and the write must hold its range. Made by FdStore, lives until its request completes. Runs on the request's shard.
#pragma once

#include "backing/aligned_buffer.h"
#include "backing/write_gate.h"

namespace zvolt::backing {

class FdStore;

class OrderedOp {
 public:
  // `aligned`: offset and length fit io_alignment. `bounce`: the data goes through a buffer of ours.
  // ENOMEM when there is no memory for that.
  static Submitted start(FdStore& store, IoRequest& parent, IoEngine& engine, bool aligned, bool bounce);

 private:
  enum class Phase : uint8_t { settle, acquire, first_edge, last_edge, main };

  OrderedOp(FdStore& store, IoRequest& parent, IoEngine& engine, bool aligned);

  static void on_io(IoRequest& io) noexcept;
  void resume();
  bool claim();  // false: parked until the range is free
  void after_claim();
  void read_edge(uint64_t block, uint64_t length, Phase phase);
  void main();
  void transfer(IoKind kind, uint64_t offset, uint64_t length);
  void finish();
  void copy(bool into_buffer);

  FdStore& store_;
  IoRequest& parent_;
  IoEngine& engine_;
  IoRequest io_;
  Hold hold_;
  AlignedBuffer buffer_;  // holds [begin_, end_) when there is a bounce
  uint64_t begin_;        // the request's range, rounded out to io_alignment
  uint64_t end_;
  const bool aligned_;
  bool entered_ = false;  // counted in the gate instead of holding a range
  bool holding_ = false;
  bool fresh_ = true;
  Phase phase_ = Phase::settle;
};

}  // namespace zvolt::backing
