// An iSCSI initiator that sends whatever bytes a test wants: the counterpart of well-behaved libiscsi. PDUs of RFC 7143
// over one blocking TCP connection with time limits; login and command helpers keep the sequence numbers, every field
// can be set by hand. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "target/proto/pdu.h"
#include "tests/support/cdb.h"

namespace zvolt::test {

inline constexpr std::chrono::milliseconds kReplyLimit{20000};  // a healthy daemon needs far less, ASan or not
inline constexpr std::chrono::milliseconds kSilenceLimit{300};  // "no answer comes" is believed after this

struct Pdu {
  iscsi::BasicHeaderSegment bhs{};
  Bytes ahs;
  Bytes data;

  iscsi::Opcode opcode() const { return bhs.opcode(); }
  template <typename Layout>
  const Layout& as() const {
    return iscsi::as<Layout>(bhs);
  }
};

// A zeroed header with its opcode, ready to be filled.
template <typename Layout>
Layout make(iscsi::Opcode opcode, uint8_t flags = iscsi::kFinal) {
  Layout layout{};
  auto* bytes = reinterpret_cast<uint8_t*>(&layout);
  bytes[0] = static_cast<uint8_t>(opcode);
  bytes[1] = flags;
  return layout;
}

enum class Arrived { pdu, closed, nothing };

using Keys = std::vector<std::pair<std::string, std::string>>;

struct LoginOptions {
  std::string initiator = "iqn.2026-11.org.example:raw";
  std::string target;              // empty: a discovery session
  uint8_t csg = 0;                 // 0: security stage first, as open-iscsi does; 1: straight to operational
  uint64_t isid = 0x800000000001;  // random format, 6 bytes
  uint16_t tsih = 0;
  uint16_t cid = 1;
  Keys keys;  // replace or add to the defaults of default_keys()
};

struct LoginResult {
  Arrived arrived = Arrived::nothing;
  uint16_t status = 0xffff;  // class << 8 | detail
  uint16_t tsih = 0;
  std::map<std::string, std::string> keys;  // what the target answered or declared
  bool ok() const { return arrived == Arrived::pdu && status == 0; }
};

// What open-iscsi sends in the operational stage, with `changes` applied.
Keys default_keys(const Keys& changes);

struct Command {
  uint8_t flags = iscsi::kFinal;  // add ScsiCommand::kRead or kWrite
  uint32_t edtl = 0;              // Expected Data Transfer Length
  Bytes immediate_data;
  uint16_t lun = 0;
  bool immediate = false;          // delivered outside CmdSN order
  std::optional<uint32_t> cmd_sn;  // else the next one
};

struct Outcome {
  Arrived arrived = Arrived::nothing;  // how it ended; pdu: with a status
  uint8_t response = 0, status = 0xff;
  uint8_t residual_flags = 0;  // ScsiResponse::kOverflow | kUnderflow
  uint32_t residual = 0;
  uint32_t stat_sn = 0, exp_cmd_sn = 0, max_cmd_sn = 0, exp_data_sn = 0;
  Bytes data;  // of all Data-Ins, at their buffer offsets
  Bytes sense_data;
  std::vector<iscsi::DataIn> data_ins;
  std::vector<iscsi::R2T> r2ts;
  bool rejected = false;  // a Reject came instead
  iscsi::Reject reject{};

  bool good() const { return arrived == Arrived::pdu && !rejected && response == 0 && status == 0; }
  std::string sense() const { return sense_text(sense_data); }
  std::string text() const;  // for failure messages
};

// Cuts [0, length) of one R2T into Data-Out lengths; their sum is `length` in the legal case.
using Cutter = std::function<std::vector<uint32_t>(uint32_t length)>;

class RawClient {
 public:
  RawClient() = default;
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&& other) noexcept;

  bool connect(uint16_t port);
  void close();           // FIN
  void reset();           // RST
  void finish_sending();  // FIN of our half only

