// JournaledStore: the BlockStore of one LUN with a journal in front of its store. Made by Journal::attach(). There is
// no other way to that store while it is attached. Threading as BlockStore.
//
// Contract, in addition to that of BlockStore:
//   read    what was acknowledged last: from memory where it is newer than the store. A LUN with nothing dirty pays one
//           load (acquire: a plain one on x86).
//   write, write_zeroes, discard
//           become records. Without fua complete when they are in memory, in the order of all requests of the LUN; with
//           fua when they, and everything before them in the journal, are durable. Wait (parked, in order) while ring,
//           memory or the LUN's quota are full, and while the LUN is held; EAGAIN when too many wait already, or when
//           the LUN's store is away and its quota is spent.
//   discard whole granules read as zeros at once when the store's geometry says discard_zeroes; what part of a granule
//           is covered is left alone. Without discard_zeroes nothing is done: nothing was promised, and an order of
//           such a discard against later writes would have to be kept for nothing.
//   flush   completes when every record of this LUN that completed before is durable. `length` above 0: only those that
//           touch [offset, offset + length) matter. The store is not flushed: write-back does that.
//   After a failure of the log device (JournalOptions::on_failure): requests wait until the store was brought up to
//   date, then go straight to it, or fail with EROFS.
// Requests of any alignment are taken. geometry() is the store's, but the cache counts as volatile. An error of the
// store met by write-back is no request's: it shows in status(), and the data stays in the journal.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "backing/block_store.h"
#include "backing/journal/format.h"

namespace zvolt::backing::journal {

struct Core;
struct Lun;

class JournaledStore final : public BlockStore {
 public:
  enum class Mode : uint8_t {
    journaled,
    leaving,    // the log failed, or detach() runs: the store is being brought up to date
    direct,     // requests go straight to the store
    read_only,  // the log failed and the policy, or a state that could not be kept, forbids writes
    refused,    // admit_replay said no: nothing is served
  };
  struct Status {
    Mode mode = Mode::journaled;
    uint64_t dirty_bytes = 0;
    uint64_t dirty_extents = 0;
    uint64_t ring_bytes = 0;    // live records in the ring
    bool store_away = false;    // the last write-back met ENOMEDIUM, or is stuck
    int store_error = 0;        // errno of the last write-back, 0 when it went well
    std::string store_problem;  // the same in words
    bool replaying = false;     // records of an earlier life are not in the store yet
  };

  JournaledStore(Core& core, std::shared_ptr<Lun> lun, std::shared_ptr<BlockStore> inner);
  ~JournaledStore() override;

  Submitted submit(IoRequest& request, IoEngine& engine) override;
  const Geometry& geometry() const override;
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  const std::string& describe() const override { return description_; }
  StoreCounters counters() const override { return inner_->counters(); }
  uint64_t generation() const override { return inner_->generation(); }
  Result<uint64_t> refresh_size() override { return inner_->refresh_size(); }

  Status status() const;  // any thread
  const Uuid& uuid() const;
  BlockStore& inner() const { return *inner_; }
  Lun& lun() const { return *lun_; }  // the journal's own

 private:
  Submitted read(IoRequest& request, IoEngine& engine);
  int range_fault(const IoRequest& request) const;
  enum class Piece : uint8_t { made, again, waits, failed };
  Submitted change(IoRequest& request, IoEngine& engine);
  Piece make_piece(IoRequest& request, IoEngine& engine, RecordKind kind, uint64_t at, uint64_t length,
                   uint64_t& sequence);
  Submitted unjournaled(IoRequest& request, IoEngine& engine, Mode mode);
  Submitted not_served(IoRequest& request) const;
  static void on_turn(IoRequest& request) noexcept;
  Submitted flush(IoRequest& request, IoEngine& engine);
  uint64_t newest_of(uint64_t begin, uint64_t end, uint64_t all) const;  // sequence; `all`: of everything
  Submitted allocation(IoRequest& request, IoEngine& engine);

  Core& core_;
  std::shared_ptr<Lun> lun_;
  std::shared_ptr<BlockStore> inner_;
  std::string description_;
  // The store may outlive this, and get another JournaledStore: its notices come by way of this, while there is
  // somebody.
  struct ResizeTarget {
    std::mutex mutex;
    const JournaledStore* store = nullptr;
  };
  std::shared_ptr<ResizeTarget> resize_target_ = std::make_shared<ResizeTarget>();
  mutable std::mutex geometry_mutex_;
  mutable std::deque<Geometry> geometries_;  // as given out, with a volatile cache: references stay good
};

}  // namespace zvolt::backing::journal
