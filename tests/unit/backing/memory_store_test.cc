// MemoryStore and NullStore.
#include "mock_engine.h"
#include "support.h"

namespace zvolt::backing {
namespace {

TEST(MemoryStore, ReadsWhatWasWrittenWithoutTheEngine) {
  const auto store = must(make_memory(kMiB + 7));
  EXPECT_EQ(store->size_bytes(), kMiB + 7);
  MockEngine engine;
  Io out(IoKind::write, kMiB, 7);
  EXPECT_EQ(store->submit(out.fill(3).request, engine), Submitted::done);
  Io in(IoKind::read, kMiB - 1, 8);
  EXPECT_EQ(store->submit(in.request, engine), Submitted::done);
  EXPECT_EQ(in.data[0], 0);
  EXPECT_EQ(in.data[1], 3);
  EXPECT_EQ(in.data[7], 3);
  EXPECT_TRUE(engine.calls.empty());
}

TEST(MemoryStore, ZeroAndDiscardKeepTheirEdges) {
  const auto store = must(make_memory(8 * kMiB));
  Shard shard;
  EXPECT_EQ(shard.write(*store, 0, 65536, 1), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 100, 50), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, 4000, 9000), 0);
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 20000, 10000), 0);
  EXPECT_TRUE(shard.reads(*store, 0, 100, 1));
  EXPECT_TRUE(shard.reads(*store, 100, 50, 0));
  EXPECT_TRUE(shard.reads(*store, 150, 3850, 1));
  EXPECT_TRUE(shard.reads(*store, 4000, 9000, 0));
  EXPECT_TRUE(shard.reads(*store, 13000, 7480, 1));
  EXPECT_TRUE(shard.reads(*store, 20480, 8192, 0));
  EXPECT_TRUE(shard.reads(*store, 28672, 1000, 1));
  EXPECT_EQ(shard.plain(*store, IoKind::discard, 0, 8 * kMiB), 0);  // large: on a worker
  EXPECT_TRUE(shard.reads(*store, 0, 65536, 0));
}

TEST(MemoryStore, RequestBeyondTheEndIsEinvalAndSizeZeroIsRefused) {
  const auto store = must(make_memory(kMiB));
  Shard shard;
  EXPECT_EQ(shard.plain(*store, IoKind::read, kMiB - 1, 2), EINVAL);
  EXPECT_EQ(shard.plain(*store, IoKind::write_zeroes, UINT64_MAX, 2), EINVAL);
  EXPECT_EQ(make_memory(0).error().code, EINVAL);
  EXPECT_FALSE(make_memory(UINT64_MAX / 2).ok());
}

TEST(NullStore, AnswersAtOnceAndLeaksNothingOfTheBuffer) {
  const auto store = must(make_null(kMiB));
  MockEngine engine;
  Io in(IoKind::read, 0, 4096);
  EXPECT_EQ(store->submit(in.fill(0xee).request, engine), Submitted::done);
  EXPECT_TRUE(in.holds(0));
  Io out(IoKind::write, 0, 4096);
  EXPECT_EQ(store->submit(out.fua().request, engine), Submitted::done);
  EXPECT_EQ(out.request.error, 0);
  Io beyond(IoKind::read, kMiB, 1);
  store->submit(beyond.request, engine);
  EXPECT_EQ(beyond.request.error, EINVAL);
  EXPECT_TRUE(engine.calls.empty());
}

}  // namespace
}  // namespace zvolt::backing
