// Journal::open and format_journal: superblocks, replay into the dirty maps, the new epoch (journal.h).
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backing/journal/core.h"
#include "backing/journal/replay.h"
#include "backing/journal/superblock.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

void fill_seams(JournalOptions& options) {
  if (!options.make_engine) {
    options.make_engine = [] { return backing::make_engine({}); };
  }
  if (!options.clock_ns) options.clock_ns = monotonic_ns;
}

Lun& lun_of(Core& core, const Uuid& uuid) {
  if (const auto lun = core.find_lun(uuid)) return *lun;
  core.luns.push_back(std::make_shared<Lun>(uuid));
  return *core.luns.back();
}

// A record of the ring into its LUN's map. In the order of sequences, each above all before it: as append() does.
bool replay_record(Core& core, const Descriptor& descriptor, const uint8_t* payload) {
  if (descriptor.kind == RecordKind::barrier) return true;
  Lun& lun = lun_of(core, descriptor.lun);
  lun.last_sequence.store(descriptor.sequence, std::memory_order_relaxed);
  if (descriptor.kind == RecordKind::superseded) {
    lun.map.clear();
    return true;
  }
  core.pool.promise(core.memory_need(descriptor.kind, descriptor.length));
  const RecordRef record = core.new_record(lun, descriptor.kind, descriptor.offset, descriptor.length);
  if (!record) return false;
  if (record->data != nullptr) memcpy(record->data, payload, padded(descriptor.length, core.sector));
  record->sequence = descriptor.sequence;
  record->flags = descriptor.flags;
  record->time_ns = 0;  // old: not to be waited for
  lun.map.insert(*record);
  return true;
}

void take_report(Core& core, const RingEnd& end) {
  core.report.groups = end.groups;
  core.report.last_sequence = end.head.sequence - 1;
  core.report.torn = end.torn;
  core.report.torn_text = end.torn_text;
  for (const auto& lun : core.luns) {
    lun->publish();
    lun->replayed_through = end.head.sequence - 1;
    if (lun->map.oldest() == nullptr) continue;
    core.report.luns.push_back({lun->uuid, lun->map.records(), lun->map.bytes()});
  }
  if (end.torn) core.tell(core.log->describe() + ": " + end.torn_text);
}

// Sizes that follow from the ring and the memory; `used`: bytes between tail and head. The tail moves by whole groups,
// so the copies of all that lives in one must fit into the reserve: they take no more than their records had (tail.cc).
// A quarter is left for zeros that newer writes have cut to pieces.
uint64_t set_limits(Core& core, uint64_t used) {
  const uint64_t eighth = core.ring_bytes / 8;
  // Never more of the ring than memory can hold again. A ring that an earlier life with more memory has filled keeps
  // what it has, and room for copies forward.
  const uint64_t limit =
      std::min(core.ring_bytes, std::max(core.options.memory_bytes, used + eighth + uint64_t{2} * core.sector));
  core.most_record = std::min(kMostPayload, std::max<uint64_t>(limit / 16 / core.sector, 1) * core.sector);
  core.forward_reserve = std::max(limit / 8 / core.sector * core.sector, 2 * (core.most_record + core.sector));
  core.most_group = core.forward_reserve / 4 * 3;
  return limit;
}

Result<Superblock> raise_epoch(Core& core, const Superblock& found, const Tail& head, uint64_t span, Blocking& io) {
  Superblock next = found;
  next.epoch = found.epoch + 1;
  next.epoch_first_sequence = head.sequence;
  next.watermark = head.sequence - 1;
  next.clean = false;
  next.span = span;
  // After kill -9 what was read may be in the device's cache only: it must be durable before a superblock says so.
  if (const int error = io.flush(*core.log); error != 0) {
    return Error{error, "cannot flush " + core.log->describe() + ": " + strerror(error)};
  }
  // Both slots: should the newer be lost, the older must not lead back into an epoch that has ended.
  for (int i = 0; i < 2; ++i) {
    ++next.generation;
    const int error = write_superblock(next, *core.log, io);
    if (error != 0) return Error{error, "cannot write " + core.log->describe() + ": " + strerror(error)};
  }
  return next;
}

