// Expected Data Transfer Lengths that do not match the command: min(EDTL, command) bytes move, the residual tells the
// rest, and no block gets a byte that the initiator did not send. RFC 7143 section 11.4.5.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint8_t kOverflow = iscsi::ScsiResponse::kOverflow, kUnderflow = iscsi::ScsiResponse::kUnderflow;
constexpr uint32_t kBlock = 512;

class Residual : public RunningDaemon {
 protected:
  void SetUp() override {
    RunningDaemon::SetUp();
    client_ = logged_in({{"InitialR2T", "Yes"}});
    ASSERT_TRUE(client_.command_out(write10(0, kBlocks), before_).good());
  }
  Bytes medium() { return client_.command_in(read10(0, kBlocks), kBlocks * kBlock).data; }

  static constexpr uint16_t kBlocks = 32;
  const Bytes before_ = Bytes(kBlocks * kBlock, 0x5a);
  RawClient client_;
};

struct Form {
  const char* name;
  Cdb (*read)(uint32_t blocks);
  Cdb (*write)(uint32_t blocks);  // at LBA 1
};

const Form kForms[] = {
    {"6", [](uint32_t n) { return read6(1, static_cast<uint8_t>(n)); },
     [](uint32_t n) { return write6(1, static_cast<uint8_t>(n)); }},
    {"10", [](uint32_t n) { return read10(1, static_cast<uint16_t>(n)); },
     [](uint32_t n) { return write10(1, static_cast<uint16_t>(n)); }},
    {"12", [](uint32_t n) { return read12(1, n); }, [](uint32_t n) { return write12(1, n); }},
    {"16", [](uint32_t n) { return read16(1, n); }, [](uint32_t n) { return write16(1, n); }},
};

struct Sizes {
  uint32_t blocks, edtl;
};

void expect_residual(const Outcome& outcome, uint32_t blocks, uint32_t edtl) {
  const uint32_t asked = blocks * kBlock;
  EXPECT_EQ(outcome.residual_flags, edtl < asked ? kOverflow : edtl > asked ? kUnderflow : 0);
  EXPECT_EQ(outcome.residual, edtl < asked ? asked - edtl : edtl - asked);
}

TEST_F(Residual, ReadMovesTheSmallerOfBoth) {
  for (const Form& form : kForms) {
    for (const auto& [blocks, edtl] :
         {Sizes{1, 0}, Sizes{1, 200}, Sizes{1, 512}, Sizes{1, 1024}, Sizes{1, 10000}, Sizes{9, 512}, Sizes{2, 1023}}) {
      const Outcome outcome = client_.command_in(form.read(blocks), edtl);
      ASSERT_TRUE(outcome.good()) << "READ(" << form.name << ") " << blocks << " blocks, EDTL " << edtl << ": "
                                  << outcome.text();
      EXPECT_EQ(outcome.data.size(), std::min(blocks * kBlock, edtl));
      EXPECT_TRUE(std::all_of(outcome.data.begin(), outcome.data.end(), [](uint8_t b) { return b == 0x5a; }));
      expect_residual(outcome, blocks, edtl);
    }
  }
}

TEST_F(Residual, WriteMovesTheSmallerOfBothOrNothing) {
  for (const Form& form : kForms) {
    for (const auto& [blocks, edtl] : {Sizes{1, 0}, Sizes{1, 200}, Sizes{1, 10000}, Sizes{2, 512}, Sizes{3, 1025}}) {
      ASSERT_TRUE(client_.command_out(write10(0, kBlocks), before_).good());
      const Bytes data = pattern(edtl, edtl + blocks);
      const Command command{.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = edtl, .immediate_data = {}};
      const Outcome outcome = client_.finish(client_.send_command(form.write(blocks), command), data);
      const std::string what = "WRITE(" + std::string(form.name) + ") " + std::to_string(blocks) + " blocks, EDTL " +
                               std::to_string(edtl) + ": " + outcome.text();
      for (const iscsi::R2T& r2t : outcome.r2ts)
        EXPECT_LE(r2t.buffer_offset.value() + r2t.desired_data_transfer_length.value(), edtl) << what;
      Bytes expected = before_;
      if (outcome.good()) {
        std::copy_n(data.begin(), std::min(edtl, blocks * kBlock), expected.begin() + kBlock);
        expect_residual(outcome, blocks, edtl);
      } else {
        EXPECT_TRUE(outcome.sense() == "05/0e/03" || outcome.sense() == "05/24/00") << what;
      }
      EXPECT_TRUE(medium() == expected) << what;
    }
  }
}

TEST_F(Residual, DirectionBitsThatDoNotFitTheCommand) {
  const Bytes data = pattern(kBlock, 1);
  struct Case {
    Cdb cdb;
    uint8_t flags;
    uint32_t edtl;
  };
  for (const Case& c :
       {Case{write10(1, 1), 0, 0}, Case{write10(1, 1), 0, kBlock},
        Case{write10(1, 1), iscsi::ScsiCommand::kRead, kBlock}, Case{read10(1, 1), 0, 0}, Case{read10(1, 1), 0, kBlock},
        Case{read10(1, 1), iscsi::ScsiCommand::kWrite, kBlock}, Case{test_unit_ready(), iscsi::ScsiCommand::kRead, 100},
        Case{test_unit_ready(), iscsi::ScsiCommand::kWrite, 100}}) {
    const Command command{.flags = static_cast<uint8_t>(iscsi::kFinal | c.flags), .edtl = c.edtl, .immediate_data = {}};
    const Outcome outcome = client_.finish(client_.send_command(c.cdb, command), data);
    ASSERT_EQ(outcome.arrived, Arrived::pdu) << "opcode " << int{c.cdb[0]} << " flags " << int{c.flags};
    client_.set_cmd_sn(client_.exp_cmd_sn());
    EXPECT_TRUE(client_.ping(data).data == data) << "the stream is in step";
  }
  EXPECT_TRUE(medium() == before_) << "no data was sent for a write, so none was written";
  expect_alive();
}

TEST_F(Residual, ReadWithTheWriteBitAndImmediateDataEndsGood) {
  const Command command{
      .flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite, .edtl = kBlock, .immediate_data = pattern(kBlock, 2)};
  const Outcome outcome = client_.finish(client_.send_command(read10(1, 1), command), command.immediate_data);
  EXPECT_TRUE(outcome.good()) << outcome.text();
  EXPECT_TRUE(medium() == before_);
}

TEST_F(Residual, ShortAnswersAreUnderflow) {
  const Outcome short_answer = client_.command_in(mode_sense6(0x0a, 255), 255);
  ASSERT_TRUE(short_answer.good()) << short_answer.text();
  EXPECT_EQ(short_answer.residual_flags, kUnderflow);
  EXPECT_EQ(short_answer.residual, 255 - short_answer.data.size());
  const Outcome truncated = client_.command_in(mode_sense6(0x0a, 4), 4);
  ASSERT_TRUE(truncated.good()) << truncated.text();
  EXPECT_EQ(truncated.residual_flags, 0) << "cut by the allocation length, not by EDTL";
  EXPECT_EQ(truncated.data.size(), 4u);
}

TEST_F(Residual, CheckConditionMovesNothing) {
  const Outcome outcome = client_.command_in(read10(0x7fffffff, 1), kBlock);
  EXPECT_EQ(outcome.sense(), "05/21/00");
  EXPECT_TRUE(outcome.data_ins.empty());
  EXPECT_EQ(outcome.residual_flags, kUnderflow);
  EXPECT_EQ(outcome.residual, kBlock);
}

}  // namespace
}  // namespace zvolt::test
