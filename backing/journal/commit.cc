// Group commit (core.h). One group is on its way at a time: the shard that finds none becomes the leader, at the end of
// its burst, takes what all shards have queued, writes it with one vectored write (two where the ring ends) and one
// flush through its own engine, and goes on while more is queued. So the durable records are always a prefix of all
// sequences, and nobody is acknowledged ahead of a lower record: the watermark is one number.
//
// The log's requests run on the leader's thread; what they touch (Core::commit) is the leader's while `committing`.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "backing/journal/core.h"
#include "backing/journal/write_back.h"

namespace zvolt::backing::journal {

namespace {

// Bytes of one group: enough to keep a log device busy, and little enough that a write behind it does not wait long.
constexpr uint64_t kGroupTarget = uint64_t{4} << 20;
static_assert(kGroupTarget + kMostPayload + kLargeSector * 2 <= kMostGroup);

void add_iov(std::vector<iovec>& into, uint8_t* data, uint64_t bytes) {
  if (bytes > 0) into.push_back({data, bytes});
}

}  // namespace

void Core::want_commit(IoEngine& engine) {
  engine.before_flush([](void* core, IoEngine& own) { static_cast<Core*>(core)->lead(own); }, this);
}

bool Core::leads(const IoEngine& engine) const {
  const std::lock_guard lock(mutex);
  return committing && commit.engine == &engine;
}

// Round after round while the log answers at once; a round that is pending goes on in part_done().
void Core::lead(IoEngine& engine) {
  while (begin_commit(engine)) {
    if (submit_write() == Submitted::pending) return;
    if (submit_flush() == Submitted::pending) return;
    if (!end_commit()) return;
  }
}

// Takes the queue. False: nothing to do, or another shard leads.
bool Core::begin_commit(IoEngine& engine) {
  uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex);
    if (committing || queue_first == nullptr || failed.load(std::memory_order_relaxed)) return false;
    committing = true;
    commit.engine = &engine;
    take_queue(bytes);
  }
  commit.started_ns = now();
  commit.error = 0;
  commit.span.bytes = bytes;
  build_group();
  {
    const std::lock_guard lock(mutex);
    ring.append(commit.span, commit.promised);
  }
  split_at_ring_end();
  return true;
}

// With the journal lock. From the queue into commit.records, up to a group's limits; `group_bytes`: what they will
// take.
void Core::take_queue(uint64_t& group_bytes) {
  commit.records.clear();
  commit.promised = 0;
  uint64_t payloads = 0;
  const uint64_t most = std::min(kGroupTarget, most_group);
  while (queue_first != nullptr && commit.records.size() < kMostRecords) {
    Record* record = queue_first;
    if (!commit.records.empty() && commit.promised + record->ring_bytes > most) break;
    queue_first = record->next_queued;
    commit.records.push_back(record);
    commit.promised += record->ring_bytes;
    payloads += has_payload(record->kind) ? padded(record->length, sector) : 0;
  }
  if (queue_first == nullptr) queue_last = nullptr;
  group_bytes = header_block_bytes(static_cast<uint32_t>(commit.records.size()), sector) + payloads;
  commit.span.first_sequence = commit.records.front()->sequence;
  commit.span.last_sequence = commit.records.back()->sequence;
  commit.span.position = ring.head().position;
  commit.span.chain = ring.head().chain;
}

void Core::build_group() {
  const auto count = static_cast<uint32_t>(commit.records.size());
  GroupHeader header;
  header.header_bytes = static_cast<uint32_t>(header_block_bytes(count, sector));
  header.uuid = uuid;
  header.epoch = epoch;
  header.first_sequence = commit.span.first_sequence;
  header.watermark = watermark.load(std::memory_order_relaxed);
  header.count = count;
  header.chain = commit.span.chain;
  header.group_bytes = commit.span.bytes;
  header.position = commit.span.position;
  commit.descriptors.clear();
  for (const Record* record : commit.records) {
    commit.descriptors.push_back({record->sequence, record->lun, record->offset, record->length, record->payload_crc,
                                  record->kind, record->flags});
  }
  encode_group(header, commit.descriptors, {commit.header.get(), header.header_bytes});
  commit.span.crc = header.crc;
}

void Core::split_at_ring_end() {
  const uint64_t at = commit.span.position % ring_bytes;
  uint64_t left = ring_bytes - at;  // bytes of the first part at most
  commit.iov[0].clear();
  commit.iov[1].clear();
  const auto add = [&](uint8_t* data, uint64_t bytes) {
    const uint64_t first = std::min(bytes, left);
    left -= first;
    add_iov(commit.iov[0], data, first);
    add_iov(commit.iov[1], data + first, bytes - first);
  };
  add(commit.header.get(), header_block_bytes(static_cast<uint32_t>(commit.records.size()), sector));
  for (const Record* record : commit.records) {
    if (record->data != nullptr) add(record->data, padded(record->length, sector));
  }
  const uint64_t first = std::min(commit.span.bytes, ring_bytes - at);
  const uint64_t offsets[2] = {kRingStart + at, kRingStart};
  const uint64_t lengths[2] = {first, commit.span.bytes - first};
  commit.parts = lengths[1] == 0 ? 1 : 2;
  for (unsigned i = 0; i < commit.parts; ++i) {
    commit.write[i] = {};
    commit.write[i].kind = IoKind::write;
    commit.write[i].offset = offsets[i];
    commit.write[i].length = lengths[i];
    commit.write[i].iov = commit.iov[i].data();
    commit.write[i].iov_count = static_cast<uint32_t>(commit.iov[i].size());
    commit.write[i].context = this;
    commit.write[i].done = [](IoRequest& r) noexcept { static_cast<Core*>(r.context)->part_done(r.error); };
  }
}

