// Pass: brings what is dirty of one LUN to its store: write, flush, (prove,) forget. One per LUN, one round at a time,
// on the write-back thread. Internal to backing/journal.
//
// Why nothing older ever overtakes something newer in the store: a round goes through the map once, in order of offset,
// so it writes no byte twice; the next round begins when every write of this one has ended; while a LUN has a journal
// nobody else writes to its store. What a round wrote leaves the map only after the flush, and only where the map still
// says that the same record is the newest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backing/aligned_buffer.h"
#include "backing/journal/core.h"

namespace zvolt::backing::journal {

class Pass {
 public:
  Pass(Core& core, IoEngine& engine, std::shared_ptr<Lun> lun);

  void poll(uint64_t now_ns, bool may_start);  // begins a round when one is due
  bool busy() const { return state_ != State::idle; }
  bool due_soon() const { return lun_->gate.load(std::memory_order_relaxed) != 0; }

 private:
  enum class State : uint8_t { idle, admitting, writing, flushing, proving, leaving };
  struct Part {  // of the map: this record's bytes
    uint64_t begin;
    uint64_t end;
    RecordRef record;
  };
  // Parts that follow each other: what one request to the store may be made of.
  struct Run {
    RecordKind kind = RecordKind::write;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool cut = false;  // by the limit of a request: more follows
    std::vector<Part> parts;
  };
  struct WriteOp {
    Pass* pass = nullptr;
    IoRequest io;
    std::vector<iovec> iov;
    AlignedBuffer bounce;
    std::vector<Part> parts;  // taken out of the map when it is flushed
    bool ok = false;
  };

  bool due(uint64_t now_ns);
  void begin_round(uint64_t now_ns);
  void admit();
  void refused();
  void write_more();
  bool next_run(Run& run);
  bool take_part(Run& run, uint64_t begin, uint64_t end, Record& record) const;
  void trim_to_blocks(Run& run, uint64_t block);
  bool partial_is_due(const Run& run, uint64_t begin, uint64_t end) const;
  void submit_run(Run& run);
  void drop_beyond(const Run& run, uint64_t end);
  std::unique_ptr<WriteOp> make_op(const Run& run, uint64_t begin, uint64_t end);
  void submit_part(const Run& run, uint64_t begin, uint64_t end, IoKind kind, bool spare_holes);
  void fill_iov(WriteOp& op) const;
  void submit(std::unique_ptr<WriteOp> op);
  void write_done(WriteOp& op);
  void writes_ended();
  void start_flush();
  void flush_done(int error);
  void prove();
  void proven();
  void forget_written();
  void failed_round(int error, const std::string& what);
  void end_round();
  void look_away(uint64_t now_ns);
  void leave_journal();
  void left(bool kept);
  static void on_write(IoRequest& io) noexcept;

  Core& core_;
  IoEngine& engine_;
  std::shared_ptr<Lun> lun_;
  std::shared_ptr<BlockStore> store_;

  State state_ = State::idle;
  bool forced_ = false;          // young parts of volblocks too
  bool empty_round_ = false;     // the last one found nothing to write
  uint64_t limit_sequence_ = 0;  // records up to this one may go to the store
  uint64_t old_before_ns_ = 0;   // parts of volblocks made before are due
  uint64_t cursor_ = 0;          // the map below is done in this round
  uint64_t generation_ = 0;      // the store's, when the round began
  unsigned in_flight_ = 0;
  uint64_t submitted_ns_ = 0;  // the last time something was submitted or ended: a stall is seen by it
  std::vector<std::unique_ptr<WriteOp>> written_;
  int error_ = 0;  // first of this round
  std::string error_text_;
  unsigned failures_ = 0;  // rounds in a row
  uint64_t not_before_ns_ = 0;
  IoRequest flush_;
  IoRequest work_;
  Result<void> work_result_;
};

}  // namespace zvolt::backing::journal
