// See errno_sense.h.
#include "scsi/errno_sense.h"

#include <cerrno>

namespace zvolt::scsi {

namespace {

constexpr uint8_t bit(StoreOperation operation) {
  return static_cast<uint8_t>(1u << static_cast<uint8_t>(operation));
}
constexpr uint8_t kRead = bit(StoreOperation::read);
constexpr uint8_t kWrite = bit(StoreOperation::write);
constexpr uint8_t kFlush = bit(StoreOperation::flush);
constexpr uint8_t kAny = kRead | kWrite | kFlush;

struct Row {
  int error;
  uint8_t operations;
  ErrnoAnswer answer;
};

constexpr ErrnoAnswer check(SenseCode code, bool information = false) {
  return {Status::check_condition, code, information};
}
constexpr ErrnoAnswer kBusy{Status::busy, sense::kNone, false};

// 02/04/01 for a device that is away: it may come back, and Linux fails 02/04/00 at once, ESXi takes 04/3E/01 and
// 05/25/00 as permanent loss.
constexpr Row kRows[] = {
    {ENOSPC, kAny, check(sense::kSpaceAllocationFailed)},
    {EDQUOT, kAny, check(sense::kSpaceAllocationFailed)},
    {EROFS, kAny, check(sense::kWriteProtected)},
    {EPERM, kAny, check(sense::kWriteProtected)},
    {ENOMEDIUM, kAny, check(sense::kBecomingReady)},  // a followed store whose device is away
    {ENODEV, kAny, check(sense::kBecomingReady)},
    {ENXIO, kAny, check(sense::kBecomingReady)},
    {EAGAIN, kAny, kBusy},
    {ENOMEM, kAny, kBusy},
    {EIO, kRead, check(sense::kUnrecoveredRead, true)},
    {EIO, kWrite, check(sense::kWriteError)},
};

}  // namespace

ErrnoAnswer errno_answer(int error, StoreOperation operation) {
  for (const Row& row : kRows) {
    if (row.error == error && (row.operations & bit(operation)) != 0) return row.answer;
  }
  // Whatever made a flush fail: data that was acknowledged may not be on the medium.
  if (operation == StoreOperation::flush) return check(sense::kWriteError);
  return check(sense::kInternalFailure);
}

}  // namespace zvolt::scsi
