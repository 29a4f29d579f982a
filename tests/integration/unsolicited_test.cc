// The rules of unsolicited data (RFC 7143 sections 4.2.5.2 and 11.4.7.2): what was negotiated is enforced, and a write
// that did not get exactly its data is never acknowledged as good.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

class Unsolicited : public RunningDaemon {
 protected:
  // Legal ends of a write whose data broke the rules.
  static void expect_refused(const Outcome& outcome) {
    if (outcome.arrived == Arrived::closed || outcome.rejected) return;
    EXPECT_EQ(outcome.arrived, Arrived::pdu);
    const std::set<std::string> allowed = {"0b/0c/0c", "0b/0c/0d"};
    EXPECT_TRUE(allowed.count(outcome.sense())) << outcome.text();
  }
  // A WRITE(10) at LBA 0 with immediate data and unsolicited Data-Outs of the given lengths, the last one with F=1.
  Outcome write(RawClient& client, const Bytes& data, uint32_t immediate, const std::vector<uint32_t>& unsolicited,
                const Cutter& cutter = {}) {
    const auto blocks = static_cast<uint16_t>(data.size() / 512);
    const Command command{
        .flags = static_cast<uint8_t>((unsolicited.empty() ? iscsi::kFinal : 0) | iscsi::ScsiCommand::kWrite),
        .edtl = static_cast<uint32_t>(data.size()),
        .immediate_data = Bytes(data.begin(), data.begin() + immediate)};
    const uint32_t tag = client.send_command(write10(0, blocks), command);
    uint32_t offset = immediate;
    for (size_t i = 0; i < unsolicited.size(); ++i) {
      client.send_data_out(tag, iscsi::kReservedTag, offset, std::span(data).subspan(offset, unsolicited[i]),
                           static_cast<uint32_t>(i), i + 1 == unsolicited.size());
      offset += unsolicited[i];
    }
    return client.finish(tag, data, cutter);
  }
  Bytes medium(uint16_t blocks) {
    return logged_in({}, 0x8000000000aa).command_in(read10(0, blocks), blocks * 512u).data;
  }
  // Every block is wholly old or wholly new.
  void expect_no_torn_block(const Bytes& before, const Bytes& data) {
    const Bytes now = medium(static_cast<uint16_t>(data.size() / 512));
    ASSERT_EQ(now.size(), data.size());
    for (size_t at = 0; at < data.size(); at += 512) {
      const bool old_block =
          std::equal(now.begin() + static_cast<ptrdiff_t>(at), now.begin() + static_cast<ptrdiff_t>(at + 512),
                     before.begin() + static_cast<ptrdiff_t>(at));
      const bool new_block =
          std::equal(now.begin() + static_cast<ptrdiff_t>(at), now.begin() + static_cast<ptrdiff_t>(at + 512),
                     data.begin() + static_cast<ptrdiff_t>(at));
      EXPECT_TRUE(old_block || new_block) << "block " << at / 512;
    }
  }
};

TEST_F(Unsolicited, AllFourCombinationsOfInitialR2TAndImmediateData) {
  for (const char* initial_r2t : {"Yes", "No"}) {
    for (const char* immediate_data : {"Yes", "No"}) {
      RawClient client =
          logged_in({{"InitialR2T", initial_r2t}, {"ImmediateData", immediate_data}, {"FirstBurstLength", "4096"}});
      const bool immediate = std::string(immediate_data) == "Yes", unsolicited = std::string(initial_r2t) == "No";
      const Bytes data = pattern(32768, static_cast<uint64_t>(immediate * 2 + unsolicited));
      std::vector<uint32_t> cuts;
      if (unsolicited) cuts = immediate ? std::vector<uint32_t>{1024, 2048} : std::vector<uint32_t>{1000, 3096};
      const Outcome outcome = write(client, data, immediate ? 1024 : 0, cuts);
      EXPECT_TRUE(outcome.good()) << initial_r2t << immediate_data << ": " << outcome.text();
      EXPECT_TRUE(medium(64) == data) << initial_r2t << immediate_data;
    }
  }
}

TEST_F(Unsolicited, WholeCommandWithinTheFirstBurstNeedsNoR2T) {
  RawClient client = logged_in({{"FirstBurstLength", "16384"}});
  const Bytes data = pattern(8192, 9);
  const Outcome outcome = write(client, data, 512, {7680});
  EXPECT_TRUE(outcome.good()) << outcome.text();
  EXPECT_TRUE(outcome.r2ts.empty());
  EXPECT_TRUE(medium(16) == data);
}

TEST_F(Unsolicited, ImmediateDataThatWasNegotiatedAway) {
  RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
  expect_refused(write(client, pattern(4096, 1), 512, {}));
  expect_no_torn_block(Bytes(4096), pattern(4096, 1));
  expect_alive();
}

