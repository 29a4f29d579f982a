// zvolt-journal-rmw: what a store with large blocks (a zvol of volblocksize 64 KiB) must read, modify and write for
// 4 KiB durable writes, with and without the write journal in front of it. A store in memory counts. By hand; no
// network, real engines and threads.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "backing/io_engine.h"
#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"
#include "backing/stores.h"

namespace zvolt::backing::journal {
namespace {

constexpr uint32_t kBlock = 64 << 10;
constexpr uint32_t kWrite = 4 << 10;
constexpr uint64_t kDisk = uint64_t{256} << 20;
constexpr uint64_t kLog = uint64_t{128} << 20;
constexpr unsigned kDepth = 32;

// Memory that says it has blocks of 64 KiB, and counts what writing in part would make it read and write.
class LargeBlocks final : public BlockStore {
 public:
  explicit LargeBlocks(std::shared_ptr<BlockStore> inner) : inner_(std::move(inner)), geometry_(inner_->geometry()) {
    geometry_.physical_block = kBlock;
  }
  Submitted submit(IoRequest& request, IoEngine& engine) override {
    if (request.kind == IoKind::write) count(request.offset, request.offset + request.length);
    return inner_->submit(request, engine);
  }
  const Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return inner_->size_bytes(); }
  const std::string& describe() const override { return inner_->describe(); }
  Result<uint64_t> refresh_size() override { return inner_->refresh_size(); }

  std::atomic<uint64_t> writes{0}, written{0}, read_modify_write{0};  // requests, bytes, bytes of whole blocks

 private:
  void count(uint64_t begin, uint64_t end) {
    ++writes;
    written += end - begin;
    for (uint64_t block = begin / kBlock * kBlock; block < end; block += kBlock)
      if (block < begin || block + kBlock > end) read_modify_write += kBlock;
  }
  const std::shared_ptr<BlockStore> inner_;
  Geometry geometry_;
};

struct Write {
  IoRequest request;
  iovec part{};
  bool busy = false;
};

void on_done(IoRequest& request) noexcept {
  static_cast<Write*>(request.context)->busy = false;
}

// `count` durable writes, kDepth at a time. False: one failed.
bool load(BlockStore& store, bool sequential, uint64_t count) {
  const auto engine = make_engine({});
  std::vector<uint8_t> data(kWrite, 1);
  std::deque<Write> writes(kDepth);
  std::mt19937_64 random(1);
  bool good = true;
  uint64_t begun = 0;
  for (bool any = true; any && good;) {
    any = false;
    for (Write& each : writes) {
      if (!each.busy && begun < count) {
        const uint64_t place = sequential ? begun : random();
        ++begun;
        each.request = {};
        each.part = {data.data(), data.size()};
        each.request.kind = IoKind::write;
        each.request.fua = true;
        each.request.offset = place % (kDisk / kWrite) * kWrite;
        each.request.length = kWrite;
        each.request.iov = &each.part;
        each.request.iov_count = 1;
        each.request.done = on_done;
        each.request.context = &each;
        each.busy = store.submit(each.request, *engine) == Submitted::pending;
      }
      good = good && (each.busy || each.request.error == 0);
      any = any || each.busy || begun < count;
    }
    engine->flush();
    pollfd waiting{engine->wait_fd(), POLLIN, 0};
    if (engine->reap(256) == 0) ::poll(&waiting, 1, 1);
  }
  return good;
}

std::shared_ptr<LargeBlocks> disk() {
  auto memory = make_memory(kDisk);
  return memory ? std::make_shared<LargeBlocks>(*memory) : nullptr;
}

void print(const char* what, const LargeBlocks& store, uint64_t count) {
  const double host = static_cast<double>(count * kWrite);
  std::printf("  %-12s %9llu writes to the store, %7.1f MiB, read-modify-write %9.1f MiB (%.2f bytes a byte written)\n",
              what, static_cast<unsigned long long>(store.writes), static_cast<double>(store.written) / (1 << 20),
              static_cast<double>(store.read_modify_write) / (1 << 20),
              static_cast<double>(store.read_modify_write) / host);
}

bool compare(bool sequential, uint64_t count) {
  std::printf("%llu durable writes of 4 KiB, %s, volblocksize 64 KiB\n", static_cast<unsigned long long>(count),
              sequential ? "sequential" : "random over 256 MiB");
  const auto plain = disk();
  auto behind = disk();
  auto log = make_memory(kLog);
  const auto engine = make_engine({.allow_uring = false});
  if (!plain || !behind || !log || !load(*plain, sequential, count)) return false;
  print("no journal", *plain, count);
  FormatOptions format;
  format.uuid[0] = 1;
  if (!format_journal(**log, format, *engine)) return false;
  auto journal = Journal::open(*log, {});
  if (!journal) return false;
  AttachOptions attach;
  attach.uuid[0] = 2;
  attach.name = "disk";
  attach.store = behind;
  auto store = (*journal)->attach(attach);
  if (!store || !load(**store, sequential, count)) return false;
  const bool closed = static_cast<bool>((*journal)->close(std::chrono::seconds(30)));
  print("journal", *behind, count);
  const Statistics s = (*journal)->statistics();
  std::printf("  records per commit %.1f; log %.2f bytes a byte written; read-modify-writes avoided %lld\n",
              static_cast<double>(s.records) / static_cast<double>(s.commits),
              static_cast<double>(s.bytes_committed) / static_cast<double>(count * kWrite),
              static_cast<long long>(s.partial_in) - static_cast<long long>(s.partial_written_back));
  return closed;
}

}  // namespace
}  // namespace zvolt::backing::journal

int main() {
  using zvolt::backing::journal::compare;
  constexpr uint64_t kCount = 65536;  // 256 MiB
  return compare(true, kCount) && compare(false, kCount) ? 0 : 1;
}
