// How stores are made: one function per kind. Called by the daemon's composition root and by tests, on any thread but a
// shard's (opening can block). What comes back is shared by all shards. Errors say what, on what, and why.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backing/block_store.h"
#include "backing/result.h"

namespace zvolt::backing {

class FaultStore;
struct FaultRule;

// A store is locked against a second daemon. After kill -9 the kernel keeps the old process's lock until its last
// request is done, so a busy store is waited for before it is refused.
constexpr std::chrono::milliseconds kBusyWait{3000};
// `force` serves a busy store all the same, but gives the requests of an old process this long to finish first.
constexpr std::chrono::milliseconds kForceWait{10000};

struct FileOptions {
  std::string path;
  bool read_only = false;
  uint64_t provision_size = 0;  // bytes. 0: the file must exist; else a missing file is created sparse with this size
  bool force = false;           // after kForceWait serve it although another process has it locked
  std::chrono::milliseconds busy_wait = kBusyWait;
  bool allow_direct = true;  // false: buffered even where O_DIRECT would work
};

struct DeviceOptions {
  std::string path;
  bool read_only = false;
  bool force = false;  // after force_wait open it although it is mounted or claimed
  std::chrono::milliseconds force_wait = kForceWait;
  std::chrono::milliseconds busy_wait = kBusyWait;
};

Result<std::shared_ptr<BlockStore>> open_file(const FileOptions& options);
Result<std::shared_ptr<BlockStore>> open_device(const DeviceOptions& options);
Result<std::shared_ptr<BlockStore>> make_memory(uint64_t size_bytes);
Result<std::shared_ptr<BlockStore>> make_null(uint64_t size_bytes);  // answers at once, keeps nothing, reads zeros
Result<std::shared_ptr<FaultStore>> make_faulty(std::shared_ptr<BlockStore> inner, std::vector<FaultRule> rules);

}  // namespace zvolt::backing
