// See zvol_catalog.h.
#include "backing/zfs/zvol_catalog.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace zvolt::backing {

void ZvolCatalog::add(const std::string& name) {
  if (!bad_dataset_name(name).empty()) return;  // it would spoil the question for all others
  const std::lock_guard lock(mutex_);
  ++added_[name];
}

void ZvolCatalog::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = added_.find(name);
  if (found != added_.end() && --found->second == 0) added_.erase(found);
}

void ZvolCatalog::forget(const std::string& pool) {
  const std::lock_guard lock(mutex_);
  for (std::map<std::string, Answer>* answers : {&volumes_, &health_}) {
    const auto found = answers->find(pool);
    if (found == answers->end()) continue;
    found->second.at = {};
    found->second.stale = true;
  }
}

uint64_t ZvolCatalog::questions() const {
  const std::lock_guard lock(mutex_);
  return questions_;
}

// All added volumes of the pool, this one, and the pool's root dataset. Empty `name`: the pool's health.
std::set<std::string> ZvolCatalog::names_for(const std::string& pool, const std::string& name) const {
  if (name.empty()) return {};
  std::set<std::string> names = {pool, name};
  for (const auto& [added, count] : added_) {
    if (pool_of(added) == pool) names.insert(added);
  }
  return names;
}

ZvolCatalog::Answer ZvolCatalog::run(const std::string& pool, const std::set<std::string>& names,
                                     std::chrono::milliseconds wait) const {
  ZfsOptions options = options_;
  options.deadline = std::min(options.deadline, wait);
  const Zfs zfs(options);
  Answer answer;
  answer.at = Clock::now();
  answer.names = names;
  if (names.empty()) {
    Result<std::string> health = zfs.pool_state(pool);
    if (health) {
      answer.health = *health;
    } else {
      answer.error = health.error();
    }
    return answer;
  }
  Result<std::vector<ZvolProperties>> listed = zfs.list({names.begin(), names.end()});
  if (!listed) {
    answer.error = listed.error();
    return answer;
  }
  for (ZvolProperties& one : *listed) answer.volumes.emplace(one.name, std::move(one));
  return answer;
}

Result<const ZvolCatalog::Answer*> ZvolCatalog::ask(std::unique_lock<std::mutex>& lock, const std::string& pool,
                                                    const std::string& name, std::chrono::milliseconds wait,
                                                    std::chrono::milliseconds age) {
  const auto until = Clock::now() + wait;
  // Measured from this call, not from when the answer comes: a slow answer that was waited for is good for all who
  // waited.
  const auto oldest = Clock::now() - age;
  Answer& answer = name.empty() ? health_[pool] : volumes_[pool];
  for (;;) {
    const bool about = name.empty() || answer.names.contains(name);
    const bool fresh = answer.at != Clock::time_point() && answer.at > oldest;
    if (fresh && about) break;
    if (!answer.asking) {
      const std::set<std::string> names = names_for(pool, name);
      answer.asking = true;
      answer.stale = false;
      ++questions_;
      lock.unlock();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      Answer got = run(pool, names, left);
      lock.lock();
      // An answer asked for before forget() is given to who asked, and to nobody after.
      if (answer.stale) got.at = {};
      answer = std::move(got);
      answered_.notify_all();
      break;
    }
    if (answered_.wait_until(lock, until) == std::cv_status::timeout && answer.asking) {
      return Error{ETIMEDOUT, "ZFS has not answered about pool '" + pool + "' in time"};
    }
  }
  if (answer.error) return *answer.error;
  return &answer;
}

Result<std::optional<ZvolProperties>> ZvolCatalog::properties(const std::string& name, std::chrono::milliseconds wait,
                                                              std::chrono::milliseconds age) {
  if (const std::string bad = bad_dataset_name(name); !bad.empty()) {
    return Error{EINVAL, "'" + name + "' cannot be the name of a volume: it " + bad};
  }
  std::unique_lock lock(mutex_);
  const Result<const Answer*> answer = ask(lock, pool_of(name), name, wait, age);
  if (!answer) return answer.error();
  const auto found = (*answer)->volumes.find(name);
  if (found == (*answer)->volumes.end()) return std::optional<ZvolProperties>();
  return std::optional<ZvolProperties>(found->second);
}

std::optional<uint64_t> ZvolCatalog::last_pool_available(const std::string& pool) const {
  const std::lock_guard lock(mutex_);
  const auto answer = volumes_.find(pool);
  if (answer == volumes_.end()) return std::nullopt;
  const auto root = answer->second.volumes.find(pool);
  if (root == answer->second.volumes.end()) return std::nullopt;
  return root->second.available;
}

Result<std::string> ZvolCatalog::pool_state(const std::string& pool, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  const Result<const Answer*> answer = ask(lock, pool, "", wait, kCatalogAge);
  if (!answer) return answer.error();
  return (*answer)->health;
}

}  // namespace zvolt::backing
