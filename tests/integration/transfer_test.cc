// How data moves: R2T and Data-Out in odd cuts, large writes with immediate data, Data-In sequences. RFC 7143
// sections 11.7 and 11.8. Hardware initiators cut bursts at lengths that are no multiple of a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint16_t kSmallBlocks = 0, kLargeBlocks = 1, kFile = 2;  // LUN numbers

class Transfer : public RunningDaemon {
 protected:
  Transfer()
      : RunningDaemon({.luns = {"{ lun: 0, name: small, memory: 64MiB }",
                                "{ lun: 1, name: large, memory: 64MiB, block_size: 4096 }"}}) {
    daemon_.config().luns.push_back("{ lun: 2, name: file, file: " + daemon_.directory().file("disk.img") +
                                    ", provision: { size: 64MiB } }");
  }

  RawClient ready(const Keys& keys = {}) {
    RawClient client = logged_in(keys);
    for (const uint16_t lun : {kLargeBlocks, kFile})
      client.command_none(test_unit_ready(), lun);  // their unit attentions
    return client;
  }

  // One WRITE(10), its solicited data cut by `cutter`, then the range and its neighbours read back.
  void write_and_check(RawClient& client, uint16_t lun, uint16_t blocks, size_t immediate, const Cutter& cutter) {
    const uint32_t block = lun == kSmallBlocks ? 512 : 4096, bytes = blocks * block;
    const auto wider = static_cast<uint16_t>(blocks + 2);
    const Bytes around = pattern(bytes + 2 * block, 1000), data = pattern(bytes, seed_++);
    ASSERT_TRUE(client.command_out(write10(9, wider), around, 0, lun).good());
    const Command command{.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                          .edtl = bytes,
                          .immediate_data = Bytes(data.begin(), data.begin() + static_cast<ptrdiff_t>(immediate)),
                          .lun = lun};
    const Outcome outcome = client.finish(client.send_command(write10(10, blocks), command), data, cutter);
    ASSERT_TRUE(outcome.good()) << outcome.text();
    EXPECT_EQ(outcome.residual_flags, 0);
    EXPECT_EQ(outcome.residual, 0u);
    Bytes expected = around;
    std::copy(data.begin(), data.end(), expected.begin() + block);
    EXPECT_TRUE(client.command_in(read10(9, wider), bytes + 2 * block, lun).data == expected);
  }

  uint64_t seed_ = 1;
};

Cutter cuts_of(std::vector<uint32_t> cuts) {
  return [cuts = std::move(cuts)](uint32_t) { return cuts; };
}

// Repeats `lengths` until the burst is full.
Cutter repeating(std::vector<uint32_t> lengths) {
  return [lengths = std::move(lengths)](uint32_t length) {
    std::vector<uint32_t> cuts;
    for (uint32_t done = 0; done < length; done += cuts.back())
      cuts.push_back(std::min(lengths[cuts.size() % lengths.size()], length - done));
    return cuts;
  };
}

const Keys kSolicitedOnly = {{"InitialR2T", "Yes"}, {"ImmediateData", "No"}};

TEST_F(Transfer, BurstCutAsAHardwareInitiatorDoes) {
  RawClient client = ready(kSolicitedOnly);
  write_and_check(client, kSmallBlocks, 18, 0, cuts_of({2848, 6368}));
}

TEST_F(Transfer, CutsThatAreNoMultipleOfABlockOrOfFour) {
  RawClient client = ready(kSolicitedOnly);
  for (const uint16_t lun : {kSmallBlocks, kLargeBlocks}) {
    write_and_check(client, lun, 8, 0, repeating({1}));
    write_and_check(client, lun, 18, 0, repeating({511}));
    write_and_check(client, lun, 18, 0, repeating({513}));
    write_and_check(client, lun, 18, 0, repeating({4095}));
    write_and_check(client, lun, 18, 0, repeating({1, 511, 513, 4095, 2, 3, 5, 4097}));
  }
}

TEST_F(Transfer, RandomCuts) {
  std::mt19937 random(20261101);
  RawClient client = ready(kSolicitedOnly);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint32_t> lengths(8);
    for (uint32_t& length : lengths) length = std::uniform_int_distribution<uint32_t>(1, 9000)(random);
    const auto blocks = static_cast<uint16_t>(std::uniform_int_distribution<int>(1, 64)(random));
    write_and_check(client, round % 2 == 0 ? kSmallBlocks : kLargeBlocks, blocks, 0, repeating(lengths));
  }
}

TEST_F(Transfer, AHundredImmediateBytesThenTheRest) {
  RawClient client = ready({{"InitialR2T", "Yes"}});
  write_and_check(client, kSmallBlocks, 18, 100, repeating({2848}));
  write_and_check(client, kLargeBlocks, 5, 101, repeating({4095, 1}));
}

TEST_F(Transfer, EmptyDataOutIsHarmless) {
  RawClient client = ready(kSolicitedOnly);
  write_and_check(client, kSmallBlocks, 18, 0, cuts_of({0, 4608, 0, 4608}));
}