  bool send_bytes(std::span<const uint8_t> bytes);
  bool send_bytes(std::string_view bytes);
  // Header, AHS and data, padded to 4 bytes. Sets TotalAHSLength and DataSegmentLength unless `keep_lengths`.
  bool send(iscsi::BasicHeaderSegment bhs, std::span<const uint8_t> data = {}, std::span<const uint8_t> ahs = {},
            bool keep_lengths = false);
  template <typename Layout>
  bool send(const Layout& layout, std::span<const uint8_t> data = {}, std::span<const uint8_t> ahs = {},
            bool keep_lengths = false) {
    iscsi::BasicHeaderSegment bhs;
    std::memcpy(&bhs, &layout, sizeof bhs);
    return send(bhs, data, ahs, keep_lengths);
  }

  Arrived receive(Pdu& pdu, std::chrono::milliseconds limit = kReplyLimit);
  // True when the peer ends the connection before it sends anything more.
  bool closed_by_peer(std::chrono::milliseconds limit = kReplyLimit);

  LoginResult login(const LoginOptions& options);
  // One Login Request as it stands in `options` and its answer.
  LoginResult login_step(const LoginOptions& options, uint8_t csg, uint8_t nsg, bool transit, const Keys& keys);

  // Sends a SCSI Command and returns its task tag.
  uint32_t send_command(const Cdb& cdb, const Command& command);
  bool send_data_out(uint32_t task_tag, uint32_t transfer_tag, uint32_t offset, std::span<const uint8_t> data,
                     uint32_t data_sn, bool final, uint16_t lun = 0);
  // Receives until the task's status, answering R2Ts with `data` cut by `cutter` (default: whole
  // MaxRecvDataSegmentLengths).
  Outcome finish(uint32_t task_tag, std::span<const uint8_t> data = {}, const Cutter& cutter = {});

  // The usual commands, whole: flags and EDTL from the arguments.
  Outcome command_in(const Cdb& cdb, uint32_t edtl, uint16_t lun = 0);
  Outcome command_out(const Cdb& cdb, std::span<const uint8_t> data, size_t immediate_bytes = 0, uint16_t lun = 0);
  Outcome command_none(const Cdb& cdb, uint16_t lun = 0) { return command_in(cdb, 0, lun); }

  Outcome ping(std::span<const uint8_t> data);  // NOP-Out; its echo in Outcome::data
  // Text request with its whole answer (continuations fetched).
  struct TextAnswer {
    Arrived arrived = Arrived::nothing;
    bool rejected = false;
    std::string text;
    std::vector<size_t> segments;  // lengths
    bool tags_right = true;        // C=1 answers had F=0 and a tag, the last one F=1 and the reserved tag
  };
  TextAnswer text(std::string_view request);
  struct LogoutAnswer {
    Arrived arrived = Arrived::nothing;
    bool rejected = false;
    uint8_t response = 0xff;
  };
  LogoutAnswer logout_request(uint8_t reason, uint16_t cid, bool immediate = false);
  bool logout();  // reason 0, until the answer and the end of the connection

  uint32_t cmd_sn() const { return cmd_sn_; }
  void set_cmd_sn(uint32_t value) { cmd_sn_ = value; }
  uint32_t exp_stat_sn() const { return exp_stat_sn_; }
  uint32_t exp_cmd_sn() const { return exp_cmd_sn_; }
  uint32_t max_cmd_sn() const { return max_cmd_sn_; }
  uint32_t next_task_tag() { return ++task_tag_; }
  uint32_t target_max_recv() const { return target_max_recv_; }
  // False once a status-bearing PDU did not have the StatSN that follows the one before.
  bool stat_sn_in_order() const { return stat_sn_in_order_; }

 private:
  Arrived read_exactly(uint8_t* to, size_t bytes, std::chrono::steady_clock::time_point deadline);
  void note_numbers(const Pdu& pdu);
  bool answer_r2t(const iscsi::R2T& r2t, std::span<const uint8_t> data, const Cutter& cutter);

  int fd_ = -1;
  uint32_t cmd_sn_ = 1;
  uint32_t exp_stat_sn_ = 0;
  bool stat_sn_known_ = false;
  bool stat_sn_in_order_ = true;
  uint32_t exp_cmd_sn_ = 0, max_cmd_sn_ = 0;
  uint32_t task_tag_ = 0x100;
  uint32_t target_max_recv_ = 8192;
};

}  // namespace zvolt::test
