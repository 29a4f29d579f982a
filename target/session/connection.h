// Connection: one TCP connection in full feature phase (RFC 7143 sections 4 and 11), on its session's shard. The
// receive side is a state machine over bytes (receive.cc), PDUs are handled in dispatch.cc, SCSI data moves in
// transfer.cc, and transmit.cc gathers answers. A connection's object outlives its socket while the store still works
// on its commands.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scsi/sense.h"
#include "target/asio.h"
#include "target/login/login.h"
#include "target/proto/pdu.h"
#include "target/session/session.h"

namespace zvolt::iscsi {

class SessionRegistry;
class TargetTable;

// A PDU that waits for the socket. `data` belongs to a piece, a command, or to `owned`.
struct TransmitPdu {
  BasicHeaderSegment bhs{};
  const uint8_t* data = nullptr;
  uint32_t length = 0;         // data bytes, padding not counted
  Command* command = nullptr;  // its queued_pdus counts this one
  Piece* piece = nullptr;      // released when this PDU is sent
  bool last = false;           // the command's response: it ends with this PDU
  std::vector<uint8_t> owned;
  uint32_t wire_length() const { return kBhsLength + ((length + 3u) & ~3u); }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(TcpSocket socket, std::unique_ptr<Session> session, SessionRegistry& registry, std::string peer,
             uint32_t stat_sn);
  ~Connection();

  // Sends the final Login Response and starts the full feature phase.
  void begin(LoginStep response);
  // Ends the connection and its session now; commands in the store run on as orphans. Idempotent.
  void terminate(const std::string& why);
  // No new commands; closes when those in flight are answered.
  void drain();

  // A new configuration: takes over the session's new LUN map, or asks a session to log out that has no business here
  // any more.
  enum class Followed : uint8_t { unchanged, changed, leaving };
  Followed follow(const TargetTable& table, std::chrono::seconds logout_time);

  // Shard's calls.
  void transmit();
  void resume(Command& command);  // memory, or its turn, may be there now
  void check_progress();          // ends a connection whose peer has stalled for too long

  Session& session() { return *session_; }
  const std::string& peer() const { return peer_; }
  bool closed() const { return state_ == State::closed; }
  uint32_t unanswered() const { return session_->in_flight + session_->immediate; }
  // The same by what they wait for, while the daemon ends.
  struct Unanswered {
    uint64_t changes = 0;  // writes, flushes and the like in the store
    uint64_t reads = 0;    // and all others in the store
    uint64_t peer = 0;     // for the peer to send its data or to take its answers: nothing of it is acknowledged
    uint64_t hopeful = 0;  // of those, of a peer that has done so lately
  };
  void count_unanswered(Unanswered& sum, uint64_t now) const;

 private:
  enum class State : uint8_t { full_feature, draining, closing, lingering, closed };
  enum class Receive : uint8_t { header, payload, padding };
  enum class Sink : uint8_t { discard, owned, command };

  // receive.cc
  void wait_readable();
  void on_readable();
  bool may_read() const;
  size_t receive_once(size_t budget);
  void consume(const uint8_t* data, size_t size);
  void consume_payload(const uint8_t* data, size_t size);
  void payload_arrived(size_t size);
  uint8_t* direct_target(size_t* size);
  void header_complete();
  void payload_complete();
  size_t read_ahead_size() const;

  // dispatch.cc
  void begin_pdu();
  void end_pdu();
  void begin_scsi_command();
  void begin_data_out();
  void end_nop_out();
  void end_text_request();
  void end_logout();
  void task_management();
  void answer_task_management();
  bool accept_cmd_sn(uint32_t cmd_sn);
  void reject(RejectReason reason);
  void protocol_error(const char* what);
  void abort_command(Command& command);
  Command* find_by_tag(uint32_t initiator_task_tag);

