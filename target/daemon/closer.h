// StoreCloser: where stores end. The last reference to a store may go on a shard, in an apply or in a watcher, and
// closing a device can hang for ever (a suspended pool): so the store's deleter only hands it to a thread of its lane.
// One lane per pool, so that a hung one holds up nobody else. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backing/block_store.h"

namespace zvolt::daemon {

class StoreCloser {
 public:
  StoreCloser();

  // The same store under a new count; when that reaches zero the store is closed on `lane`'s thread. The caller gives
  // up its own references.
  std::shared_ptr<backing::BlockStore> closing_later(std::shared_ptr<backing::BlockStore> store,
                                                     const std::string& lane, const std::string& name) const;

  // Waits until all stores that were let go are closed. The names of those that still are not after `limit`.
  std::vector<std::string> wait(std::chrono::milliseconds limit) const;
  // The same for these names only.
  std::vector<std::string> wait_for(const std::vector<std::string>& names, std::chrono::milliseconds limit) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with deleters and lanes: they may outlive this object
};

}  // namespace zvolt::daemon
