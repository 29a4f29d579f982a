// Making and resizing what volumes are stored in, by the rules of `provision:`. Files by system calls here, zvols
// through backing/zfs. Nothing is ever destroyed but a file that was made a moment ago for a start or an apply that
// then failed. Blocks; called while volumes are opened and by apply, never on a shard.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "backing/result.h"
#include "backing/zfs/zfs.h"
#include "config/model.h"

namespace zvolt::daemon {

// A file that was made just now.
struct MadeFile {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t size = 0;
  timespec modified{};
};

struct Made {
  std::vector<MadeFile> files;
  std::vector<std::string> zvols;  // datasets
};

// Makes a sparse file of this size when there is none; it appears whole or not at all, also when the process is killed
// meanwhile. True: it was made (and is noted in `made`).
Result<bool> provision_file(const std::string& path, uint64_t size, std::vector<MadeFile>& made);
// The directory entries of these files survive a power cut.
Result<void> sync_directories(const std::vector<MadeFile>& made);
// Removes it unless somebody wrote to it or put another in its place.
void remove_untouched(const MadeFile& made);

// A new size for a file that exists. Shrinking cuts the end off: the caller has asked.
Result<void> resize_file(const std::string& path, uint64_t size);

// What ZFS is asked to make for this volume, with its identity from the start.
backing::Zfs::CreateSpec create_spec(const config::Volume& volume, const std::string& uuid);

// "zvol tank/a was made and stays (...)"; empty when there is none.
std::string what_stays(const Made& made);

}  // namespace zvolt::daemon