TEST_F(Transfer, ImmediateDataThenR2TLeavesNoResidual) {
  RawClient client = ready({{"FirstBurstLength", "8192"}, {"MaxBurstLength", "262144"}, {"InitialR2T", "Yes"}});
  write_and_check(client, kSmallBlocks, 34, 8192, {});
}

TEST_F(Transfer, LargeWritesAndReadsLeaveNoResidual) {
  RawClient client = ready({{"FirstBurstLength", "8192"}, {"MaxBurstLength", "262144"}, {"InitialR2T", "Yes"}});
  for (const uint32_t bytes : {65536u, 1u << 20, 16u << 20}) {
    const Bytes data = pattern(bytes, bytes);
    const auto blocks = static_cast<uint16_t>(bytes / 512);
    const Outcome written = client.command_out(write10(0, blocks), data, 8192);
    ASSERT_TRUE(written.good()) << bytes << ": " << written.text();
    EXPECT_EQ(written.residual_flags, 0);
    for (const iscsi::R2T& r2t : written.r2ts) {
      EXPECT_LE(r2t.desired_data_transfer_length.value(), 262144u);
      EXPECT_NE(r2t.target_transfer_tag.value(), iscsi::kReservedTag);
    }
    const Outcome read = client.command_in(read10(0, blocks), bytes);
    ASSERT_TRUE(read.good()) << bytes << ": " << read.text();
    EXPECT_EQ(read.residual_flags, 0);
    EXPECT_TRUE(read.data == data) << bytes;
  }
}

TEST_F(Transfer, R2TsAreNumberedAndCoverTheRange) {
  RawClient client = ready({{"InitialR2T", "Yes"}, {"ImmediateData", "No"}, {"MaxBurstLength", "16384"}});
  const Bytes data = pattern(100 * 512, 3);
  const Outcome outcome = client.command_out(write10(0, 100), data);
  ASSERT_TRUE(outcome.good()) << outcome.text();
  uint32_t offset = 0;
  for (size_t i = 0; i < outcome.r2ts.size(); ++i) {
    EXPECT_EQ(outcome.r2ts[i].r2t_sn.value(), i);
    EXPECT_EQ(outcome.r2ts[i].buffer_offset.value(), offset);
    EXPECT_LE(outcome.r2ts[i].desired_data_transfer_length.value(), 16384u);
    offset += outcome.r2ts[i].desired_data_transfer_length.value();
  }
  EXPECT_EQ(offset, data.size());
}

// Found by libiscsi's Verify10.Mismatch: the answer came together with the R2T, and libiscsi, asked for data of a task
// that was gone, hung.
TEST_F(Transfer, EarlyEndWaitsForTheDataThatWasAskedFor) {
  RawClient client = ready({{"InitialR2T", "Yes"}, {"FirstBurstLength", "65536"}, {"MaxBurstLength", "65536"}});
  const Bytes data = pattern(130 * 512, 1);  // differs from the medium in its first block
  const uint32_t tag =
      client.send_command(verify10(0, 130, kBytchk), {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                                                      .edtl = 130 * 512,
                                                      .immediate_data = Bytes(data.begin(), data.begin() + 65536),
                                                      .lun = kFile});
  Pdu first;
  ASSERT_EQ(client.receive(first), Arrived::pdu);
  if (first.opcode() == iscsi::Opcode::r2t) {
    Pdu early;
    EXPECT_EQ(client.receive(early, kSilenceLimit), Arrived::nothing) << "the R2T is not answered yet";
    const auto& r2t = first.as<iscsi::R2T>();
    ASSERT_TRUE(client.send_data_out(tag, r2t.target_transfer_tag.value(), r2t.buffer_offset.value(),
                                     std::span(data).subspan(65536), 0, true, kFile));
    ASSERT_EQ(client.receive(first), Arrived::pdu);
  }
  ASSERT_EQ(first.opcode(), iscsi::Opcode::scsi_response);
  EXPECT_EQ(first.as<iscsi::ScsiResponse>().status, 2);
  EXPECT_TRUE(client.command_in(inquiry(36), 36).good());
}

// What RFC 7143 11.7 says of every Data-In sequence.
void check_data_in(const Outcome& outcome, uint32_t total, uint32_t max_recv, uint32_t max_burst) {
  uint32_t offset = 0, sequence = 0;
  for (size_t i = 0; i < outcome.data_ins.size(); ++i) {
    const iscsi::DataIn& pdu = outcome.data_ins[i];
    const uint32_t length = pdu.data_segment_length.value();
    const bool last = i + 1 == outcome.data_ins.size(), final = (pdu.flags & iscsi::kFinal) != 0;
    EXPECT_EQ(pdu.buffer_offset.value(), offset) << "PDU " << i;
    EXPECT_EQ(pdu.data_sn.value(), i);
    EXPECT_LE(length, max_recv);
    offset += length;
    sequence += length;
    EXPECT_LE(sequence, max_burst) << "PDU " << i;
    EXPECT_TRUE(final || !last) << "the last PDU ends its sequence";
    const bool status = (pdu.flags & iscsi::DataIn::kStatus) != 0;
    EXPECT_TRUE(!status || (last && final)) << "status rides in the last PDU only";
    if (final) sequence = 0;
  }
  EXPECT_EQ(offset, total);
  const bool collapsed = !outcome.data_ins.empty() && (outcome.data_ins.back().flags & iscsi::DataIn::kStatus) != 0;
  EXPECT_EQ(outcome.exp_data_sn, collapsed ? 0 : outcome.data_ins.size());
}

