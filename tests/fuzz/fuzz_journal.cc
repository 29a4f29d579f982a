// libFuzzer: a log device with any bytes. The input is laid over the superblocks and the ring of a small journal (two
// length bytes choose how the rest is split), once as it is and once with its checksums made right, so that what lies
// behind them is reached. Reading must end, stay within bounds, and hand out only groups that fill the ring in order.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backing/journal/crc32c.h"
#include "backing/journal/replay.h"
#include "backing/journal/superblock.h"

namespace zvolt::backing::journal {
namespace {

constexpr uint64_t kRing = uint64_t{64} << 10;

void require(bool fact) {
  if (!fact) std::abort();
}

class Bytes final : public BlockStore {
 public:
  Submitted submit(IoRequest& request, IoEngine&) override {
    require(request.kind == IoKind::read && request.iov_count == 1);
    require(request.offset + request.length <= bytes.size());
    memcpy(request.iov[0].iov_base, bytes.data() + request.offset, request.length);
    request.error = 0;
    return Submitted::done;
  }
  const Geometry& geometry() const override { return geometry_; }
  uint64_t size_bytes() const override { return bytes.size(); }
  const std::string& describe() const override { return name_; }
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kRingStart + kRing);

 private:
  Geometry geometry_;
  std::string name_ = "fuzzed log";
};

class NoEngine final : public IoEngine {
 public:
  void queue(IoRequest&, int) override { std::abort(); }
  void queue_sync(IoRequest&, int) override { std::abort(); }
  void offload(IoRequest&, void (*)(IoRequest&)) override { std::abort(); }
  void park(IoRequest&) override { std::abort(); }
  void finish_from_any_thread(IoRequest&) override { std::abort(); }
  void flush() override { run_before_flush(); }
  uint64_t submissions() const override { return 0; }
  size_t reap(size_t) override { return 0; }
  void post(void (*)(void*), void*) override { std::abort(); }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return 0; }
  const std::string& description() const override { return name_; }

 private:
  std::string name_ = "none";
};

// The CRC that a block must have, its field counted as zero.
void sign(uint8_t* block, size_t length) {
  memset(block + 8, 0, 4);
  const uint32_t crc = crc32c(block, length);
  for (size_t i = 0; i < 4; ++i) block[8 + i] = static_cast<uint8_t>(crc >> (8 * i));
}

void sign_all(std::vector<uint8_t>& bytes) {
  for (const uint64_t slot : {uint64_t{0}, kSlotStride}) sign(bytes.data() + slot, kSuperblockBytes);
  for (uint64_t at = kRingStart; at + kSmallSector <= bytes.size(); at += kSmallSector) {
    const auto header = peek_group({bytes.data() + at, kSmallSector}, kSmallSector, kRing);
    if (header && header->header_bytes <= bytes.size() - at) sign(bytes.data() + at, header->header_bytes);
  }
}

void read_all(Bytes& log) {
  NoEngine engine;
  Blocking io(engine);
  const auto slots = read_superblocks(log, io);
  if (!slots) return;
  uint64_t next = slots->newest.tail.sequence;
  const auto end = read_ring(log, slots->newest, io,
                             [&](const Group& group, std::span<const uint8_t> payloads, const GroupSpan& span) {
                               uint64_t used = 0;
                               for (const Descriptor& record : group.records) {
                                 require(record.sequence == next++);
                                 used += payload_bytes(record, slots->newest.sector);
                               }
                               require(used == payloads.size() && span.last_sequence + 1 == next);
                             });
  if (end) require(end->head.sequence == next && end->head.position <= slots->newest.tail.position + kRing);
}

}  // namespace
}  // namespace zvolt::backing::journal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zvolt::backing::journal;
  if (size < 2) return 0;
  const size_t split = std::min<size_t>((size_t{data[0]} << 8 | data[1]) % 513, size - 2);
  data += 2;
  size -= 2;
  Bytes log;
  memcpy(log.bytes.data() + kSlotStride, data, split);
  memcpy(log.bytes.data() + kRingStart, data + split, std::min<size_t>(size - split, kRing));
  read_all(log);
  sign_all(log.bytes);
  read_all(log);
  return 0;
}
