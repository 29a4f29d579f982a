// See uring_engine.h.
#include "backing/uring_engine.h"

#include <linux/falloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backing/transfer.h"

namespace zvolt::backing {

namespace {

constexpr uint64_t kWakeTag = 1;           // user_data of the mailbox poll; requests are pointers
constexpr unsigned kBatch = 64;            // completions taken from the ring at a time
constexpr unsigned kCompletionFactor = 8;  // completion queue entries per submission entry: bursts do not overflow it
constexpr uint64_t kMostPerCall = uint64_t{1} << 30;  // bytes; the length of an SQE has 32 bits

struct Setup {
  unsigned flags;
  const char* name;
};
constexpr Setup kSetups[] = {
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, "cooperative completions"},
    {0, "plain"},
};

constexpr int kNeededOps[] = {IORING_OP_READ,  IORING_OP_WRITE,    IORING_OP_READV,    IORING_OP_WRITEV,
                              IORING_OP_FSYNC, IORING_OP_POLL_ADD, IORING_OP_FALLOCATE};

// Empty when the ring can do what we need.
std::string missing_features(io_uring& ring) {
  if ((ring.features & IORING_FEAT_NODROP) == 0) return "the kernel may drop completions (before 5.5)";
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return "the kernel cannot say which operations it has (before 5.6)";
  std::string missing;
  for (const int op : kNeededOps) {
    if (io_uring_opcode_supported(probe, op) == 0) missing = "io_uring operation " + std::to_string(op) + " is missing";
  }
  io_uring_free_probe(probe);
  return missing;
}

std::string setup_failure(int error) {
  if (error == ENOSYS) return "this kernel has no io_uring";
  if (error == EPERM || error == EACCES)
    return "io_uring is forbidden here (sysctl kernel.io_uring_disabled or seccomp)";
  if (error == ENOMEM) return "no memory for the ring (RLIMIT_MEMLOCK?)";
  return std::string("io_uring_setup: ") + strerror(error);
}

}  // namespace

std::unique_ptr<UringEngine> UringEngine::create(const EngineOptions& options, std::string& why) {
  for (const Setup& setup : kSetups) {
    io_uring ring{};
    io_uring_params params{};
    params.flags = setup.flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = options.ring_entries * kCompletionFactor;
    const int rc = io_uring_queue_init_params(options.ring_entries, &ring, &params);
    if (rc == -EINVAL) continue;  // flags that this kernel does not know
    if (rc < 0) {
      why = setup_failure(-rc);
      return nullptr;
    }
    why = missing_features(ring);
    if (!why.empty()) {
      io_uring_queue_exit(&ring);
      return nullptr;
    }
    std::unique_ptr<UringEngine> engine(new UringEngine(options, ring));
    engine->description_ =
        std::string("io_uring (") + setup.name + ", " + std::to_string(params.sq_entries) + " entries)";
    return engine;
  }
  why = setup_failure(EINVAL);
  return nullptr;
}

UringEngine::UringEngine(const EngineOptions& options, const io_uring& ring)
    : EngineBase(options.worker_threads), ring_(ring) {}

UringEngine::~UringEngine() {
  io_uring_queue_exit(&ring_);
}

void UringEngine::on_own() {
  arm_wake();
}

io_uring_sqe* UringEngine::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe != nullptr) return sqe;
  flush();
  return io_uring_get_sqe(&ring_);
}

void UringEngine::arm_wake() {
  io_uring_sqe* sqe = next_sqe();
  wake_armed_ = sqe != nullptr;
  if (sqe == nullptr) return;  // the submission queue is stuck; reap() tries again
  if (multishot_) {
    io_uring_prep_poll_multishot(sqe, mailbox_.event_fd(), POLLIN);
  } else {
    io_uring_prep_poll_add(sqe, mailbox_.event_fd(), POLLIN);
  }
  io_uring_sqe_set_data64(sqe, kWakeTag);
  flush();  // once, or once per wake on old kernels: the poll must stand before this thread sleeps
}

