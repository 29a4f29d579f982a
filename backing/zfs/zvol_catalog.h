// ZvolCatalog: the properties of all followed zvols, asked for a pool at a time and kept for a second, so that 500
// volumes that come up together, or a full pool that fails thousands of writes, run one `zfs` and not thousands. Shared
// by all FollowedZvols of the daemon (zvol.h). Thread-safe; questions block, each at most its own `wait`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "backing/result.h"
#include "backing/zfs/zfs.h"

namespace zvolt::backing {

// Answers are used this long; an error too.
inline constexpr std::chrono::milliseconds kCatalogAge{1000};

class ZvolCatalog {
 public:
  explicit ZvolCatalog(ZfsOptions options = {}) : options_(std::move(options)) {}

  // Names that a question about any volume of the same pool asks for too. Counted: two adds need two removes. What
  // cannot be a name is passed over.
  void add(const std::string& name);
  void remove(const std::string& name);

  // nullopt: it does not exist. A dataset with a `problem` is told as it is. Errors as Zfs::list; ETIMEDOUT: not within
  // `wait`. The answer was asked for at most `age` before this call, or later.
  Result<std::optional<ZvolProperties>> properties(const std::string& name, std::chrono::milliseconds wait,
                                                   std::chrono::milliseconds age = kCatalogAge);
  // What the pool's root dataset had left in the last answer about its volumes, in bytes: tells a full pool from a
  // quota below it. Asks nobody.
  std::optional<uint64_t> last_pool_available(const std::string& pool) const;
  // As Zfs::pool_state.
  Result<std::string> pool_state(const std::string& pool, std::chrono::milliseconds wait);

  // Something was changed (created, set, renamed): the next question asks ZFS.
  void forget(const std::string& pool);

  uint64_t questions() const;  // asked of ZFS so far (tests, status)

 private:
  using Clock = std::chrono::steady_clock;

  // One question and its last answer: "the volumes of tank" or "the health of tank". One thread asks, others wait.
  struct Answer {
    Clock::time_point at{};  // when it was asked; the epoch: never
    bool asking = false;
    bool stale = false;  // forget() came while it was being asked
    std::optional<Error> error;
    std::set<std::string> names;                    // that it was asked about
    std::map<std::string, ZvolProperties> volumes;  // those of them that are there
    std::string health;
  };

  // Returns with a fresh answer about `name`, or an error (ETIMEDOUT: who asks did not come back in time).
  Result<const Answer*> ask(std::unique_lock<std::mutex>& lock, const std::string& pool, const std::string& name,
                            std::chrono::milliseconds wait, std::chrono::milliseconds age);
  Answer run(const std::string& pool, const std::set<std::string>& names, std::chrono::milliseconds wait) const;
  std::set<std::string> names_for(const std::string& pool, const std::string& name) const;

  const ZfsOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::map<std::string, unsigned> added_;
  std::map<std::string, Answer> volumes_;  // by pool; node-based: an Answer stays where it is
  std::map<std::string, Answer> health_;   // by pool
  uint64_t questions_ = 0;
};

}  // namespace zvolt::backing
