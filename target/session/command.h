// Command: one SCSI command of a session from its header to the last byte of its response, with the pieces of its media
// transfer. Plain state, driven by Connection (transfer.cc, dispatch.cc) on the session's shard; pooled by the shard.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "backing/buffer_pool.h"
#include "scsi/task.h"
#include "target/limits.h"

namespace zvolt::iscsi {

class Connection;
struct Command;
struct UnitLane;

// A part of a command's media range with its buffer. media_in: read, then sent. media_out: received, then written.
struct Piece : scsi::MediaIo {
  enum class State : uint8_t { free, filling, in_store, ready, sending };
  State state = State::free;
  bool held = false;    // its range is held on the logical unit: the session is gone, the write is not
  uint32_t filled = 0;  // media_out: bytes received
  size_t general = 0;   // bytes of the session's share that the buffer takes, 0: promised memory
  backing::Buffer buffer;
};

// A granted solicitation, or the unsolicited data after a command (RFC 7143 4.2.5.2).
struct DataSequence {
  bool open = false;
  uint32_t transfer_tag = 0;  // kReservedTag for unsolicited data
  uint32_t next_offset = 0;   // where the next Data-Out must start
  uint32_t end = 0;           // the sequence ends before this offset
  uint32_t next_data_sn = 0;
};

struct Command : scsi::Task {
  Connection* connection = nullptr;
  uint32_t initiator_task_tag = 0;
  uint32_t cmd_sn = 0;
  uint32_t slot = 0;  // index in the session's table; part of its Target Transfer Tags
  uint8_t lun_field[8] = {};
  bool immediate = false;  // does not count in the window
  bool in_use = false;
  bool responded = false;       // the response is in the transmit queue: window slot is free
  bool running = false;         // the logical unit or the store works on it: cannot be recalled
  bool finishing = false;       // finish() was called
  bool no_answer = false;       // aborted by task management or by the end of the session
  bool waiting = false;         // in the shard's queue for buffers
  bool stalled = false;         // in the connection's list of those that wait for its own queue or memory
  bool parameter_data = false;  // data-out goes to Task::data, not to the media
  bool deferred = false;        // its answer waits for the end of data that is still arriving
  bool failed = false;          // the transport ended it: status and sense are set, wait for the store and respond
  bool in_limit_queue = false;  // the volume's rate limit delays it
  bool waits_for_lane = false;  // in the queue of its unit: too many pieces are in the store
  bool held_whole = false;      // the whole logical unit is held until it ends (an orphaned UNMAP, say)

  UnitLane* lane = nullptr;       // of its logical unit, on this shard
  uint64_t limit_due = 0;         // when the rate limit lets it go on (CLOCK_MONOTONIC, ns); 0: now
  uint32_t limit_generation = 0;  // of the limit that said so

  uint32_t expected_in = 0;  // Expected Data Transfer Length by direction (bytes)
  uint32_t expected_out = 0;
  uint32_t total = 0;  // bytes to move on the wire: min(expected, Task::transfer_length)

  // media_out
  uint32_t received = 0;   // of `total`
  uint32_t solicited = 0;  // next offset that was not asked for yet
  uint32_t next_r2t_sn = 0;
  uint32_t outstanding_r2ts = 0;
  uint32_t next_transfer_id = 0;
  DataSequence unsolicited;
  std::array<DataSequence, 4> sequences;

  // media_in
  uint32_t issued = 0;   // next offset to read
  uint32_t emitted = 0;  // next offset to send
  uint32_t burst = 0;    // bytes of the Data-In sequence under way
  uint32_t next_data_sn = 0;

  uint32_t store_pieces = 0;  // pieces with State::in_store
  uint32_t used_pieces = 0;   // pieces not free
  uint32_t queued_pdus = 0;   // PDUs in the transmit queue that refer to this command
  Piece first;                // the only piece of most commands
  std::unique_ptr<std::array<Piece, limits::kPieces - 1>> more;

  Piece* piece(size_t i) { return i == 0 ? &first : &(*more)[i - 1]; }
  size_t piece_slots() const { return more ? limits::kPieces : 1; }
  Piece* free_piece();               // nullptr when all are used
  Piece* piece_at(uint32_t offset);  // the used piece that covers the offset
  void reset_command();
};

}  // namespace zvolt::iscsi
