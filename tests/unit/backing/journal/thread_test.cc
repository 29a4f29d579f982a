// Real threads and engines: two shards on one LUN and one journal, write-back beside them. For ThreadSanitizer, and for
// what only real interleavings show. The stores are memory.
#include <poll.h>

#include <atomic>
#include <thread>

#include "backing/stores.h"
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kShardBytes = uint64_t{1} << 20;  // of the LUN, each shard's own

std::shared_ptr<BlockStore> memory(uint64_t size) {
  auto made = make_memory(size);
  EXPECT_TRUE(made.ok());
  return *made;
}

class Shard {
 public:
  Shard() : engine_(make_engine({.ring_entries = 64, .worker_threads = 1, .allow_uring = false})) {}

  int run(BlockStore& store, Op& op) {
    op.completed = false;
    if (store.submit(op.request, *engine_) == Submitted::done) return op.request.error;
    while (!op.completed) {
      engine_->flush();
      if (engine_->reap(64) != 0) continue;
      pollfd waiting{engine_->wait_fd(), POLLIN, 0};
      poll(&waiting, 1, 1000);
    }
    return op.request.error;
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      engine_->flush();
      engine_->reap(64);
    }
  }

 private:
  std::unique_ptr<IoEngine> engine_;
};

// Writes with and without FUA, reads its own back, over and over.
void hammer(BlockStore& store, uint64_t base, uint64_t seed, std::atomic<int>& faults) {
  Shard shard;
  Random random(seed);
  std::vector<uint8_t> model(kShardBytes / 4096);
  shard.settle();
  for (int i = 0; i < 400; ++i) {
    const uint64_t block = below(random, model.size());
    if (below(random, 3) == 0) {
      Op op(IoKind::read, base + block * 4096, 4096);
      if (shard.run(store, op) != 0 || !op.holds(model[block])) ++faults;
    } else {
      model[block] = static_cast<uint8_t>(random());
      Op op(IoKind::write, base + block * 4096, 4096, model[block]);
      op.request.fua = below(random, 2) == 0;
      if (shard.run(store, op) != 0) ++faults;
    }
  }
  Op flush(IoKind::flush, 0, 0);
  if (shard.run(store, flush) != 0) ++faults;
  for (uint64_t block = 0; block < model.size(); ++block) {
    Op op(IoKind::read, base + block * 4096, 4096);
    if (shard.run(store, op) != 0 || !op.holds(model[block])) ++faults;
  }
  shard.settle();
}

TEST(JournalThreads, ShardsShareALunAndAJournal) {
  const auto log = memory(kRingStart + (uint64_t{512} << 10));
  {
    const auto engine = make_engine({.allow_uring = false});
    ASSERT_TRUE(format_journal(*log, {kJournalUuid, 512, 0}, *engine).ok());
  }
  JournalOptions options;
  options.max_dirty_age = 1ms;
  options.make_engine = [] { return make_engine({.ring_entries = 64, .worker_threads = 1, .allow_uring = false}); };
  auto opened = Journal::open(log, options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  AttachOptions attach;
  attach.uuid = lun_uuid(0);
  attach.name = "shared";
  const auto inner = memory(2 * kShardBytes);
  attach.store = inner;
  auto store = (*opened)->attach(attach);
  ASSERT_TRUE(store.ok()) << store.error().message;
  std::atomic<int> faults{0};
  std::thread first([&] { hammer(**store, 0, 1, faults); });
  std::thread second([&] { hammer(**store, kShardBytes, 2, faults); });
  JournaledStore* all[] = {store->get()};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE((*opened)->quiesce(all, 10s, [] { return Result<void>(); }).ok());
    (void)(*opened)->statistics();
    (void)(*store)->status();
  }
  first.join();
  second.join();
  EXPECT_EQ(faults.load(), 0);
  EXPECT_TRUE((*opened)->close(10s).ok());
  EXPECT_EQ((*opened)->statistics().dirty_bytes, 0U);
}

}  // namespace
}  // namespace zvolt::backing::journal
