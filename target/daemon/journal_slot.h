// JournalSlot: the store of a journalled volume as its unit sees it: nothing (ENOMEDIUM) until the volume is attached
// to its journal, then the JournaledStore, or the bare store when the journal has been left. It stays the same object
// through all that, so that no unit has to be made anew. Made by the volume set, filled by Journals.
// Threading: BlockStore; attach() and bypass() by one thread at a time, not on a shard.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"

namespace zvolt::daemon {

// An open log and its journal. Lives as long as any slot has a store of it.
struct OpenJournal;

// The store as the journal sees it: the volume's own, until it is let go. The journal keeps every store it has ever
// had, and would keep a device open that nobody serves any more.
class LentStore final : public backing::BlockStore {
 public:
  explicit LentStore(std::shared_ptr<backing::BlockStore> store);
  backing::Submitted submit(backing::IoRequest& request, backing::IoEngine& engine) override;
  const backing::Geometry& geometry() const override { return store_ ? store_->geometry() : geometry_; }
  uint64_t size_bytes() const override { return store_ ? store_->size_bytes() : 0; }
  const std::string& describe() const override { return description_; }
  backing::StoreCounters counters() const override { return store_ ? store_->counters() : backing::StoreCounters(); }
  Result<uint64_t> refresh_size() override { return store_ ? store_->refresh_size() : Result<uint64_t>(0); }
  uint64_t generation() const override { return store_ ? store_->generation() : 0; }
  // Nothing may be on its way and nothing may come.
  void take_back() { store_.reset(); }

 private:
  std::shared_ptr<backing::BlockStore> store_;
  const backing::Geometry geometry_;
  const std::string description_;
};

class JournalSlot final : public backing::BlockStore {
 public:
  explicit JournalSlot(std::shared_ptr<backing::BlockStore> base);
  ~JournalSlot() override;

  backing::Submitted submit(backing::IoRequest& request, backing::IoEngine& engine) override;
  const backing::Geometry& geometry() const override;
  uint64_t size_bytes() const override { return base_->size_bytes(); }
  const std::string& describe() const override { return base_->describe(); }
  backing::StoreCounters counters() const override { return base_->counters(); }
  Result<uint64_t> refresh_size() override { return base_->refresh_size(); }
  uint64_t generation() const override { return base_->generation(); }

  // What the journal is to be given as the store; new for each attachment.
  std::shared_ptr<LentStore> lend();
  void attach(std::shared_ptr<OpenJournal> journal, std::shared_ptr<backing::journal::JournaledStore> store);
  // Requests go to the bare store from now on. Those that are in the journal's way still end there.
  void bypass();

  const std::shared_ptr<backing::BlockStore>& base() const { return base_; }
  // Nothing is served until the next attach(). Nobody may use the volume.
  void clear() { now_.store(nullptr, std::memory_order_release); }
  // Null: not attached, or bypassed.
  std::shared_ptr<backing::journal::JournaledStore> journaled() const;
  std::shared_ptr<OpenJournal> journal() const;
  bool empty() const { return now_.load(std::memory_order_acquire) == nullptr; }

 private:
  struct Attachment {
    std::shared_ptr<OpenJournal> journal;
    std::shared_ptr<backing::journal::JournaledStore> store;
    std::shared_ptr<LentStore> lent;
  };
  const std::shared_ptr<backing::BlockStore> base_;
  std::atomic<backing::BlockStore*> now_{nullptr};
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<LentStore> lending_;
  // All that ever were: requests may still be in them. Few: one per edit of `journal`.
  std::vector<Attachment> attachments_;
};

}  // namespace zvolt::daemon
