// See device_store.h. Always O_DIRECT: a buffered descriptor keeps showing old data after `zfs rollback`.
#include "backing/device_store.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "backing/device_probe.h"
#include "backing/open_probe.h"

namespace zvolt::backing {

namespace {

template <typename Call>
int unless_interrupted(Call call) {
  int rc;
  do {
    rc = call();
  } while (rc != 0 && errno == EINTR);
  return rc == 0 ? 0 : errno;
}

int ioctl_range(int fd, unsigned long command, uint64_t offset, uint64_t length) {
  uint64_t range[2] = {offset, length};
  return unless_interrupted([&] { return ioctl(fd, command, range); });
}

}  // namespace

int DeviceStore::discard_granules(uint64_t offset, uint64_t length) {
  if (!punch_) return ioctl_range(fd(), BLKDISCARD, offset, length);
  const int error = unless_interrupted([&] {
    return fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(length));
  });
  return error == EOPNOTSUPP ? zero_aligned(offset, length) : error;  // zeros were promised, freeing was not
}

int DeviceStore::zero_aligned(uint64_t offset, uint64_t length) {
  const int error = ioctl_range(fd(), BLKZEROOUT, offset, length);
  return error == EOPNOTSUPP || error == ENOTTY ? write_zeros(offset, length) : error;
}

Result<uint64_t> DeviceStore::read_size() {
  uint64_t size = 0;
  if (ioctl(fd(), BLKGETSIZE64, &size) == 0) return size;
  const int error = errno;
  return Error{error, failure("read the size of", describe(), error)};
}

Result<std::shared_ptr<BlockStore>> open_device(const DeviceOptions& options) {
  Result<OpenDevice> claimed = claim_device(options);
  if (!claimed) return claimed.error();
  Result<DeviceFacts> facts = read_device(options, claimed->fd());
  if (!facts) return facts.error();
  facts->setup.fd = claimed->release();
  return std::shared_ptr<BlockStore>(std::make_shared<DeviceStore>(std::move(facts->setup), facts->punch));
}

}  // namespace zvolt::backing
