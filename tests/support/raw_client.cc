// See raw_client.h.
#include "tests/support/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace zvolt::test {

using iscsi::BasicHeaderSegment;
using iscsi::Opcode;

namespace {

// All requests of a login phase carry one tag (RFC 7143 11.12).
constexpr uint32_t kLoginTag = 0x80;

Bytes text_bytes(const Keys& keys) {
  Bytes text;
  for (const auto& [key, value] : keys) {
    text.insert(text.end(), key.begin(), key.end());
    text.push_back('=');
    text.insert(text.end(), value.begin(), value.end());
    text.push_back(0);
  }
  return text;
}

void parse_keys(std::span<const uint8_t> text, std::map<std::string, std::string>& keys) {
  size_t start = 0;
  while (start < text.size()) {
    size_t end = start;
    while (end < text.size() && text[end] != 0) ++end;
    const std::string pair(text.begin() + static_cast<ptrdiff_t>(start), text.begin() + static_cast<ptrdiff_t>(end));
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) keys[pair.substr(0, equals)] = pair.substr(equals + 1);
    start = end + 1;
  }
}

void set_lun(uint8_t (&field)[8], uint16_t lun) {
  // Flat space addressing above 255, peripheral device addressing below (SAM-5 4.7.7).
  put16(field, lun < 256 ? lun : static_cast<uint16_t>(0x4000 | lun));
}

bool bears_status(const Pdu& pdu) {
  switch (pdu.opcode()) {
    case Opcode::data_in:
      return (pdu.bhs.flags & iscsi::DataIn::kStatus) != 0;
    case Opcode::nop_in:  // one that asks for an answer shows the next StatSN without taking it
      return pdu.bhs.initiator_task_tag.value() != iscsi::kReservedTag;
    case Opcode::r2t:
      return false;
    default:
      return true;
  }
}

}  // namespace

Keys default_keys(const Keys& changes) {
  Keys keys = {{"HeaderDigest", "None"},
               {"DataDigest", "None"},
               {"DefaultTime2Wait", "2"},
               {"DefaultTime2Retain", "0"},
               {"IFMarker", "No"},
               {"OFMarker", "No"},
               {"ErrorRecoveryLevel", "0"},
               {"InitialR2T", "No"},
               {"ImmediateData", "Yes"},
               {"MaxBurstLength", "16776192"},
               {"FirstBurstLength", "262144"},
               {"MaxOutstandingR2T", "1"},
               {"MaxConnections", "1"},
               {"DataPDUInOrder", "Yes"},
               {"DataSequenceInOrder", "Yes"},
               {"MaxRecvDataSegmentLength", "262144"}};
  for (const auto& change : changes) {
    const auto same = [&](const auto& pair) { return pair.first == change.first; };
    const auto at = std::find_if(keys.begin(), keys.end(), same);
    if (at != keys.end())
      at->second = change.second;
    else
      keys.push_back(change);
  }
  return keys;
}

std::string Outcome::text() const {
  if (arrived != Arrived::pdu) return arrived == Arrived::closed ? "connection closed" : "no answer";
  if (rejected) return "Reject, reason " + std::to_string(reject.reason);
  return "response " + std::to_string(response) + " status " + std::to_string(status) + " sense " + sense() +
         " residual " + std::to_string(residual) + " flags " + std::to_string(residual_flags) + " data " +
         std::to_string(data.size());
}

RawClient::~RawClient() {
  close();
}

RawClient::RawClient(RawClient&& other) noexcept {
  *this = std::move(other);
}

RawClient& RawClient::operator=(RawClient&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  cmd_sn_ = other.cmd_sn_;
  exp_stat_sn_ = other.exp_stat_sn_;
  stat_sn_known_ = other.stat_sn_known_;
  stat_sn_in_order_ = other.stat_sn_in_order_;
  exp_cmd_sn_ = other.exp_cmd_sn_;
  max_cmd_sn_ = other.max_cmd_sn_;
  task_tag_ = other.task_tag_;
  target_max_recv_ = other.target_max_recv_;
  return *this;
}

