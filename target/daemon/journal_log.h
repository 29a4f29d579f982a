// The log device of a journal: opening the device or file, making a file, and formatting what is empty, never what
// somebody else's data is on. Called by Journals and zvoltctl. Blocks; never on a shard.
#pragma once

#include <memory>
#include <string>

#include "backing/block_store.h"
#include "backing/result.h"

namespace zvolt::daemon {

// A file is made with `provision_size` bytes when it is missing and that is not 0; its space is allocated, because a
// log that finds no room fails every volume. ENOENT: not there. EBUSY: in use.
Result<std::shared_ptr<backing::BlockStore>> open_log(const std::string& path, uint64_t provision_size);

enum class LogContent : uint8_t {
  journal,  // a superblock of ours, good or not
  empty,    // its first and last MiB are zeros
  foreign,  // something else
};
Result<LogContent> look_at_log(const std::shared_ptr<backing::BlockStore>& log);

// An empty journal on it. Without `force` only where there is nothing, or a journal that nothing of is needed.
Result<void> format_log(const std::shared_ptr<backing::BlockStore>& log, bool force);

}  // namespace zvolt::daemon