Submitted Core::submit_write() {
  commit.pending = commit.parts + 1;  // one for this function: a part may end on another turn only
  for (unsigned i = 0; i < commit.parts; ++i) {
    if (log->submit(commit.write[i], *commit.engine) == Submitted::pending) continue;
    if (commit.write[i].error != 0) commit.error = commit.write[i].error;
    --commit.pending;
  }
  return --commit.pending == 0 ? Submitted::done : Submitted::pending;
}

void Core::part_done(int error) {
  if (error != 0) commit.error = error;
  if (--commit.pending != 0) return;
  if (submit_flush() == Submitted::pending) return;
  IoEngine& engine = *commit.engine;
  if (end_commit()) lead(engine);
}

Submitted Core::submit_flush() {
  if (commit.error != 0) return Submitted::done;
  commit.flush = {};
  commit.flush.kind = IoKind::flush;
  commit.flush.context = this;
  commit.flush.done = [](IoRequest& r) noexcept {
    Core& core = *static_cast<Core*>(r.context);
    IoEngine& engine = *core.commit.engine;
    core.commit.error = r.error;
    if (core.end_commit()) core.lead(engine);
  };
  const Submitted submitted = log->submit(commit.flush, *commit.engine);
  if (submitted == Submitted::done) commit.error = commit.flush.error;
  return submitted;
}

// The group is durable, or the log has failed. True when more is queued. Not a moment before the flush has succeeded
// does the watermark move, and nobody is answered but by the watermark.
bool Core::end_commit() {
  if (commit.error != 0) {
    give_up_group();
    fail(commit.error, "writing the journal " + log->describe());
    return false;
  }
  count(counters.commits);
  count(counters.records, commit.records.size());
  count(counters.bytes_committed, commit.span.bytes);
  const uint64_t took_us = (now() - commit.started_ns) / 1000;
  count(counters.commit_latency[std::min<size_t>(std::bit_width(took_us), Statistics::kLatencyBuckets - 1)]);
  // Taken out: once `committing` is false another shard may lead.
  std::vector<Record*> records;
  records.swap(commit.records);
  std::vector<IoRequest*> acknowledged;
  acknowledged.swap(commit.acknowledged);
  bool more = false;
  {
    const std::lock_guard lock(mutex);
    watermark.store(commit.span.last_sequence, std::memory_order_release);
    std::erase_if(durability_waiters, [&](const DurabilityWaiter& waiter) {
      if (waiter.sequence > commit.span.last_sequence) return false;
      waiter.request->error = 0;
      acknowledged.push_back(waiter.request);
      return true;
    });
    more = queue_first != nullptr;
    committing = false;
  }
  for (Record* record : records) drop(*record);
  for (IoRequest* request : acknowledged) request->engine->finish_from_any_thread(*request);
  write_back->on_commit();
  return more;
}

Submitted Core::wait_durable(Lun& lun, uint64_t sequence, IoRequest& request, IoEngine& engine) {
  if (sequence <= watermark.load(std::memory_order_acquire)) return Submitted::done;
  {
    const std::lock_guard lock(mutex);
    if (sequence <= watermark.load(std::memory_order_relaxed)) return Submitted::done;
    // A record that was made after the LUN has left a failed log (its records were to be voided) is in no ring, and
    // nobody else would answer.
    const Mode mode = lun.mode.load(std::memory_order_relaxed);
    const bool has_left = failed.load(std::memory_order_relaxed) && (mode == Mode::direct || mode == Mode::read_only);
    if (sequence <= lun.settled || has_left) {
      request.error = lun.settled_error;
      return Submitted::done;
    }
    request.engine = &engine;  // before another thread can see it
    durability_waiters.push_back({sequence, &lun, &request});
  }
  engine.park(request);
  return Submitted::pending;
}

void Core::answer_waiters(Lun& lun, uint64_t up_to, int error) {
  std::vector<IoRequest*> answered;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(durability_waiters, [&](const DurabilityWaiter& waiter) {
      if (waiter.lun != &lun || waiter.sequence > up_to) return false;
      waiter.request->error = error;
      answered.push_back(waiter.request);
      return true;
    });
  }
  for (IoRequest* request : answered) request->engine->finish_from_any_thread(*request);
}

// The records stay in their dirty maps: write-back brings them to the stores, and answers who waits (leaving.cc).
void Core::give_up_group() {
  std::vector<Record*> records;
  records.swap(commit.records);
  for (Record* record : records) drop(*record);
  const std::lock_guard lock(mutex);
  committing = false;
  failed.store(true, std::memory_order_release);  // before another shard may lead
}

// What is queued will not become durable here. A group that is on its way keeps its leader: when it becomes durable all
// the same it may be acknowledged, for until its LUN is told `detached` the ring counts, and then the store has it.
void Core::fail(int error, const std::string& what) {
  std::vector<Record*> orphans;
  std::string text;
  {
    const std::lock_guard lock(mutex);
    for (; queue_first != nullptr; queue_first = queue_first->next_queued) orphans.push_back(queue_first);
    queue_last = nullptr;
    failed.store(true, std::memory_order_release);
    if (failure.empty()) {
      failure = what + ": " + strerror(error);
      text = "journal " + uuid_text(uuid) + " failed, its volumes go on without it: " + failure;
    }
  }
  for (Record* record : orphans) drop(*record);
  if (!text.empty()) tell(text);
  write_back->wake();
}

}  // namespace zvolt::backing::journal