bool RawClient::connect(uint16_t port) {
  *this = RawClient();
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval limit{20, 0};  // a target that stops reading fails the send, not the test's patience
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void RawClient::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

bool RawClient::send_bytes(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::send_bytes(std::string_view bytes) {
  return send_bytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

bool RawClient::send(BasicHeaderSegment bhs, std::span<const uint8_t> data, std::span<const uint8_t> ahs,
                     bool keep_lengths) {
  if (!keep_lengths) {
    bhs.total_ahs_length = static_cast<uint8_t>(ahs.size() / 4);
    bhs.data_segment_length = static_cast<uint32_t>(data.size());
  }
  Bytes bytes(sizeof bhs + ahs.size() + (data.size() + 3) / 4 * 4);
  std::memcpy(bytes.data(), &bhs, sizeof bhs);
  std::copy(ahs.begin(), ahs.end(), bytes.begin() + sizeof bhs);
  std::copy(data.begin(), data.end(), bytes.begin() + static_cast<ptrdiff_t>(sizeof bhs + ahs.size()));
  return send_bytes(bytes);
}

Arrived RawClient::read_exactly(uint8_t* to, size_t bytes, std::chrono::steady_clock::time_point deadline) {
  while (bytes > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{fd_, POLLIN, 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Arrived::nothing;
    const ssize_t n = ::recv(fd_, to, bytes, 0);
    if (n <= 0) return Arrived::closed;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return Arrived::pdu;
}

Arrived RawClient::receive(Pdu& pdu, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  Arrived arrived = read_exactly(reinterpret_cast<uint8_t*>(&pdu.bhs), sizeof pdu.bhs, deadline);
  if (arrived != Arrived::pdu) return arrived;
  pdu.ahs.resize(pdu.bhs.ahs_bytes());
  pdu.data.resize(pdu.bhs.padded_data_bytes());
  arrived = read_exactly(pdu.ahs.data(), pdu.ahs.size(), deadline);
  if (arrived == Arrived::pdu) arrived = read_exactly(pdu.data.data(), pdu.data.size(), deadline);
  if (arrived != Arrived::pdu) return arrived;
  pdu.data.resize(pdu.bhs.data_bytes());
  note_numbers(pdu);
  return Arrived::pdu;
}

// StatSN, ExpCmdSN and MaxCmdSN stand at the same offsets in every PDU of the target.
void RawClient::note_numbers(const Pdu& pdu) {
  const auto& numbers = pdu.as<iscsi::ScsiResponse>();
  exp_cmd_sn_ = numbers.exp_cmd_sn.value();
  max_cmd_sn_ = numbers.max_cmd_sn.value();
  if (!bears_status(pdu)) return;
  const uint32_t stat_sn = numbers.stat_sn.value();
  if (stat_sn_known_ && stat_sn != exp_stat_sn_) stat_sn_in_order_ = false;
  stat_sn_known_ = true;
  exp_stat_sn_ = stat_sn + 1;
}

bool RawClient::closed_by_peer(std::chrono::milliseconds limit) {
  uint8_t byte = 0;
  return read_exactly(&byte, 1, std::chrono::steady_clock::now() + limit) == Arrived::closed;
}

LoginResult RawClient::login_step(const LoginOptions& options, uint8_t csg, uint8_t nsg, bool transit,
                                  const Keys& keys) {
  auto request = make<iscsi::LoginRequest>(Opcode::login_request);
  request.opcode_byte |= iscsi::kImmediate;
  request.flags = static_cast<uint8_t>((transit ? iscsi::LoginRequest::kTransit : 0) | csg << 2 | nsg);
  for (int i = 0; i < 6; ++i) request.isid[i] = static_cast<uint8_t>(options.isid >> (40 - 8 * i));
  request.tsih = options.tsih;
  request.initiator_task_tag = kLoginTag;
  request.cid = options.cid;
  request.cmd_sn = cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  LoginResult result;
  if (!send(request, text_bytes(keys))) {
    result.arrived = Arrived::closed;
    return result;
  }
  Pdu answer;
  result.arrived = receive(answer);
  if (result.arrived != Arrived::pdu || answer.opcode() != Opcode::login_response) return result;
  const auto& response = answer.as<iscsi::LoginResponse>();
  result.status = static_cast<uint16_t>(response.status_class << 8 | response.status_detail);
  result.tsih = response.tsih.value();
  parse_keys(answer.data, result.keys);
  return result;
}

LoginResult RawClient::login(const LoginOptions& options) {
  Keys names = {{"InitiatorName", options.initiator}};
  if (options.target.empty()) {
    names.emplace_back("SessionType", "Discovery");
  } else {
    names.emplace_back("TargetName", options.target);
    names.emplace_back("SessionType", "Normal");
  }
  Keys operational = default_keys(options.keys);
  if (options.csg == 0) {
    names.emplace_back("AuthMethod", "None");
    const LoginResult security = login_step(options, 0, 1, true, names);
    if (!security.ok()) return security;
  } else {
    operational.insert(operational.begin(), names.begin(), names.end());
  }
  LoginResult result = login_step(options, 1, 3, true, operational);
  if (!result.ok()) return result;
  const auto declared = result.keys.find("MaxRecvDataSegmentLength");
  if (declared != result.keys.end()) target_max_recv_ = static_cast<uint32_t>(std::stoul(declared->second));
  return result;
}

uint32_t RawClient::send_command(const Cdb& cdb, const Command& command) {
  auto request = make<iscsi::ScsiCommand>(Opcode::scsi_command, command.flags);
  const uint32_t tag = next_task_tag();
  if (command.immediate) request.opcode_byte |= iscsi::kImmediate;
  set_lun(request.lun, command.lun);
  request.initiator_task_tag = tag;
  request.expected_data_transfer_length = command.edtl;
  request.cmd_sn = command.cmd_sn.value_or(cmd_sn_);
  if (!command.immediate && !command.cmd_sn) ++cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  std::copy_n(cdb.begin(), std::min<size_t>(cdb.size(), sizeof request.cdb), request.cdb);
  send(request, command.immediate_data);
  return tag;
}

bool RawClient::send_data_out(uint32_t task_tag, uint32_t transfer_tag, uint32_t offset, std::span<const uint8_t> data,
                              uint32_t data_sn, bool final, uint16_t lun) {
  auto pdu = make<iscsi::DataOut>(Opcode::data_out, final ? iscsi::kFinal : 0);
  set_lun(pdu.lun, lun);
  pdu.initiator_task_tag = task_tag;
  pdu.target_transfer_tag = transfer_tag;
  pdu.exp_stat_sn = exp_stat_sn_;
  pdu.data_sn = data_sn;
  pdu.buffer_offset = offset;
  return send(pdu, data);
}

bool RawClient::answer_r2t(const iscsi::R2T& r2t, std::span<const uint8_t> data, const Cutter& cutter) {
  const uint32_t length = r2t.desired_data_transfer_length.value();
  std::vector<uint32_t> cuts;
  if (cutter) {
    cuts = cutter(length);
  } else {
    for (uint32_t left = length; left > 0; left -= cuts.back()) cuts.push_back(std::min(left, target_max_recv_));
  }
  uint32_t offset = r2t.buffer_offset.value();
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (offset + cuts[i] > data.size()) return false;  // asked for more than the command announced
    if (!send_data_out(r2t.initiator_task_tag.value(), r2t.target_transfer_tag.value(), offset,
                       data.subspan(offset, cuts[i]), static_cast<uint32_t>(i), i + 1 == cuts.size()))
      return false;
    offset += cuts[i];
  }
  return true;
}

namespace {

void take_data_in(const Pdu& pdu, Outcome& outcome) {
  const auto& header = pdu.as<iscsi::DataIn>();
  outcome.data_ins.push_back(header);
  const size_t offset = header.buffer_offset.value();
  if (outcome.data.size() < offset + pdu.data.size()) outcome.data.resize(offset + pdu.data.size());
  std::copy(pdu.data.begin(), pdu.data.end(), outcome.data.begin() + static_cast<ptrdiff_t>(offset));
  if ((header.flags & iscsi::DataIn::kStatus) == 0) return;
  outcome.status = header.status;
  outcome.residual_flags = header.flags & (iscsi::DataIn::kOverflow | iscsi::DataIn::kUnderflow);
  outcome.residual = header.residual_count.value();
}

void take_response(const Pdu& pdu, Outcome& outcome) {
  const auto& header = pdu.as<iscsi::ScsiResponse>();
  outcome.response = header.response;
  outcome.status = header.status;
  outcome.residual_flags = header.flags & (iscsi::ScsiResponse::kOverflow | iscsi::ScsiResponse::kUnderflow);
  outcome.residual = header.residual_count.value();
  outcome.exp_data_sn = header.exp_data_sn.value();
  if (pdu.data.size() >= 2) {
    const size_t length = std::min<size_t>(get16(pdu.data.data()), pdu.data.size() - 2);
    outcome.sense_data.assign(pdu.data.begin() + 2, pdu.data.begin() + 2 + static_cast<ptrdiff_t>(length));
  }
}

void take_numbers(const Pdu& pdu, Outcome& outcome) {
  const auto& numbers = pdu.as<iscsi::ScsiResponse>();
  outcome.stat_sn = numbers.stat_sn.value();
  outcome.exp_cmd_sn = numbers.exp_cmd_sn.value();
  outcome.max_cmd_sn = numbers.max_cmd_sn.value();
}

}  // namespace

Outcome RawClient::finish(uint32_t task_tag, std::span<const uint8_t> data, const Cutter& cutter) {
  Outcome outcome;
  for (;;) {
    Pdu pdu;
    outcome.arrived = receive(pdu);
    if (outcome.arrived != Arrived::pdu) return outcome;
    take_numbers(pdu, outcome);
    if (pdu.opcode() == Opcode::reject) {
      outcome.rejected = true;
      outcome.reject = pdu.as<iscsi::Reject>();
      return outcome;
    }
    if (pdu.bhs.initiator_task_tag.value() != task_tag) continue;  // of another task of the test
    switch (pdu.opcode()) {
      case Opcode::data_in:
        take_data_in(pdu, outcome);
        if ((pdu.bhs.flags & iscsi::DataIn::kStatus) != 0) return outcome;
        break;
      case Opcode::r2t:
        outcome.r2ts.push_back(pdu.as<iscsi::R2T>());
        if (!answer_r2t(outcome.r2ts.back(), data, cutter)) return outcome;
        break;
      case Opcode::nop_in:
        outcome.status = 0;
        outcome.data = pdu.data;
        return outcome;
      default:
        take_response(pdu, outcome);
        return outcome;
    }
  }
}

Outcome RawClient::command_in(const Cdb& cdb, uint32_t edtl, uint16_t lun) {
  const uint8_t direction = edtl > 0 ? iscsi::ScsiCommand::kRead : 0;
  return finish(send_command(
      cdb, {.flags = static_cast<uint8_t>(iscsi::kFinal | direction), .edtl = edtl, .immediate_data = {}, .lun = lun}));
}

Outcome RawClient::command_out(const Cdb& cdb, std::span<const uint8_t> data, size_t immediate_bytes, uint16_t lun) {
  const Bytes immediate(data.begin(), data.begin() + static_cast<ptrdiff_t>(immediate_bytes));
  return finish(send_command(cdb, {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                                   .edtl = static_cast<uint32_t>(data.size()),
                                   .immediate_data = immediate,
                                   .lun = lun}),
                data);
}

Outcome RawClient::ping(std::span<const uint8_t> data) {
  auto request = make<iscsi::NopOut>(Opcode::nop_out);
  request.opcode_byte |= iscsi::kImmediate;
  const uint32_t tag = next_task_tag();
  request.initiator_task_tag = tag;
  request.target_transfer_tag = iscsi::kReservedTag;
  request.cmd_sn = cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  send(request, data);
  return finish(tag);
}

RawClient::TextAnswer RawClient::text(std::string_view request_text) {
  TextAnswer answer;
  Bytes body(request_text.begin(), request_text.end());
  const uint32_t tag = next_task_tag();
  uint32_t transfer_tag = iscsi::kReservedTag;
  for (;;) {
    auto request = make<iscsi::TextRequest>(Opcode::text_request);
    request.initiator_task_tag = tag;
    request.target_transfer_tag = transfer_tag;
    request.cmd_sn = cmd_sn_++;
    request.exp_stat_sn = exp_stat_sn_;
    send(request, body);
    Pdu pdu;
    answer.arrived = receive(pdu);
    if (answer.arrived != Arrived::pdu) return answer;
    answer.rejected = pdu.opcode() == Opcode::reject;
    if (pdu.opcode() != Opcode::text_response) return answer;
    const auto& response = pdu.as<iscsi::TextResponse>();
    answer.text.append(pdu.data.begin(), pdu.data.end());
    answer.segments.push_back(pdu.data.size());
    const bool more = (response.flags & iscsi::TextRequest::kContinue) != 0;
    transfer_tag = response.target_transfer_tag.value();
    const bool final = (response.flags & iscsi::kFinal) != 0;
    if (final == more || (transfer_tag == iscsi::kReservedTag) == more) answer.tags_right = false;
    if (!more) return answer;
    body.clear();
  }
}

RawClient::LogoutAnswer RawClient::logout_request(uint8_t reason, uint16_t cid, bool immediate) {
  auto request = make<iscsi::LogoutRequest>(Opcode::logout_request, static_cast<uint8_t>(0x80 | reason));
  if (immediate) request.opcode_byte |= iscsi::kImmediate;
  request.initiator_task_tag = next_task_tag();
  request.cid = cid;
  request.cmd_sn = immediate ? cmd_sn_ : cmd_sn_++;
  request.exp_stat_sn = exp_stat_sn_;
  send(request);
  LogoutAnswer answer;
  for (;;) {
    Pdu pdu;
    answer.arrived = receive(pdu);
    if (answer.arrived != Arrived::pdu) return answer;
    answer.rejected = pdu.opcode() == Opcode::reject;
    if (pdu.opcode() == Opcode::logout_response) answer.response = pdu.as<iscsi::LogoutResponse>().response;
    if (answer.rejected || pdu.opcode() == Opcode::logout_response) return answer;
  }
}

bool RawClient::logout() {
  const LogoutAnswer answer = logout_request(0, 1);
  return answer.arrived == Arrived::pdu && answer.response == 0 && closed_by_peer();
}

}  // namespace zvolt::test
