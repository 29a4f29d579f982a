// Prints what durable 4 KiB random writes cost with and without a journal, on modelled devices: a memory store whose
// flush takes 5 ms behind a log whose flush takes 50 us (real threads, real waits). Not a test.
//   bench_journal [seconds per figure, default 1]
#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "backing/stores.h"
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kBlock = 4096;
constexpr uint64_t kStore = uint64_t{256} << 20;

// Memory, whose flushes take a time; flushes that come while one runs share the next.
class SlowFlush final : public BlockStore {
 public:
  SlowFlush(uint64_t size, std::chrono::microseconds delay)
      : inner_(*make_memory(size)), delay_(delay), thread_([this] { run(); }) {
    // Touched once: the price of fresh pages is not the journal's.
    const auto engine = make_engine({.allow_uring = false});
    Op op(IoKind::write, 0, uint64_t{1} << 20);
    for (; op.request.offset < size; op.request.offset += op.request.length) (void)inner_->submit(op.request, *engine);
  }
  ~SlowFlush() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Submitted submit(IoRequest& request, IoEngine& engine) override {
    if (request.kind != IoKind::flush) return inner_->submit(request, engine);
    request.error = 0;
    engine.park(request);
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(&request);
    }
    wake_.notify_one();
    return Submitted::pending;
  }
  const Geometry& geometry() const override { return inner_->geometry(); }
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  const std::string& describe() const override { return inner_->describe(); }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (waiting_.empty()) {
        wake_.wait(lock);
        continue;
      }
      std::vector<IoRequest*> served;
      served.swap(waiting_);
      lock.unlock();
      const auto end = Clock::now() + delay_;
      if (delay_ > std::chrono::milliseconds(1)) std::this_thread::sleep_for(delay_);
      while (Clock::now() < end) std::this_thread::yield();
      for (IoRequest* request : served) request->engine->finish_from_any_thread(*request);
      lock.lock();
    }
  }

  std::shared_ptr<BlockStore> inner_;
  std::chrono::microseconds delay_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<IoRequest*> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

struct Slot {
  Op op{IoKind::write, 0, kBlock, 7};
  Op flush{IoKind::flush, 0, 0};
};

double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

// Durable writes per second at a depth: each is a write and then a flush, as the SCSI layer does it.
void measure(const char* name, BlockStore& store, unsigned depth, double seconds, const Journal* journal) {
  const auto engine = make_engine({});
  Random random(1);
  std::vector<std::unique_ptr<Slot>> slots;
  const auto start_one = [&](Slot& slot) {
    slot.op.request.offset = below(random, kStore / kBlock) * kBlock;
    slot.flush.completed = false;
    (void)store.submit(slot.op.request, *engine);  // memory: done at once
    if (store.submit(slot.flush.request, *engine) == Submitted::done) slot.flush.completed = true;
  };
  const Statistics before = journal != nullptr ? journal->statistics() : Statistics{};
  for (unsigned i = 0; i < depth; ++i) slots.push_back(std::make_unique<Slot>());
  engine->flush();
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const double cpu = cpu_us();
  for (const auto& slot : slots) start_one(*slot);
  uint64_t done = 0;
  for (bool more = true; more;) {
    engine->flush();
    if (engine->reap(256) == 0 && engine->in_flight() != 0) {
      pollfd waiting{engine->wait_fd(), POLLIN, 0};
      poll(&waiting, 1, 1000);
    }
    more = false;
    const bool over = Clock::now() >= end;
    for (const auto& slot : slots) {
      if (slot->flush.completed) {
        ++done;
        slot->flush.completed = false;
        if (!over) start_one(*slot);
        if (over) slot->op.completed = true;
      }
      more = more || !slot->op.completed;
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%-12s depth %2u  %9.0f writes/s  %7.1f us each  %5.2f us CPU of the shard", name, depth,
              static_cast<double>(done) / took, took * 1e6 * depth / static_cast<double>(done),
              (cpu_us() - cpu) / static_cast<double>(done));
  if (journal != nullptr) {
    const Statistics s = journal->statistics();
    const auto commits = static_cast<double>(std::max<uint64_t>(s.commits - before.commits, 1));
    std::printf("  %5.1f records/commit", static_cast<double>(s.records - before.records) / commits);
  }
  std::printf("\n");
  for (const auto& slot : slots) slot->op.completed = false;
}

int run(double seconds) {
  using namespace std::chrono_literals;
  const auto log = std::make_shared<SlowFlush>(uint64_t{256} << 20, 50us);
  const auto plain = std::make_shared<SlowFlush>(kStore, 5000us);
  const auto behind = std::make_shared<SlowFlush>(kStore, 5000us);
  const auto null = *make_null(kStore);
  {
    const auto engine = make_engine({});
    if (!format_journal(*log, {kJournalUuid, 4096, 0}, *engine)) return 1;
  }
  auto journal = Journal::open(log, {});
  if (!journal) return 1;
  AttachOptions attach;
  attach.uuid = lun_uuid(0);
  attach.store = behind;
  const auto store = (*journal)->attach(attach);
  if (!store) return 1;
  for (const unsigned depth : {1U, 8U, 32U, 1U, 8U, 32U}) {
    measure("null", *null, depth, seconds, nullptr);
    measure("log alone", *log, depth, seconds, nullptr);
    measure("no journal", *plain, depth, seconds, nullptr);
    measure("journal", **store, depth, seconds, journal->get());
  }
  const Statistics s = (*journal)->statistics();
  std::printf("in %llu MiB, written back %llu MiB in %llu writes, superblocks %llu, waited for room %llu\n",
              static_cast<unsigned long long>(s.bytes_in >> 20),
              static_cast<unsigned long long>(s.bytes_written_back >> 20),
              static_cast<unsigned long long>(s.write_backs), static_cast<unsigned long long>(s.superblocks),
              static_cast<unsigned long long>(s.waited));
  return (*journal)->close(10s).ok() ? 0 : 1;
}

}  // namespace
}  // namespace zvolt::backing::journal

int main(int argc, char** argv) {
  return zvolt::backing::journal::run(argc > 1 ? std::atof(argv[1]) : 1.0);
}
