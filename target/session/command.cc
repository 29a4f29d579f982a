// See command.h.
#include "target/session/command.h"

namespace zvolt::iscsi {

Piece* Command::free_piece() {
  if (first.state == Piece::State::free) return &first;
  if (!more) more = std::make_unique<std::array<Piece, limits::kPieces - 1>>();
  for (Piece& p : *more)
    if (p.state == Piece::State::free) return &p;
  return nullptr;
}

Piece* Command::piece_at(uint32_t offset_on_wire) {
  for (size_t i = 0; i < piece_slots(); ++i) {
    Piece* p = piece(i);
    if (p->state != Piece::State::free && offset_on_wire >= p->offset && offset_on_wire < p->offset + p->length)
      return p;
  }
  return nullptr;
}

void Command::reset_command() {
  reset();
  connection = nullptr;
  immediate = in_use = responded = running = finishing = no_answer = waiting = stalled = parameter_data = failed =
      deferred = held_whole = in_limit_queue = waits_for_lane = false;
  lane = nullptr;
  limit_due = 0;
  expected_in = expected_out = total = 0;
  received = solicited = next_r2t_sn = outstanding_r2ts = 0;  // next_transfer_id goes on: tags stay unique
  unsolicited = {};
  sequences = {};
  issued = emitted = burst = next_data_sn = 0;
  store_pieces = used_pieces = queued_pdus = 0;
}

}  // namespace zvolt::iscsi
