// See engine_base.h. Also the numbering of engines (IoEngine::slot).
#include "backing/engine_base.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <bit>
#include <cerrno>

namespace zvolt::backing {

namespace {

std::mutex slot_mutex;
uint64_t slots_taken = 0;  // guarded by slot_mutex; one bit a slot
static_assert(IoEngine::kSlots == 64);

unsigned take_slot() {
  const std::lock_guard lock(slot_mutex);
  const auto free = static_cast<unsigned>(std::countr_one(slots_taken));
  if (free < IoEngine::kSlots) slots_taken |= uint64_t{1} << free;
  return free;
}

// A posted function travels as a request.
struct Posted {
  IoRequest request;
  void (*fn)(void*);
  void* arg;
};

void run_posted(IoRequest& request) noexcept {
  const std::unique_ptr<Posted> posted(static_cast<Posted*>(request.context));
  posted->fn(posted->arg);
}

}  // namespace

IoEngine::IoEngine() : slot_(take_slot()) {}

IoEngine::~IoEngine() {
  if (slot_ >= kSlots) return;
  const std::lock_guard lock(slot_mutex);
  slots_taken &= ~(uint64_t{1} << slot_);
}

// What runs may add itself again (for the next flush), and may come back here: a store that finds the ring full
// flushes.
void IoEngine::run_before_flush() {
  if (before_flush_.empty() || running_before_flush_) return;
  running_before_flush_ = true;
  std::vector<BeforeFlush> due;
  due.swap(before_flush_);
  for (const BeforeFlush& each : due) each.fn(each.arg, *this);
  if (before_flush_.empty()) {
    due.clear();
    before_flush_.swap(due);  // keeps its memory
  }
  running_before_flush_ = false;
}

// What other threads posted and reap() never reached belongs to nobody else. Requests of I/O belong to their callers.
EngineBase::~EngineBase() {
  mailbox_.collect(ready_);
  while (IoRequest* request = ready_.pop()) {
    if (request->stage == kPosted) delete static_cast<Posted*>(request->context);
  }
}

void EngineBase::own() {
  if (owned_) return;
  owned_ = true;
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  on_own();
}

void EngineBase::accept(IoRequest& request, int fd, uint8_t stage) {
  own();
  request.engine = this;
  request.fd = fd;
  request.stage = stage;
  request.progress = 0;
  request.retries = 0;
  request.error = 0;
  request.error_offset = request.offset;
  ++in_flight_;
}

void EngineBase::complete(IoRequest& request) {
  if (request.stage != kPosted) --in_flight_;
  const IoRequest::Done run = request.step != nullptr ? request.step : request.done;
  run(request);
}

void EngineBase::offload(IoRequest& request, void (*work)(IoRequest&)) {
  const int fd = request.fd;
  accept(request, fd, kTransfer);
  request.work = work;
  workers_.push(request);
}

void EngineBase::park(IoRequest& request) {
  own();
  // Written only when it must be: what waits for a range was set up before others could see it, and one of them may be
  // finishing it already.
  if (request.engine != this) request.engine = this;
  ++in_flight_;
}

void EngineBase::finish_from_any_thread(IoRequest& request) {
  if (std::this_thread::get_id() != owner_.load(std::memory_order_relaxed)) return mailbox_.post(request);
  ready_.push(request);
  if (!reaping_) mailbox_.signal();  // reap() looks at ready_ before it returns
}

void EngineBase::post(void (*fn)(void*), void* arg) {
  auto posted = std::make_unique<Posted>(Posted{{}, fn, arg});
  posted->request.stage = kPosted;
  posted->request.done = run_posted;
  posted->request.context = posted.get();
  finish_from_any_thread(posted.release()->request);
}

size_t EngineBase::run_ready(size_t limit) {
  size_t ran = 0;
  while (ran < limit) {
    IoRequest* request = ready_.pop();
    if (request == nullptr) break;
    complete(*request);
    ++ran;
  }
  return ran;
}

void fallocate_request(IoRequest& request) {
  const int mode = request.kind == IoKind::discard ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
                                                   : FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  const int rc = fallocate(request.fd, mode, static_cast<off_t>(request.offset), static_cast<off_t>(request.length));
  request.error = rc == 0 ? 0 : errno;
}

}  // namespace zvolt::backing