  // transfer.cc
  void after_start(Command& command, uint32_t immediate_bytes, bool final);
  void proceed(Command& command);
  void begin_media_out(Command& command, uint32_t immediate_bytes, bool final);
  void data_out_segment_done(Command& command, bool takes);
  bool takes_data(const Command& command) const;
  void data_out_failed(Command& command, scsi::SenseCode code);
  void stop_taking(Command& command);
  bool receiving(const Command& command) const;
  void command_pdu_done();
  void release_pieces(Command& command);
  void store_ready_pieces(Command& command);
  void take_as_parameters(Command& command);
  DataSequence* find_sequence(const DataOut& pdu, Command** command);
  uint8_t* out_target(Command& command, uint32_t offset, size_t* size);
  void out_arrived(Command& command, uint32_t offset, size_t size);
  void solicit(Command& command);
  bool prepare_burst(Command& command, uint32_t* length);
  void send_r2t(Command& command, uint32_t length);
  void check_out_complete(Command& command);
  void issue_reads(Command& command);
  void emit_reads(Command& command);
  bool submit_piece(Command& command, Piece& piece);
  void piece_finished(Command& command, Piece& piece);
  void release_piece(Command& command, Piece& piece);
  void finish(Command& command);
  static void on_piece_done(scsi::MediaIo& io) noexcept;
  static void on_advanced(scsi::Task& task) noexcept;
  void hold(Command& command);
  void orphan_step(Command& command);
  bool idle(const Command& command) const;

  // admission.cc
  void book_limit(Command& command);
  bool waits_for_limit(Command& command);
  void wait_for_lane(Command& command);
  void serve_lane(UnitLane& lane);
  void leave_waits(Command& command);

  // follow.cc
  void request_logout(std::chrono::seconds time);

  // transmit.cc
  TransmitPdu& queue_pdu(Opcode opcode);
  void attach(TransmitPdu& pdu, std::vector<uint8_t> data);
  void attach(TransmitPdu& pdu, const uint8_t* data, uint32_t length);
  void clear_transmit_queue();
  void end_session(const std::string& why);
  void respond(Command& command);
  void queue_data_in(Command& command, const uint8_t* data, uint32_t length, Piece* piece, bool last);
  void command_sent(Command& command);
  void release(Command& command);
  void leave_stalled(Command& command);
  void stall(Command& command);
  bool take_buffer(Command& command, Piece& piece, uint32_t size);
  struct Sent {
    Command* command;
    Piece* piece;
    bool last;
  };
  void pdu_sent(const Sent& done);
  void mark_responded(Command& command);
  bool send_some();
  void advance_queue(size_t sent);
  void fill_status_sn(TransmitPdu& pdu);
  void wake_transmit();
  void wait_writable();
  void linger();
  void close_socket();
  uint32_t residual(const Command& command, uint8_t* flags) const;

  TcpSocket socket_;
  std::unique_ptr<Session> session_;
  Shard& shard_;
  SessionRegistry& registry_;
  std::string peer_;
  State state_ = State::full_feature;
  uint32_t stat_sn_;
  Timer linger_timer_;  // for the peer to close, or to log out when it was asked to

  // Receive state
  Receive receive_ = Receive::header;
  Sink sink_ = Sink::discard;
  bool waiting_readable_ = false;
  bool large_expected_ = false;
  uint32_t header_have_ = 0;
  uint32_t header_need_ = kBhsLength;
  uint32_t payload_left_ = 0;  // bytes of the data segment
  uint32_t padding_left_ = 0;
  uint32_t out_offset_ = 0;         // Sink::command: buffer offset of the next byte
  Command* out_command_ = nullptr;  // Sink::command: whose data it is
  Command* pdu_command_ = nullptr;  // whose PDU is being received: not answered before its end
  DataSequence* out_sequence_ = nullptr;
  BasicHeaderSegment bhs_{};
  std::array<uint8_t, 255 * 4> ahs_{};
  std::vector<uint8_t> owned_;  // text and NOP data

  struct PendingTask {
    uint32_t initiator_task_tag;
    uint8_t response;
  };
  std::vector<PendingTask> pending_tasks_;  // functions that wait for their tasks to be gone, bounded by the window

  // Transmit state: a ring of PDUs, the first partly sent
  std::vector<TransmitPdu> ring_;
  size_t head_ = 0, queued_ = 0;
  size_t sent_of_head_ = 0;
  size_t queued_bytes_ = 0;
  bool in_transmit_list_ = false;
  bool waiting_writable_ = false;
  std::vector<Command*> stalled_;  // waiting for the transmit queue to drain, or for this session's own memory
  size_t general_bytes_ = 0;       // of the shard's general memory, held by this session
  uint64_t last_sent_ns_ = 0;      // when the peer last took something, or the queue began to fill
  uint64_t last_data_out_ns_ = 0;  // when data that was asked for last came, or was asked for
  uint32_t orphans_ = 0;
  bool ended_ = false;                // the session is over
  bool leaving_ = false;              // it was asked to log out
  std::shared_ptr<Connection> self_;  // while orphans_ > 0 after the end
};

}  // namespace zvolt::iscsi
