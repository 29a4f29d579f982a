// Connection, PDU handling: what each opcode means in full feature phase (RFC 7143 section 11). begin_pdu() runs when
// the header is complete and chooses where the payload goes; end_pdu() runs when the payload is there. SCSI data is in
// transfer.cc.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "scsi/lun_nexus.h"
#include "target/limits.h"
#include "target/session/connection.h"

namespace zvolt::iscsi {

namespace {

enum class TaskFunction : uint8_t { abort_task = 1, abort_task_set = 2 };
enum class TaskResponse : uint8_t { complete = 0, no_task = 1, no_lun = 2, not_supported = 5, rejected = 255 };

// Byte 1 of a Logout Request without its fixed top bit (11.14.1).
enum class LogoutReason : uint8_t { close_session = 0, close_connection = 1, remove_for_recovery = 2 };

}  // namespace

void Connection::begin_pdu() {
  const Opcode opcode = bhs_.opcode();
  if (bhs_.total_ahs_length != 0 && opcode != Opcode::scsi_command) {
    // A refused PDU has used its CmdSN all the same; Data-Out and SNACK have none.
    const bool numbered = opcode == Opcode::nop_out || opcode == Opcode::text_request ||
                          opcode == Opcode::task_management_request || opcode == Opcode::logout_request;
    if (numbered && !accept_cmd_sn(as<NopOut>(bhs_).cmd_sn.value())) return;
    reject(RejectReason::invalid_pdu_field);
    return;
  }
  switch (opcode) {
    case Opcode::scsi_command:
      begin_scsi_command();
      return;
    case Opcode::data_out:
      begin_data_out();
      return;
    case Opcode::nop_out:
    case Opcode::text_request:
      // Bounded by MaxRecvDataSegmentLength, one at a time.
      owned_.resize(bhs_.data_bytes());
      sink_ = Sink::owned;
      return;
    case Opcode::task_management_request:
    case Opcode::logout_request:
      return;
    default:
      // SNACK belongs to ErrorRecoveryLevel 1; a Login Request ends with the login phase; the rest is unknown.
      reject(opcode == Opcode::snack_request || opcode == Opcode::login_request ? RejectReason::protocol_error
                                                                                : RejectReason::command_not_supported);
      return;
  }
}

void Connection::end_pdu() {
  switch (bhs_.opcode()) {
    case Opcode::scsi_command:
    case Opcode::data_out:
      if (pdu_command_ != nullptr) command_pdu_done();
      return;
    case Opcode::nop_out:
      if (sink_ == Sink::owned) end_nop_out();
      return;
    case Opcode::text_request:
      if (sink_ == Sink::owned) end_text_request();
      return;
    case Opcode::task_management_request:
      if (bhs_.total_ahs_length == 0) task_management();
      return;
    case Opcode::logout_request:
      if (bhs_.total_ahs_length == 0) end_logout();
      return;
    default:
      return;
  }
}

// A PDU of a command (the command itself, or data for it) has been taken in whole.
void Connection::command_pdu_done() {
  Command& c = *pdu_command_;
  pdu_command_ = nullptr;
  const bool takes = out_command_ == &c;
  if (takes || out_sequence_ != nullptr) data_out_segment_done(c, takes);
  if (pdu_command_ != nullptr || !c.in_use || !c.deferred || receiving(c)) return;
  c.deferred = false;
  if (c.phase == scsi::Phase::media_in) {
    emit_reads(c);
  } else {
    respond(c);
  }
}

// RFC 7143 4.2.2.1. Outside the window: ignored, silently. A gap inside it can't be on a single connection unless PDUs
// were lost, which at ErrorRecoveryLevel 0 ends the session.
bool Connection::accept_cmd_sn(uint32_t cmd_sn) {
  if (bhs_.immediate()) return true;
  Session& s = *session_;
  if (cmd_sn == s.exp_cmd_sn && sn_less_equal(cmd_sn, s.max_cmd_sn())) {
    ++s.exp_cmd_sn;
    return true;
  }
  if (sn_less(cmd_sn, s.exp_cmd_sn) || !sn_less_equal(cmd_sn, s.max_cmd_sn())) {
    spdlog::debug("{}: CmdSN {} outside [{}, {}] ignored", peer_, cmd_sn, s.exp_cmd_sn, s.max_cmd_sn());
    return false;
  }
  protocol_error("CmdSN skips a number");
  return false;
}

void Connection::begin_scsi_command() {
  const auto& pdu = as<ScsiCommand>(bhs_);
  Session& s = *session_;
  if (!accept_cmd_sn(pdu.cmd_sn.value())) return;
  if (s.parameters.discovery || bhs_.total_ahs_length != 0) {
    // No LUN in a discovery session; extended CDBs and bidirectional lengths are not offered by any LUN.
    reject(s.parameters.discovery ? RejectReason::protocol_error : RejectReason::invalid_pdu_field);
    return;
  }
  if (state_ == State::draining) return;
  if (bhs_.immediate() && s.immediate >= limits::kImmediateCommands) {
    reject(RejectReason::immediate_command_reject);
    return;
  }
  Command* taken = s.take_command();
  if (taken == nullptr) {
    protocol_error("more commands than the session may hold");
    return;
  }
  Command& c = *taken;
  c.connection = this;
  c.initiator_task_tag = pdu.initiator_task_tag.value();
  c.cmd_sn = pdu.cmd_sn.value();
  c.immediate = bhs_.immediate();
  ++(c.immediate ? s.immediate : s.in_flight);
  std::memcpy(c.lun_field, pdu.lun, sizeof c.lun_field);
  c.lun = load_lun(pdu.lun);
  std::memcpy(c.cdb.data(), pdu.cdb, c.cdb.size());
  c.attribute = static_cast<scsi::TaskAttribute>(pdu.flags & ScsiCommand::kAttributeMask);
  const uint32_t length = pdu.expected_data_transfer_length.value();
  if ((pdu.flags & ScsiCommand::kWrite) != 0) {
    c.expected_out = length;
  } else if ((pdu.flags & ScsiCommand::kRead) != 0) {
    c.expected_in = length;
  }
  c.announced_data_out = c.expected_out;
  c.engine = &shard_.engine();
  c.advanced = &Connection::on_advanced;
  c.stamps.received = shard_.now();

  const uint32_t immediate_bytes = bhs_.data_bytes();
  const bool final = bhs_.final();
  const uint32_t unsolicited_limit = std::min(s.parameters.first_burst_length, length);
  const bool unexpected = (immediate_bytes > 0 && !s.parameters.immediate_data) ||
                          (!final && s.parameters.initial_r2t) || immediate_bytes > unsolicited_limit;
  pdu_command_ = &c;
  c.unsolicited = {!final, kReservedTag, immediate_bytes, unsolicited_limit, 0};
  if (unexpected) {
    data_out_failed(c, scsi::sense::kUnexpectedUnsolicitedData);  // RFC 7143 11.4.7.2
    return;
  }
  if (c.expected_out > 0 && (immediate_bytes > 0 || !final)) {
    out_command_ = &c;
    sink_ = Sink::command;
    out_offset_ = 0;
  }
  s.nexus.start(c);
  if (c.nexus != nullptr) {
    c.lane = static_cast<UnitLane*>(c.nexus->transport);
    c.lane->stats->count_start();
  }
  after_start(c, immediate_bytes, final);
}

void Connection::begin_data_out() {
  Command* command = nullptr;
  const auto& pdu = as<DataOut>(bhs_);
  DataSequence* sequence = find_sequence(pdu, &command);
  if (sequence == nullptr) {
    // A task that has ended meanwhile (aborted, refused): its data is consumed and forgotten.
    spdlog::debug("{}: Data-Out for no task, ITT {:#x} TTT {:#x}", peer_, pdu.initiator_task_tag.value(),
                  pdu.target_transfer_tag.value());
    return;
  }
  pdu_command_ = command;
  out_sequence_ = sequence;
  last_data_out_ns_ = shard_.now();
  if (!takes_data(*command)) {  // refused meanwhile: only the end of the sequence matters
    sequence->next_offset += std::min(bhs_.data_bytes(), sequence->end - sequence->next_offset);
    return;
  }
  out_command_ = command;
  sink_ = Sink::command;
  const uint32_t offset = pdu.buffer_offset.value();
  const uint32_t length = bhs_.data_bytes();
  const bool in_order = offset == sequence->next_offset && pdu.data_sn.value() == sequence->next_data_sn;
  if (!in_order || length > sequence->end - std::min(sequence->end, offset)) {
    data_out_failed(*command, scsi::sense::kIncorrectAmountOfData);
    return;
  }
  out_offset_ = offset;
  sequence->next_offset = offset + length;
  ++sequence->next_data_sn;
}

void Connection::end_nop_out() {
  const auto& pdu = as<NopOut>(bhs_);
  if (!accept_cmd_sn(pdu.cmd_sn.value())) return;
  // No ITT: an answer to a NOP-In of ours, or nothing to do (11.18.1).
  if (pdu.initiator_task_tag.value() == kReservedTag) return;
  const size_t length = std::min<size_t>(owned_.size(), session_->parameters.initiator_max_recv_data_segment_length);
  TransmitPdu& answer = queue_pdu(Opcode::nop_in);
  auto& nop = as<NopIn>(answer.bhs);
  nop.flags = kFinal;
  nop.initiator_task_tag = pdu.initiator_task_tag;
  nop.target_transfer_tag = kReservedTag;
  std::memcpy(nop.lun, pdu.lun, sizeof nop.lun);
  owned_.resize(length);
  attach(answer, std::move(owned_));
  owned_ = {};
  fill_status_sn(answer);
}

void Connection::end_text_request() {
  const auto& pdu = as<TextRequest>(bhs_);
  if (!accept_cmd_sn(pdu.cmd_sn.value())) return;
  TextSession::Answer result = session_->text.receive(pdu, owned_);
  if (result.kind == TextSession::Answer::Kind::reject) {
    reject(result.reason);
    return;
  }
  TransmitPdu& answer = queue_pdu(Opcode::text_response);
  auto& text = as<TextResponse>(answer.bhs);
  text.flags = static_cast<uint8_t>((result.final ? kFinal : 0) | (result.more ? TextRequest::kContinue : 0));
  text.initiator_task_tag = pdu.initiator_task_tag;
  text.target_transfer_tag = result.target_transfer_tag;
  std::memcpy(text.lun, pdu.lun, sizeof text.lun);
  attach(answer, std::move(result.text));
  owned_ = {};
  fill_status_sn(answer);
}

void Connection::end_logout() {
  const auto& pdu = as<LogoutRequest>(bhs_);
  if (!accept_cmd_sn(pdu.cmd_sn.value())) return;
  const uint8_t reason = pdu.reason & 0x7f;
  const bool discovery = session_->parameters.discovery;
  if (reason > static_cast<uint8_t>(LogoutReason::remove_for_recovery) || (discovery && reason != 0)) {
    reject(RejectReason::invalid_pdu_field);
    return;
  }
  uint8_t response = 0;
  if (reason == static_cast<uint8_t>(LogoutReason::close_connection) && pdu.cid.value() != session_->parameters.cid)
    response = 1;                                                                       // CID not found
  if (reason == static_cast<uint8_t>(LogoutReason::remove_for_recovery)) response = 2;  // not supported at this level
  TransmitPdu& answer = queue_pdu(Opcode::logout_response);
  auto& logout = as<LogoutResponse>(answer.bhs);
  logout.flags = kFinal;
  logout.response = response;
  logout.initiator_task_tag = pdu.initiator_task_tag;
  logout.time2wait = session_->parameters.default_time2wait;
  logout.time2retain = session_->parameters.default_time2retain;
  fill_status_sn(answer);
  if (response != 0) return;
  // The session ends: nothing more is answered after this PDU, and the socket closes behind it.
  for (size_t i = 0; i < session_->table().size(); ++i)
    if (Command* c = session_->table()[i]; c != nullptr && !c->responded) {
      hold(*c);  // the next session may be quicker than the end of this one
      abort_command(*c);
    }
  state_ = State::closing;
}

void Connection::task_management() {
  const auto& pdu = as<TaskManagementRequest>(bhs_);
  if (!accept_cmd_sn(pdu.cmd_sn.value())) return;
  if (pending_tasks_.size() >= limits::kPendingTaskFunctions) {
    reject(RejectReason::immediate_command_reject);
    return;
  }
  const uint8_t function = pdu.function & 0x7f;
  const uint64_t lun = load_lun(pdu.lun);
  TaskResponse response = TaskResponse::not_supported;
  if (function == static_cast<uint8_t>(TaskFunction::abort_task)) {
    Command* c = find_by_tag(pdu.referenced_task_tag.value());
    response = c == nullptr ? TaskResponse::no_task : TaskResponse::complete;
    if (c != nullptr) abort_command(*c);
  } else if (function == static_cast<uint8_t>(TaskFunction::abort_task_set)) {
    response = session_->nexus.unit(lun) == nullptr ? TaskResponse::no_lun : TaskResponse::complete;
    for (size_t i = 0; i < session_->table().size(); ++i)
      if (Command* c = session_->table()[i]; c != nullptr && !c->responded && c->lun == lun) abort_command(*c);
  }
  pending_tasks_.push_back({pdu.initiator_task_tag.value(), static_cast<uint8_t>(response)});
  answer_task_management();
}

// A function is answered when the tasks it ended are really gone: their writes may still be in the store.
void Connection::answer_task_management() {
  if (pending_tasks_.empty() || (state_ != State::full_feature && state_ != State::draining)) return;
  for (const Command* c : session_->table())
    if (c != nullptr && c->no_answer) return;
  for (const PendingTask& task : pending_tasks_) {
    TransmitPdu& answer = queue_pdu(Opcode::task_management_response);
    auto& tm = as<TaskManagementResponse>(answer.bhs);
    tm.flags = kFinal;
    tm.response = task.response;
    tm.initiator_task_tag = task.initiator_task_tag;
    fill_status_sn(answer);
  }
  pending_tasks_.clear();
}

Command* Connection::find_by_tag(uint32_t initiator_task_tag) {
  for (Command* c : session_->table())
    if (c != nullptr && !c->responded && c->initiator_task_tag == initiator_task_tag) return c;
  return nullptr;
}

// Takes a command out of the session: it will not be answered. What the store has of it runs to its end first.
void Connection::abort_command(Command& c) {
  if (c.no_answer || c.responded) return;
  c.no_answer = true;
  c.aborted = true;
  stop_taking(c);
  c.unsolicited.open = false;
  for (DataSequence& sequence : c.sequences) sequence.open = false;
  // A task that waits behind an orphaned write leaves the queue at once; one that works ends after its step in flight.
  if (c.running && session_->nexus.abort(c)) c.running = false;
  if (c.waiting) shard_.forget_waiter(c);
  leave_stalled(c);
  leave_waits(c);
  orphan_step(c);
}

// RFC 7143 11.17: the answer carries the header of what was refused.
void Connection::reject(RejectReason reason) {
  spdlog::info("{}: opcode {:#04x} rejected, reason {:#04x}", peer_, bhs_.opcode_byte, static_cast<unsigned>(reason));
  TransmitPdu& answer = queue_pdu(Opcode::reject);
  auto& pdu = as<Reject>(answer.bhs);
  pdu.flags = kFinal;
  pdu.reason = static_cast<uint8_t>(reason);
  pdu.tag = kReservedTag;
  const auto* header = reinterpret_cast<const uint8_t*>(&bhs_);
  attach(answer, std::vector<uint8_t>(header, header + kBhsLength));
  fill_status_sn(answer);
}

// A violation that leaves the stream or the session without a meaning: said once, then the connection ends (ERL 0).
void Connection::protocol_error(const char* what) {
  spdlog::warn("{}: protocol error: {} (opcode {:#04x}); connection ends", peer_, what, bhs_.opcode_byte);
  reject(RejectReason::protocol_error);
  state_ = State::closing;
}

}  // namespace zvolt::iscsi