Result<Superblock> replay(Core& core, Blocking& io) {
  const auto slots = read_superblocks(*core.log, io);
  if (!slots) return slots.error();
  const Superblock& found = slots->newest;
  if (!slots->other_fault.empty()) {
    core.tell(core.log->describe() + ": one superblock of two is not good: " + slots->other_fault);
  }
  core.uuid = found.uuid;
  core.sector = found.sector;
  core.ring_bytes = found.ring_bytes;
  core.epoch = found.epoch + 1;
  if (found.sector % std::max(core.log->geometry().io_alignment, 1U) != 0) {
    return Error{EINVAL, core.log->describe() + " cannot be written in the journal's sectors"};
  }
  bool memory = true;
  std::vector<GroupSpan> spans;
  const auto end = read_ring(*core.log, found, io,
                             [&](const Group& group, std::span<const uint8_t> payloads, const GroupSpan& span) {
                               const uint8_t* data = payloads.data();
                               for (const Descriptor& record : group.records) {
                                 memory = memory && replay_record(core, record, data);
                                 data += payload_bytes(record, found.sector);
                               }
                               core.report.records += group.records.size();
                               spans.push_back(span);
                             });
  if (!end) return end.error();
  if (!memory) return Error{ENOMEM, "no memory for the records of " + core.log->describe()};
  take_report(core, *end);
  const uint64_t used = end->head.position - found.tail.position;
  const uint64_t limit = set_limits(core, used);
  core.ring = Ring(found.tail, limit);
  for (const GroupSpan& span : spans) core.ring.append(span, 0);
  core.last_sequence = end->head.sequence - 1;
  core.watermark.store(core.last_sequence, std::memory_order_relaxed);
  return raise_epoch(core, found, end->head, std::max(limit, used), io);
}

}  // namespace

Core::Core(std::shared_ptr<BlockStore> log_store, JournalOptions journal_options)
    : log(std::move(log_store)), options(std::move(journal_options)) {
  commit.header = make_aligned(header_block_bytes(kMostRecords, kLargeSector));
}

Core::~Core() {
  write_back.reset();
  for (Record* record = queue_first; record != nullptr;) {
    Record* next = record->next_queued;
    drop(*record);
    record = next;
  }
  for (Record* record : commit.records) drop(*record);
  for (const auto& lun : luns) {
    const std::lock_guard lock(lun->mutex);  // JournaledStores may outlive this: their maps must not
    lun->map.clear();
  }
}

std::vector<std::shared_ptr<Lun>> Core::all_luns() const {
  const std::lock_guard lock(luns_mutex);
  return luns;
}

std::shared_ptr<Lun> Core::find_lun(const Uuid& id) const {
  const std::lock_guard lock(luns_mutex);
  for (const auto& lun : luns) {
    if (lun->uuid == id) return lun;
  }
  return nullptr;
}

Result<void> format_journal(BlockStore& log, const FormatOptions& options, IoEngine& engine, bool force) {
  Blocking io(engine);
  const uint64_t bytes = options.bytes == 0 ? log.size_bytes() : options.bytes;
  Superblock sb;
  sb.uuid = options.uuid;
  sb.sector = options.sector;
  if (sb.sector == 0) sb.sector = log.geometry().physical_block <= kSmallSector ? kSmallSector : kLargeSector;
  if (sb.sector != kSmallSector && sb.sector != kLargeSector) return Error{EINVAL, "sectors have 512 or 4096 bytes"};
  if (bytes > log.size_bytes() || bytes < kRingStart + kLeastRing) {
    return Error{EINVAL, log.describe() + " is too small for a journal"};
  }
  if (!force) {
    const auto found = read_superblocks(log, io);
    if (found ? !found->newest.clean : found.error().code == EBADMSG) {
      return Error{EEXIST, log.describe() + " holds a journal whose records may be needed"};
    }
  }
  sb.ring_bytes = (bytes - kRingStart) / sb.sector * sb.sector;
  sb.clean = true;
  // No group of an earlier life may stand where the first one is looked for.
  const AlignedBuffer zeros = make_aligned(kLargeSector);
  memset(zeros.get(), 0, kLargeSector);
  int error = io.write(log, kRingStart, zeros.get(), kLargeSector);
  for (int i = 0; i < 2 && error == 0; ++i) {
    ++sb.generation;
    error = write_superblock(sb, log, io);
  }
  if (error != 0) return Error{error, "cannot write " + log.describe() + ": " + strerror(error)};
  return {};
}

Result<std::unique_ptr<Journal>> Journal::open(std::shared_ptr<BlockStore> log, JournalOptions options) {
  if (log == nullptr) return Error{EINVAL, "a journal needs a log device"};
  fill_seams(options);
  auto core = std::make_unique<Core>(std::move(log), std::move(options));
  Blocking io(core->options.make_engine);
  const auto superblock = replay(*core, io);
  if (!superblock) return superblock.error();
  core->several_luns.store(core->luns.size() > 1, std::memory_order_relaxed);
  core->write_back = std::make_unique<WriteBack>(*core, *superblock);
  core->write_back->start();
  return std::unique_ptr<Journal>(new Journal(std::move(core)));
}

}  // namespace zvolt::backing::journal
