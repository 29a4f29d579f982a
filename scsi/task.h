// Task: one SCSI command on its way through a logical unit, and MediaIo: one piece of its media transfer.
// Created by the transport (which embeds it in its own command object), run by ItNexus (scsi/it_nexus.h).
// Threading: a task lives on one shard; every callback comes on that shard. SAM-5 clause 5 (status codes: 5.3).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backing/block_store.h"

namespace zvolt::backing {
class BufferPool;
}

namespace zvolt::scsi {

class LogicalUnit;
class LunNexus;
struct CommandEntry;
struct Task;

// The working state of a long command (UNMAP, WRITE SAME, VERIFY without data): scsi/job.h. Allocated for cold commands
// only.
class Job {
 public:
  virtual ~Job() = default;
};

enum class Status : uint8_t {
  good = 0x00,
  check_condition = 0x02,
  condition_met = 0x04,
  busy = 0x08,
  reservation_conflict = 0x18,
  task_set_full = 0x28,
  aca_active = 0x30,
  task_aborted = 0x40,
};

enum class TaskAttribute : uint8_t { untagged = 0, simple = 1, ordered = 2, head_of_queue = 3, aca = 4 };

// For statistics (design: read, write, flush, unmap, other).
enum class OpClass : uint8_t { read, write, flush, unmap, other };
inline constexpr size_t kOpClasses = 5;

// What the transport has to do next with a task.
enum class Phase : uint8_t {
  complete,   // status, sense and (GOOD) `data` as data-in are final: send the response
  data_out,   // receive `transfer_length` bytes of parameter data into `data`, then call ItNexus::data_out()
  media_in,   // read the media range in pieces with media_io(), send them as data-in, then call finish()
  media_out,  // receive the media range in pieces, hand each to media_io() (write, or compare for VERIFY), then
              // finish()
  pending,    // wait: Task::advanced is called once, on this shard, when the phase has changed
};

struct Sense {
  static constexpr size_t kMax = 96;
  std::array<uint8_t, kMax> bytes{};
  uint8_t length = 0;  // 0: no sense
  std::span<const uint8_t> view() const { return {bytes.data(), length}; }
};

// Nanoseconds of CLOCK_MONOTONIC, taken once per burst and stage; 0: did not get there. Differences are the stages.
struct Stamps {
  uint64_t received = 0;    // the command's header was read from the socket
  uint64_t data_ready = 0;  // data-out complete (receive stage ends); == received when there is none
  uint64_t started = 0;     // handed to the logical unit / store (queue stage ends)
  uint64_t store_done = 0;  // the store has answered (store stage ends)
  uint64_t sent = 0;        // last byte of the response given to the socket (send stage ends)
  // The volume's rate limit held it up from here to there; lies within one of the stages above, and is not part of it.
  uint64_t limit_from = 0;
  uint64_t limit_to = 0;
};

// One piece of a media transfer. Owned by the transport; lives until done.
struct MediaIo {
  backing::IoRequest io;  // filled by ItNexus::media_io; result in io.error
  Task* task = nullptr;
  uint64_t offset = 0;      // bytes from the start of the task's media range
  uint32_t length = 0;      // bytes. media_in: a multiple of the block size. media_out: any (the last may be partial)
  uint8_t* data = nullptr;  // >= length bytes, 4096-aligned; media_in: capacity rounded up to 4096
  void (*done)(MediaIo&) noexcept = nullptr;  // called on this shard when media_io() returned false
};

struct Task {
  // --- set by the transport before ItNexus::start() ---
  uint64_t lun = 0;  // the 8-byte LUN field, SAM-5 4.7, as one big-endian number
  std::array<uint8_t, 16> cdb{};
  TaskAttribute attribute = TaskAttribute::simple;
  backing::IoEngine* engine = nullptr;  // this shard's
  void (*advanced)(Task&) noexcept = nullptr;
  // Bytes of data-out that the initiator announced (iSCSI: Expected Data Transfer Length of a W command). Commands with
  // parameter data refuse a length that cannot be right (WRITE SAME: exactly one block). Unknown: not checked.
  static constexpr uint64_t kUnknownLength = UINT64_MAX;
  uint64_t announced_data_out = kUnknownLength;

  // --- results of start(), data_out(), finish() ---
  Phase phase = Phase::complete;
  Status status = Status::good;
  OpClass op_class = OpClass::other;
  Sense sense;
  uint64_t transfer_length = 0;  // bytes the CDB asks to move (media, or parameter list); for residuals. For
                                 // small data-in: data.size() (already cut to the allocation length)
  uint64_t media_offset = 0;     // bytes on the LUN
  uint32_t block_size = 512;     // bytes
  std::vector<uint8_t> data;     // small data-in, or the parameter data-out that the transport collected

  Stamps stamps;

  // --- the scsi layer's own ---
  LogicalUnit* lu = nullptr;
  LunNexus* nexus = nullptr;
  const CommandEntry* command = nullptr;
  bool fua = false;
  bool aborted = false;            // set by the transport: finish as soon as in-flight I/O allows
  bool waiting = false;            // an entry point has returned with phase pending
  bool media_after_flush = false;  // a FUA read: the flush comes first, then phase media_in
  bool in_data_out = false;        // which handler a held task goes back to
  int error = 0;                   // errno of the failed piece with the lowest offset, or kMiscompare
  uint64_t error_offset = 0;       // its byte offset on the LUN
  uint64_t held_offset = 0;        // bytes on the LUN: what a held task waits for (scsi/range_gate.h)
  uint64_t held_length = 0;
  backing::IoRequest io;         // for the steps of a job
  std::unique_ptr<Job> job;      // a long command's state
  Task* next_waiting = nullptr;  // intrusive list: gate or flush group

  static constexpr int kMiscompare = -1;  // `error` of a VERIFY whose data differ

  LogicalUnit* unit() const { return lu; }
  void reset();  // ready for another command; keeps vectors' memory (bounded)
};

}  // namespace zvolt::scsi
