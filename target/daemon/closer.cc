// See closer.h.
#include "target/daemon/closer.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace zvolt::daemon {

using StorePtr = std::shared_ptr<backing::BlockStore>;

struct StoreCloser::State : std::enable_shared_from_this<State> {
  struct Item {
    std::string name;
    StorePtr store;
  };

  void push(const std::string& lane, const std::string& name, StorePtr store);
  void run(const std::string& lane);
  std::vector<std::string> open_names(const std::vector<std::string>* only) const;

  std::mutex mutex;
  std::condition_variable closed;
  std::map<std::string, std::deque<Item>> lanes;  // a lane with a thread has an entry
  std::multiset<std::string> names;               // let go and not closed yet
};

void StoreCloser::State::push(const std::string& lane, const std::string& name, StorePtr store) {
  std::scoped_lock lock(mutex);
  names.insert(name);
  const auto [found, fresh] = lanes.try_emplace(lane);
  found->second.push_back({name, std::move(store)});
  if (!fresh) return;
  try {
    std::thread([self = shared_from_this(), lane] { self->run(lane); }).detach();
  } catch (const std::system_error& e) {
    // The store stays open: less harm than a shard that hangs in close().
    spdlog::error("volume {}: no thread to close its store: {}", name, e.what());
  }
}

void StoreCloser::State::run(const std::string& lane) {
  pthread_setname_np(pthread_self(), "close");
  std::unique_lock lock(mutex);
  for (;;) {
    auto& queue = lanes.at(lane);
    if (queue.empty()) break;
    Item item = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    item.store.reset();  // may hang
    lock.lock();
    names.erase(names.find(item.name));
    closed.notify_all();
  }
  lanes.erase(lane);
}

std::vector<std::string> StoreCloser::State::open_names(const std::vector<std::string>* only) const {
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (only == nullptr || std::find(only->begin(), only->end(), name) != only->end()) out.push_back(name);
  return out;
}

StoreCloser::StoreCloser() : state_(std::make_shared<State>()) {}

StorePtr StoreCloser::closing_later(StorePtr store, const std::string& lane, const std::string& name) const {
  backing::BlockStore* plain = store.get();
  return {plain, [state = state_, lane, name, keep = std::move(store)](backing::BlockStore*) mutable {
            state->push(lane, name, std::move(keep));
          }};
}

std::vector<std::string> StoreCloser::wait(std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  state_->closed.wait_for(lock, limit, [this] { return state_->names.empty(); });
  return state_->open_names(nullptr);
}

std::vector<std::string> StoreCloser::wait_for(const std::vector<std::string>& names,
                                               std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  state_->closed.wait_for(lock, limit, [&] { return state_->open_names(&names).empty(); });
  return state_->open_names(&names);
}

}  // namespace zvolt::daemon
