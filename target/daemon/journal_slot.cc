// See journal_slot.h.
#include "target/daemon/journal_slot.h"

#include <cerrno>
#include <utility>

#include "target/daemon/journals.h"

namespace zvolt::daemon {

using backing::journal::JournaledStore;

LentStore::LentStore(std::shared_ptr<backing::BlockStore> store)
    : store_(std::move(store)), geometry_(store_->geometry()), description_(store_->describe()) {}

backing::Submitted LentStore::submit(backing::IoRequest& request, backing::IoEngine& engine) {
  if (store_) [[likely]] {
    return store_->submit(request, engine);
  }
  request.error = ENODEV;
  return backing::Submitted::done;
}

JournalSlot::JournalSlot(std::shared_ptr<backing::BlockStore> base) : base_(std::move(base)) {}

// The unit is gone, and with it every request. A volume that has left its journal is let go; one that has not
// (write-back did not come to its end) stays with it.
JournalSlot::~JournalSlot() {
  for (const Attachment& each : attachments_)
    if (each.store->status().mode == JournaledStore::Mode::direct) each.lent->take_back();
}

backing::Submitted JournalSlot::submit(backing::IoRequest& request, backing::IoEngine& engine) {
  backing::BlockStore* now = now_.load(std::memory_order_acquire);
  if (now != nullptr) [[likely]] {
    return now->submit(request, engine);
  }
  request.error = ENOMEDIUM;  // nothing must be read past a journal that has the newest data
  request.error_offset = request.offset;
  return backing::Submitted::done;
}

const backing::Geometry& JournalSlot::geometry() const {
  const backing::BlockStore* now = now_.load(std::memory_order_acquire);
  return now != nullptr ? now->geometry() : base_->geometry();
}

std::shared_ptr<LentStore> JournalSlot::lend() {
  const std::scoped_lock lock(mutex_);
  lending_ = std::make_shared<LentStore>(base_);
  return lending_;
}

void JournalSlot::attach(std::shared_ptr<OpenJournal> journal, std::shared_ptr<JournaledStore> store) {
  const std::scoped_lock lock(mutex_);
  attachments_.push_back({std::move(journal), std::move(store), std::move(lending_)});
  now_.store(attachments_.back().store.get(), std::memory_order_release);
}

void JournalSlot::bypass() {
  now_.store(base_.get(), std::memory_order_release);
}

std::shared_ptr<JournaledStore> JournalSlot::journaled() const {
  const std::scoped_lock lock(mutex_);
  const backing::BlockStore* now = now_.load(std::memory_order_acquire);
  if (attachments_.empty() || attachments_.back().store.get() != now) return nullptr;
  return attachments_.back().store;
}

std::shared_ptr<OpenJournal> JournalSlot::journal() const {
  const std::scoped_lock lock(mutex_);
  return attachments_.empty() ? nullptr : attachments_.back().journal;
}

}  // namespace zvolt::daemon
