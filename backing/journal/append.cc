// Records: how they are made and take their place (core.h). The order of a LUN is made here, and nowhere else.
#include <cerrno>
#include <cstring>
#include <new>

#include "backing/journal/core.h"

namespace zvolt::backing::journal {

// A sector for its share of a header: n records share header_block_bytes(n) <= n sectors.
uint64_t Core::ring_need(RecordKind kind, uint64_t length) const {
  return sector + (has_payload(kind) ? padded(length, sector) : 0);
}

uint64_t Core::memory_need(RecordKind kind, uint64_t length) const {
  return has_payload(kind) ? PayloadPool::capacity_for(padded(length, sector)) : 0;
}

RecordRef Core::new_record(const Lun& lun, RecordKind kind, uint64_t offset, uint64_t length) {
  RecordRef record = RecordRef::adopt(new Record);
  record->kind = kind;
  record->lun = lun.uuid;
  record->offset = offset;
  record->length = length;
  record->ring_bytes = ring_need(kind, length);
  record->time_ns = now();
  record->pool = &pool;
  const uint64_t capacity = memory_need(kind, length);
  if (capacity == 0) return record;
  record->data = pool.take(capacity);
  if (record->data == nullptr) return {};
  record->capacity = capacity;
  return record;
}

void Core::finish_payload(Record& record) const {
  const uint64_t stored = padded(record.length, sector);
  memset(record.data + record.length, 0, stored - record.length);
  record.payload_crc = payload_crc(epoch, record.data, stored);
}

bool Core::append(Lun& lun, Record& record) {
  const std::lock_guard lock(lun.mutex);
  if (lun.mode.load(std::memory_order_relaxed) != Mode::journaled || lun.held.load(std::memory_order_relaxed)) {
    return false;
  }
  append_locked(lun, record);
  return true;
}

// The sequence is taken, and the map changed, under one hold of the LUN lock: per byte, the order of sequences is the
// order in which reads see the records. The queue is in the order of sequences because both are one step under the
// journal lock; so the watermark is a prefix, and groups are consecutive.
void Core::append_locked(Lun& lun, Record& record) {
  {
    const std::lock_guard lock(mutex);
    record.sequence = ++last_sequence;
    if (failed.load(std::memory_order_relaxed)) {
      ring.forget(record.ring_bytes);
    } else {
      journal::hold(record);
      record.next_queued = nullptr;
      (queue_first == nullptr ? queue_first : queue_last->next_queued) = &record;
      queue_last = &record;
    }
  }
  if (record.length != 0) lun.map.insert(record);
  lun.last_sequence.store(record.sequence, std::memory_order_release);
  lun.publish();
}

void Core::forget_room(uint64_t ring_bytes_promised, uint64_t memory_promised) {
  pool.forget(memory_promised);
  const std::lock_guard lock(mutex);
  ring.forget(ring_bytes_promised);
}

}  // namespace zvolt::backing::journal