TEST_F(Transfer, DataInSequencesKeepToTheNegotiatedLengths) {
  for (const auto& [max_recv, max_burst] : {std::pair{8192u, 16384u}, std::pair{8192u, 12288u}, std::pair{512u, 12288u},
                                            std::pair{262144u, 512u}, std::pair{4100u, 10000u}}) {
    RawClient client = ready({{"MaxRecvDataSegmentLength", std::to_string(max_recv)},
                              {"MaxBurstLength", std::to_string(max_burst)},
                              {"FirstBurstLength", "512"}});
    const Bytes data = pattern(65536 + 512, 5);
    ASSERT_TRUE(client.command_out(write10(7, 129), data).good());
    const Outcome outcome = client.command_in(read10(7, 129), 65536 + 512);
    ASSERT_TRUE(outcome.good()) << outcome.text();
    EXPECT_TRUE(outcome.data == data);
    check_data_in(outcome, 65536 + 512, max_recv, max_burst);
  }
}

TEST_F(Transfer, ParallelReadsKeepTheirDataApart) {
  RawClient client = ready({{"MaxRecvDataSegmentLength", "8192"}, {"MaxBurstLength", "16384"}});
  constexpr uint32_t kReads = 24, kBytes = 40 * 512;
  for (uint32_t i = 0; i < kReads; ++i) ASSERT_TRUE(client.command_out(write10(i * 40, 40), pattern(kBytes, i)).good());
  std::map<uint32_t, Outcome> outcomes;
  for (uint32_t i = 0; i < kReads; ++i)
    outcomes[client.send_command(
        read10(i * 40, 40),
        {.flags = iscsi::kFinal | iscsi::ScsiCommand::kRead, .edtl = kBytes, .immediate_data = {}})];
  for (size_t left = kReads; left > 0;) {
    Pdu pdu;
    ASSERT_EQ(client.receive(pdu), Arrived::pdu);
    ASSERT_EQ(pdu.opcode(), iscsi::Opcode::data_in);
    const auto& header = pdu.as<iscsi::DataIn>();
    Outcome& outcome = outcomes.at(header.initiator_task_tag.value());
    EXPECT_EQ(header.buffer_offset.value(), outcome.data.size());
    outcome.data.insert(outcome.data.end(), pdu.data.begin(), pdu.data.end());
    if ((header.flags & iscsi::DataIn::kStatus) != 0) --left;
  }
  uint32_t i = 0;
  for (const auto& [tag, outcome] : outcomes) EXPECT_TRUE(outcome.data == pattern(kBytes, i++));
  EXPECT_TRUE(client.stat_sn_in_order());
}

// Found by qemu-img: a read that waited for the transmit queue to drain went on from its store's answer, ended, and was
// then given its turn once more, as another command already: a crash.
TEST_F(Transfer, ReadsBehindAFullTransmitQueueEndOnce) {
  RawClient client = ready();
  constexpr uint32_t kDepth = 8, kReads = 400, kBytes = 2 << 20;
  const Bytes data = pattern(kBytes, 12);
  ASSERT_TRUE(client.command_out(write10(0, kBytes / 512), data, 0, kFile).good());
  const Command command{
      .flags = iscsi::kFinal | iscsi::ScsiCommand::kRead, .edtl = kBytes, .immediate_data = {}, .lun = kFile};
  std::map<uint32_t, Bytes> answers;
  uint32_t sent = 0, answered = 0;
  const auto send_one = [&] {
    answers[client.send_command(read10(0, kBytes / 512), command)] = {};
    ++sent;
  };
  while (sent < kDepth) send_one();
  while (answered < kReads) {
    Pdu pdu;
    ASSERT_EQ(client.receive(pdu), Arrived::pdu) << answered << " reads answered";
    const uint32_t tag = pdu.bhs.initiator_task_tag.value();
    ASSERT_EQ(pdu.opcode(), iscsi::Opcode::data_in);
    Bytes& answer = answers.at(tag);
    answer.insert(answer.end(), pdu.data.begin(), pdu.data.end());
    if ((pdu.bhs.flags & iscsi::DataIn::kStatus) == 0) continue;
    ++answered;
    ASSERT_TRUE(answer == data) << answered;
    answers.erase(tag);
    if (sent < kReads) send_one();
  }
}

}  // namespace
}  // namespace zvolt::test
