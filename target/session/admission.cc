// Connection, waiting for the unit: a command with media transfer is delayed by its volume's rate limit (reads before
// the store is asked, writes before R2T or, where the data came unasked, before the answer), and no shard has more than
// limits::kUnitInFlight pieces in one unit's store, so that a store that stalls takes neither all memory nor all of the
// kernel's worker threads.
#include <algorithm>

#include "scsi/logical_unit.h"
#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

// Once per command, when its media phase begins.
void Connection::book_limit(Command& c) {
  scsi::RateLimiter& limiter = c.lu->limiter();
  if (!limiter.active() || state_ != State::full_feature) [[likely]] {
    return;
  }
  c.limit_generation = limiter.generation();
  c.limit_due = limiter.book(c.total, shard_.now());
}

// True: not yet; resume() comes when it is time.
bool Connection::waits_for_limit(Command& c) {
  if (c.limit_due == 0) [[likely]] {
    return false;
  }
  if (c.in_limit_queue) return true;
  if (c.limit_due <= shard_.now()) {
    c.limit_due = 0;
    return false;
  }
  c.stamps.limit_from = shard_.now();
  shard_.limit_queue().add(c);
  return true;
}

void Connection::wait_for_lane(Command& c) {
  if (c.waits_for_lane) return;
  c.waits_for_lane = true;
  c.lane->waiting.push_back(&c);
}

// A piece has left the store: those who wait have their turn before the command that it belonged to has another.
void Connection::serve_lane(UnitLane& lane) {
  while (!lane.waiting.empty() && !lane.full()) {
    Command& c = *lane.waiting.front();
    lane.waiting.pop_front();
    c.waits_for_lane = false;
    c.connection->resume(c);
  }
}

// The command waits no more, for neither of them.
void Connection::leave_waits(Command& c) {
  if (c.in_limit_queue) shard_.limit_queue().forget(c);
  c.limit_due = 0;
  if (!c.waits_for_lane) return;
  c.waits_for_lane = false;
  std::erase(c.lane->waiting, &c);
}

// Whatever it waited for is there, perhaps: memory, the transmit queue, its turn in the unit.
void Connection::resume(Command& c) {
  if (c.no_answer || c.responded) return;
  if (c.phase == scsi::Phase::media_in) {
    issue_reads(c);
    return;
  }
  // Pieces that are complete and could not go to the store.
  for (size_t i = 0; i < c.piece_slots() && c.phase == scsi::Phase::media_out; ++i) {
    if (c.running || c.failed || c.finishing || c.error != 0 || c.lane->full()) break;
    Piece& p = *c.piece(i);
    if (p.state == Piece::State::ready) submit_piece(c, p);
  }
  check_out_complete(c);
}

}  // namespace zvolt::iscsi