void UringEngine::queue(IoRequest& request, int fd) {
  accept(request, fd, request.kind == IoKind::flush ? kSync : kTransfer);
  const bool small = request.length <= kSmallWrite && request.iov_count < Merged::kMostParts;
  if (request.kind == IoKind::write && small) return gather(request);
  start(request);
}

void UringEngine::gather(IoRequest& write) {
  write.merged = false;
  const bool follows = run_writes_ > 0 && write.offset == run_end_ && write.fd == run_fd_ &&
                       write.offset + write.length - run_begin_ <= kMostMerged &&
                       run_parts_ + write.iov_count <= Merged::kMostParts;
  if (!follows) {
    close_run();
    run_begin_ = write.offset;
    run_parts_ = 0;
    run_fd_ = write.fd;
  }
  run_.push(write);
  ++run_writes_;
  run_parts_ += write.iov_count;
  run_end_ = write.offset + write.length;
}

// May come back here by way of a full ring, and then finds no run.
void UringEngine::close_run() {
  RequestList run;
  run.append(run_);
  const unsigned writes = std::exchange(run_writes_, 0);
  if (writes == 0) return;
  Merged* merged = writes > 1 ? take_merged() : nullptr;
  if (merged == nullptr) {
    while (IoRequest* write = run.pop()) start(*write);
    return;
  }
  IoRequest& request = merged->request;
  request.kind = IoKind::write;
  request.offset = run_begin_;
  request.length = run_end_ - run_begin_;
  request.fd = run_fd_;
  request.stage = kMerged;
  request.progress = 0;
  request.iov = merged->parts;
  request.iov_count = 0;
  while (IoRequest* write = run.pop()) {
    std::copy_n(write->iov, write->iov_count, merged->parts + request.iov_count);
    request.iov_count += write->iov_count;
    merged->members.push(*write);
  }
  start(request);
}

UringEngine::Merged* UringEngine::take_merged() {
  Merged* taken = free_merged_;
  if (taken != nullptr) {
    free_merged_ = taken->next_free;
  } else if (merged_.size() < kMostMergedWrites) {
    taken = merged_.emplace_back(std::make_unique<Merged>()).get();
    taken->request.context = taken;
  }
  return taken;
}

void UringEngine::on_merged(Merged& merged, int result) {
  const bool whole = result >= 0 && static_cast<uint64_t>(result) == merged.request.length;
  RequestList members;
  members.append(merged.members);
  merged.next_free = std::exchange(free_merged_, &merged);
  while (IoRequest* write = members.pop()) {
    write->merged = whole;
    if (whole) {
      ready_.push(*write);  // completed by reap(), within its limit
    } else {
      start(*write);
    }
  }
}

void UringEngine::queue_sync(IoRequest& request, int fd) {
  accept(request, fd, kSync);
  start(request);
}

void UringEngine::start(IoRequest& request) {
  io_uring_sqe* sqe = backlog_.empty() ? next_sqe() : nullptr;
  if (sqe == nullptr) return backlog_.push(request);
  prepare(*sqe, request);
}

void UringEngine::prepare(io_uring_sqe& sqe, IoRequest& request) const {
  if (request.stage == kSync) {
    io_uring_prep_fsync(&sqe, request.fd, IORING_FSYNC_DATASYNC);
  } else if (request.kind == IoKind::read || request.kind == IoKind::write) {
    const Remaining rest = remaining(request);
    const auto length = static_cast<unsigned>(std::min<uint64_t>(rest.iov->iov_len, kMostPerCall));
    const bool read = request.kind == IoKind::read;
    if (rest.count == 1 && read) {
      io_uring_prep_read(&sqe, request.fd, rest.iov->iov_base, length, rest.offset);
    } else if (rest.count == 1) {
      io_uring_prep_write(&sqe, request.fd, rest.iov->iov_base, length, rest.offset);
    } else if (read) {
      io_uring_prep_readv(&sqe, request.fd, rest.iov, rest.count, rest.offset);
    } else {
      io_uring_prep_writev(&sqe, request.fd, rest.iov, rest.count, rest.offset);
    }
  } else {
    const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const int zero = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
    io_uring_prep_fallocate(&sqe, request.fd, request.kind == IoKind::discard ? punch : zero,
                            static_cast<off_t>(request.offset), static_cast<off_t>(request.length));
  }
  io_uring_sqe_set_data(&sqe, &request);
}

