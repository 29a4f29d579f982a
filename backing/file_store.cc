// FileStore: a regular file. Made by open_file(); threading as BlockStore.
//
// O_DIRECT where the file system offers it and the size fits its alignment; else through the page cache with fdatasync.
// On tmpfs and ramfs everything happens in place. A second daemon is kept out by flock: the lock belongs to the open
// file, so after kill -9 it stands until the last request of the old process is done. (flock rather than an OFD lock:
// /proc/locks then tells whose it is.)
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "backing/fd_store.h"
#include "backing/open_probe.h"
#include "backing/stores.h"

namespace zvolt::backing {

namespace {

constexpr mode_t kNewFileMode = 0600;  // a volume is nobody else's to read
// Alignment of O_DIRECT where the kernel does not say: right everywhere, if not always the finest.
constexpr uint32_t kSafeAlignment = 4096;

class FileStore final : public FdStore {
 public:
  explicit FileStore(FdSetup setup) : FdStore(std::move(setup)) {}

 protected:
  int zero_aligned(uint64_t offset, uint64_t length) override;
  int discard_granules(uint64_t offset, uint64_t length) override;
  int extent_at(uint64_t offset, uint64_t length, bool& mapped, uint64_t& extent) override;
  Result<uint64_t> read_size() override;

 private:
  int allocate(int mode, uint64_t offset, uint64_t length) const;
};

int FileStore::allocate(int mode, uint64_t offset, uint64_t length) const {
  int rc;
  do {
    rc = fallocate(fd(), mode | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(length));
  } while (rc != 0 && errno == EINTR);
  return rc == 0 ? 0 : errno;
}

// Zeros that keep their space first, then a hole (reads as zeros too), then written zeros.
int FileStore::zero_aligned(uint64_t offset, uint64_t length) {
  int error = allocate(FALLOC_FL_ZERO_RANGE, offset, length);
  if (error == EOPNOTSUPP) error = allocate(FALLOC_FL_PUNCH_HOLE, offset, length);
  if (error == EOPNOTSUPP) error = write_zeros(offset, length);
  return error;
}

int FileStore::discard_granules(uint64_t offset, uint64_t length) {
  return allocate(FALLOC_FL_PUNCH_HOLE, offset, length);
}

int FileStore::extent_at(uint64_t offset, uint64_t length, bool& mapped, uint64_t& extent) {
  const off_t at = static_cast<off_t>(offset);
  const off_t data = lseek(fd(), at, SEEK_DATA);
  const int error = data < 0 ? errno : 0;
  mapped = true;
  extent = length;
  if (error == EINVAL || error == EOPNOTSUPP) return 0;  // cannot know: mapped
  if (error != 0 && error != ENXIO) return error;
  mapped = data == at;
  if (!mapped) {  // ENXIO: a hole up to the end
    if (error == 0) extent = std::min(length, static_cast<uint64_t>(data - at));
    return 0;
  }
  const off_t hole = lseek(fd(), at, SEEK_HOLE);
  if (hole < 0) return errno;
  extent = std::min(length, static_cast<uint64_t>(hole - at));
  return 0;
}

Result<uint64_t> FileStore::read_size() {
  struct stat st {};
  if (fstat(fd(), &st) == 0) return static_cast<uint64_t>(st.st_size);
  const int error = errno;
  return Error{error, failure("stat", describe(), error)};
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

Result<void> provision(const FileOptions& options) {
  const int fd = open(options.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  if (fd < 0) {
    const int error = errno;
    if (error == EEXIST) return {};  // keeps its size
    return Error{error, failure("create", options.path, error)};
  }
  const int error = ftruncate(fd, static_cast<off_t>(options.provision_size)) == 0 ? 0 : errno;
  close(fd);
  if (error == 0) return {};
  unlink(options.path.c_str());
  return Error{error, failure("give its size to", options.path, error)};
}

Result<void> open_regular(const FileOptions& options, Descriptor& file, struct stat& st) {
  // O_NONBLOCK: a FIFO by that name must not hang the start. It means nothing on a regular file.
  const int flags = (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
  file.fd = open(options.path.c_str(), flags);
  if (file.fd < 0) {
    const int error = errno;
    if (error == EISDIR) return Error{error, options.path + " is a directory, not a file"};
    return Error{error, failure("open", options.path, error)};
  }
  if (fstat(file.fd, &st) != 0) {
    const int error = errno;
    return Error{error, failure("stat", options.path, error)};
  }
  if (S_ISDIR(st.st_mode)) return Error{EISDIR, options.path + " is a directory, not a file"};
  if (S_ISBLK(st.st_mode))
    return Error{EINVAL, options.path + " is a block device: name it as a device, not as a file"};
  if (!S_ISREG(st.st_mode)) return Error{EINVAL, options.path + " is not a regular file"};
  return {};
}

Result<void> lock_file(const FileOptions& options, int fd) {
  const int mode = (options.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
  const auto attempt = [fd, mode] { return flock(fd, mode) == 0 ? 0 : errno; };
  const int error = retry_while_busy(attempt, EWOULDBLOCK, options.force ? kForceWait : options.busy_wait);
  if (error == 0 || (error == EWOULDBLOCK && options.force)) return {};
  if (error != EWOULDBLOCK) return Error{error, failure("lock", options.path, error)};
  return Error{EBUSY,
               options.path + " is in use: locked by " + lock_owner(fd) + "; it can be served by one process only"};
}

// Turns O_DIRECT on where it is possible and the size fits; sets the alignments in `geometry`.
bool go_direct(int fd, uint64_t size, Geometry& geometry) {
  DirectAlignment alignment;
  if (!statx_direct_alignment(fd, alignment)) alignment = {kSafeAlignment, kSafeAlignment};
  if (alignment.memory == 0 || alignment.offset == 0) return false;
  if (alignment.memory > kBufferAlignment || alignment.offset > kBufferAlignment)
    return false;                                  // buffers are 4 KiB aligned
  if (size % alignment.offset != 0) return false;  // the tail could only be written by growing the file
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  const AlignedBuffer buffer = make_aligned(kBufferAlignment);
  if (buffer == nullptr || pread(fd, buffer.get(), std::min<uint64_t>(size, kBufferAlignment), 0) < 0) {
    fcntl(fd, F_SETFL, flags);
    return false;
  }
  geometry.io_alignment = alignment.offset;
  geometry.memory_alignment = alignment.memory;
  return true;
}

FdSetup describe_file(const FileOptions& options, int fd, const struct stat& st) {
  FdSetup setup;
  setup.size = static_cast<uint64_t>(st.st_size);
  setup.geometry.read_only = options.read_only;
  const auto block = static_cast<uint32_t>(st.st_blksize);
  const bool sane = block >= 512 && std::has_single_bit(block);
  setup.geometry.physical_block = sane ? block : kSafeAlignment;
  setup.geometry.discard_granularity = setup.geometry.physical_block;
  setup.geometry.discard_zeroes = true;
  std::string how = "buffered";
  if (on_memory_file_system(fd)) {
    setup.reads = setup.writes = Way::in_place;
    setup.sync_needed = false;
    how = "in memory, in place";
  } else if (options.allow_direct && go_direct(fd, setup.size, setup.geometry)) {
    how = "O_DIRECT, aligned to " + std::to_string(setup.geometry.io_alignment);
  } else {
    setup.reads = Way::try_nowait;
  }
  setup.geometry.logical_block = std::max<uint32_t>(512, setup.geometry.io_alignment);
  setup.description = "file " + options.path + " (" + how + (options.read_only ? ", read only)" : ")");
  return setup;
}

}  // namespace

Result<std::shared_ptr<BlockStore>> open_file(const FileOptions& options) {
  if (options.provision_size > 0 && !options.read_only) {
    const Result<void> made = provision(options);
    if (!made) return made.error();
  }
  Descriptor file;
  struct stat st {};
  const Result<void> opened = open_regular(options, file, st);
  if (!opened) return opened.error();
  const Result<void> locked = lock_file(options, file.fd);
  if (!locked) return locked.error();
  if (st.st_size == 0) return Error{EINVAL, options.path + " is empty: a LUN needs at least one block"};
  FdSetup setup = describe_file(options, file.fd, st);
  setup.fd = file.release();
  return std::shared_ptr<BlockStore>(std::make_shared<FileStore>(std::move(setup)));
}

}  // namespace zvolt::backing