TEST_F(Unsolicited, ImmediateDataBeyondTheFirstBurst) {
  RawClient client = logged_in({{"FirstBurstLength", "512"}});
  expect_refused(write(client, pattern(4096, 2), 1024, {}));
  expect_no_torn_block(Bytes(4096), pattern(4096, 2));
  expect_alive();
}

TEST_F(Unsolicited, FirstBurstThatEndsEarly) {
  RawClient client = logged_in({{"FirstBurstLength", "4096"}});
  expect_refused(write(client, pattern(16384, 3), 1024, {1024}));
  expect_no_torn_block(Bytes(16384), pattern(16384, 3));
  expect_alive();
}

TEST_F(Unsolicited, FirstBurstThatIsTooLong) {
  RawClient client = logged_in({{"FirstBurstLength", "4096"}});
  expect_refused(write(client, pattern(16384, 4), 1024, {8192}));
  expect_no_torn_block(Bytes(16384), pattern(16384, 4));
  expect_alive();
}

TEST_F(Unsolicited, DataOutWithoutLeave) {
  RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
  expect_refused(write(client, pattern(4096, 5), 0, {4096}));
  expect_no_torn_block(Bytes(4096), pattern(4096, 5));
  expect_alive();
}

TEST_F(Unsolicited, AnswerToAnR2TThatIsShort) {
  RawClient client = logged_in(
      {{"InitialR2T", "Yes"}, {"ImmediateData", "No"}, {"MaxBurstLength", "8192"}, {"FirstBurstLength", "512"}});
  expect_refused(write(client, pattern(8192, 6), 0, {}, [](uint32_t) { return std::vector<uint32_t>{4096}; }));
  expect_no_torn_block(Bytes(8192), pattern(8192, 6));
  expect_alive();
}

TEST_F(Unsolicited, AnswerToAnR2TThatIsTooLong) {
  RawClient client = logged_in(
      {{"InitialR2T", "Yes"}, {"ImmediateData", "No"}, {"MaxBurstLength", "8192"}, {"FirstBurstLength", "512"}});
  expect_refused(write(client, pattern(16384, 7), 0, {}, [](uint32_t) { return std::vector<uint32_t>{12288}; }));
  expect_no_torn_block(Bytes(16384), pattern(16384, 7));
  expect_alive();
}

TEST_F(Unsolicited, DataOutForATaskThatDoesNotExist) {
  RawClient client = logged_in();
  ASSERT_TRUE(client.send_data_out(0xdeadbeef, iscsi::kReservedTag, 0, pattern(512, 1), 0, true));
  ASSERT_TRUE(client.send_data_out(0xdeadbeef, 0x1234, 0, pattern(512, 1), 0, true));
  Pdu answer;
  while (client.receive(answer, kSilenceLimit) == Arrived::pdu) EXPECT_EQ(answer.opcode(), iscsi::Opcode::reject);
  expect_alive();
}

TEST_F(Unsolicited, OffsetsAndNumbersThatLie) {
  struct Case {
    uint32_t offset, data_sn;
  };
  for (const Case& c : {Case{0, 5}, Case{512, 0}, Case{0xfffffe00, 0}, Case{4096, 0}}) {
    RawClient client = logged_in({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
    const uint32_t tag = client.send_command(
        write10(0, 8), {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = 4096, .immediate_data = {}});
    Pdu r2t;
    ASSERT_EQ(client.receive(r2t), Arrived::pdu);
    ASSERT_EQ(r2t.opcode(), iscsi::Opcode::r2t);
    client.send_data_out(tag, r2t.as<iscsi::R2T>().target_transfer_tag.value(), c.offset, pattern(4096, 8), c.data_sn,
                         true);
    const Outcome outcome = client.finish(tag);
    EXPECT_NE(outcome.arrived, Arrived::nothing) << "an initiator would wait for its own timeout";
    EXPECT_FALSE(outcome.good()) << "offset " << c.offset << " DataSN " << c.data_sn;
    expect_alive();
  }
}

// A payload that is thrown away was once counted as received in place: the stream lost its step after the first
// commands, and a host's hundred refused writes ended its session.
TEST_F(Unsolicited, RefusedWritesKeepTheStreamInStep) {
  for (const uint32_t bytes : {512u, 1024u, 65536u}) {
    RawClient client = logged_in();
    const Bytes zeros(bytes, 0);
    std::vector<uint32_t> tags;
    for (int i = 0; i < 100; ++i) {
      tags.push_back(client.send_command(
          write16(uint64_t{1} << 40, bytes / 512),
          {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = bytes, .immediate_data = zeros}));
    }
    for (const uint32_t tag : tags) ASSERT_EQ(client.finish(tag).sense(), "05/21/00") << bytes;
    EXPECT_TRUE(client.logout());
  }
}

}  // namespace
}  // namespace zvolt::test