void UringEngine::flush() {
  own();
  run_before_flush();
  close_run();
  while (io_uring_sq_ready(&ring_) != 0) {
    ++submissions_;
    const int rc = io_uring_submit(&ring_);
    if (rc == -EINTR) continue;
    if (rc <= 0) return;  // EBUSY, EAGAIN: completions must be taken first; the entries stay queued
  }
}

void UringEngine::start_backlog() {
  while (!backlog_.empty()) {
    io_uring_sqe* sqe = next_sqe();
    if (sqe == nullptr) return;
    prepare(*sqe, *backlog_.pop());
  }
}

size_t UringEngine::reap(size_t limit) {
  own();
  reaping_ = true;
  size_t ran = 0;
  for (;;) {
    if (mailbox_.signalled()) mailbox_.collect(ready_);
    const size_t before = ran;
    ran += run_ready(limit - ran);
    if (ran < limit) ran += reap_ring(limit - ran);
    if (ran == before || ran >= limit) break;
  }
  reaping_ = false;
  if (!backlog_.empty()) start_backlog();
  if (!wake_armed_) arm_wake();
  if (!ready_.empty()) mailbox_.signal();
  return ran;
}

size_t UringEngine::reap_ring(size_t limit) {
  std::array<io_uring_cqe*, kBatch> slots;
  const unsigned got =
      io_uring_peek_batch_cqe(&ring_, slots.data(), static_cast<unsigned>(std::min<size_t>(limit, kBatch)));
  // Copied out first: a completion may queue, and a full ring then needs the room of what it has already posted.
  std::array<Completion, kBatch> taken;
  for (unsigned i = 0; i < got; ++i) taken[i] = {slots[i]->user_data, slots[i]->res, slots[i]->flags};
  io_uring_cq_advance(&ring_, got);
  for (unsigned i = 0; i < got; ++i) {
    if (taken[i].tag == kWakeTag) {
      on_wake(taken[i]);
    } else {
      on_cqe(*reinterpret_cast<IoRequest*>(taken[i].tag), taken[i].result);
    }
  }
  return got;
}

// A wake-up that was taken is followed by a look into the mailbox, whatever is left of reap()'s limit: as long as the
// signal stands, posters make no other.
void UringEngine::on_wake(const Completion& done) {
  if (done.result == -EINVAL && multishot_) multishot_ = false;  // before 5.13: one shot at a time
  if ((done.flags & IORING_CQE_F_MORE) == 0) {  // else the eventfd is never read: each write makes an event
    mailbox_.clear_event();
    wake_armed_ = false;  // reap() arms it again
  }
  if (mailbox_.signalled()) mailbox_.collect(ready_);
}

void UringEngine::on_cqe(IoRequest& request, int result) {
  if (request.stage == kMerged) return on_merged(*static_cast<Merged*>(request.context), result);
  if (result < 0) {
    if (worth_retry(-result) && request.retries++ < kMaxRetries) return start(request);
    request.error = -result;
    request.error_offset = request.offset + request.progress;
    return complete(request);
  }
  const bool transfer = request.stage == kTransfer && (request.kind == IoKind::read || request.kind == IoKind::write);
  if (transfer && !advance(request, static_cast<size_t>(result))) return start(request);
  complete(request);
}

}  // namespace zvolt::backing
