// TailMover: gives the ring's space back. Finds how far every store is, makes a superblock durable that says so, and
// only then lets the ring be written over. Copies records of LUNs whose store is away to the head, so that the tail can
// pass. On the write-back thread. Internal to backing/journal.
#pragma once

#include "backing/aligned_buffer.h"
#include "backing/journal/core.h"

namespace zvolt::backing::journal {

class TailMover {
 public:
  TailMover(Core& core, const Superblock& superblock);

  void poll(IoEngine& engine, uint64_t now_ns, bool may_start);
  bool busy() const { return state_ == State::writing || state_ == State::flushing; }
  bool waiting() const { return state_ == State::waiting; }  // for the watermark
  const Superblock& superblock() const { return superblock_; }

 private:
  enum class State : uint8_t { idle, waiting, writing, flushing };

  bool due(uint64_t now_ns) const;
  void look(uint64_t now_ns);
  void copy_forward(IoEngine& engine);
  void judge_room(const std::vector<std::shared_ptr<Lun>>& luns, uint64_t now_ns);
  std::string text_of_holder(Lun& lun) const;
  struct Stretch {
    uint64_t begin;
    uint64_t end;
  };
  static bool stuck(const Lun& lun);
  bool copies_fit(const std::vector<std::shared_ptr<Lun>>& luns, uint64_t bytes);
  std::vector<Stretch> stretches_of(const Lun& lun, const Record& record) const;
  bool forward_record(Lun& lun);
  bool forward_part(Lun& lun, RecordKind kind, const Stretch& part);
  void move(IoEngine& engine);
  void start_flush();
  void written(int error);
  void flushed(int error);

  Core& core_;
  Superblock superblock_;  // the last that is durable
  Superblock next_;
  AlignedBuffer slot_;
  iovec slot_iov_{};
  IoRequest io_;
  IoEngine* engine_ = nullptr;
  State state_ = State::idle;
  uint64_t target_ = 0;    // no record below is needed ...
  uint64_t wait_for_ = 0;  // ... once the watermark is here
  uint64_t forward_below_ = 0;
  Lun* blocker_ = nullptr;  // whose record is the lowest; for comparison only
  uint64_t last_move_ns_ = 0;
  uint64_t granted_before_ = 0;     // Core::room_granted at the last look
  uint64_t hopeless_since_ns_ = 0;  // 0: somebody who waits for room may get it
};

}  // namespace zvolt::backing::journal
