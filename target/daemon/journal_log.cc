// See journal_log.h.
#include "target/daemon/journal_log.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/journal/blocking.h"
#include "backing/journal/journal.h"
#include "backing/stores.h"

namespace zvolt::daemon {
namespace {

using StorePtr = std::shared_ptr<backing::BlockStore>;
using backing::journal::Blocking;

// Partition tables and the signatures of file systems, RAID, LVM and ZFS labels stand in the first or last of these.
constexpr uint64_t kLooked = uint64_t{1} << 20;

Error system_error(int code, const std::string& path, const char* what) {
  return {code, path + ": " + what + ": " + std::strerror(code)};
}

// Appears whole or not at all: a file that is too short would be taken for the user's choice at the next start.
Result<void> make_file(const std::string& path, uint64_t size) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(errno, path, "cannot make it");
  int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return system_error(error, path, "cannot make it");
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return system_error(errno, folder, "cannot be made durable");
  error = ::fsync(directory) != 0 ? errno : 0;
  ::close(directory);
  if (error != 0) return system_error(error, folder, "cannot be made durable");
  return {};
}

bool all_zero(const uint8_t* data, uint64_t bytes) {
  return std::all_of(data, data + bytes, [](uint8_t byte) { return byte == 0; });
}

Blocking blocking() {
  return Blocking([] { return backing::make_engine({}); });
}

}  // namespace

Result<StorePtr> open_log(const std::string& path, uint64_t provision_size) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT || provision_size == 0) return system_error(errno, path, "cannot be opened");
    const auto made = make_file(path, provision_size);
    if (!made) return made.error();
    if (::stat(path.c_str(), &found) != 0) return system_error(errno, path, "cannot be opened");
  }
  if (S_ISBLK(found.st_mode)) return backing::open_device({.path = path});
  if (!S_ISREG(found.st_mode)) return Error{EINVAL, path + " is neither a block device nor a file"};
  return backing::open_file({.path = path});
}

Result<LogContent> look_at_log(const StorePtr& log) {
  const uint64_t size = log->size_bytes();
  if (size < backing::journal::kRingStart + backing::journal::kLeastRing)
    return Error{EINVAL, log->describe() + " is too small for a journal"};
  Blocking io = blocking();
  const uint64_t unit = std::max(log->geometry().io_alignment, 512U);
  const uint64_t bytes = std::min(kLooked, size / unit * unit);
  const backing::AlignedBuffer memory = backing::make_aligned(bytes);
  bool empty = true;
  for (const uint64_t offset : {uint64_t{0}, (size - bytes) / unit * unit}) {
    const int error = io.read(*log, offset, memory.get(), bytes);
    if (error != 0) return Error{error, "cannot read " + log->describe() + ": " + std::strerror(error)};
    constexpr char kMagic[] = "ZVOLTJSB";
    const bool slot0 = std::memcmp(memory.get(), kMagic, 8) == 0;
    const bool slot1 = std::memcmp(memory.get() + backing::journal::kSlotStride, kMagic, 8) == 0;
    if (offset == 0 && (slot0 || slot1)) return LogContent::journal;
    empty = empty && all_zero(memory.get(), bytes);
  }
  return empty ? LogContent::empty : LogContent::foreign;
}

Result<void> format_log(const StorePtr& log, bool force) {
  const auto content = look_at_log(log);
  if (!content) return content.error();
  if (*content == LogContent::foreign && !force)
    return Error{EEXIST, log->describe() +
                             " is not empty and holds no journal: it may be somebody's data. If it is to "
                             "be overwritten: zvoltctl journal format --force PATH"};
  backing::journal::FormatOptions options;
  if (RAND_bytes(options.uuid.data(), static_cast<int>(options.uuid.size())) != 1)
    return Error{EIO, "no random numbers for the journal's UUID"};
  options.uuid[6] = static_cast<uint8_t>((options.uuid[6] & 0x0f) | 0x40);  // RFC 9562 version 4
  options.uuid[8] = static_cast<uint8_t>((options.uuid[8] & 0x3f) | 0x80);
  const auto engine = backing::make_engine({});
  return backing::journal::format_journal(*log, options, *engine, force);
}

}  // namespace zvolt::daemon
