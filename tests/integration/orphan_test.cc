// Writes of a session that is gone and that the store still has: nobody overtakes them, and what waits behind them is
// done as it was asked. The store delays the first write to the block range by half a second.
#include <gtest/gtest.h>

#include "tests/integration/running_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kLba = 8;
constexpr uint16_t kBlocks = 8;

class OrphanedWrite : public RunningDaemon {
 protected:
  OrphanedWrite()
      : RunningDaemon(
            {.luns = {"{ lun: 0, name: slow, memory: 1MiB, faults: [ { op: write, action: delay, offset: 4096, "
                      "length: 4096, count: 1, delay_us: 500000 } ] }"},
             .more_targets = {},
             .more_yaml = {},
             .arguments = {"--test-stores"}}) {}

  // Leaves a write of 0x11 to the range in the store, its session gone.
  void orphan() {
    RawClient client = logged_in();
    client.send_command(write10(kLba, kBlocks), {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                                                 .edtl = kBlocks * 512u,
                                                 .immediate_data = Bytes(kBlocks * 512u, 0x11)});
    EXPECT_EQ(client.ping({}).arrived, Arrived::pdu);  // the write was taken before this was answered
    client.reset();
  }
  Bytes medium(uint32_t lba) {
    return logged_in({}, 0x8000000000aa).command_in(read10(lba, kBlocks), kBlocks * 512u).data;
  }
};

TEST_F(OrphanedWrite, IsNotOvertakenByTheWriteOfTheNextSession) {
  orphan();
  RawClient client = logged_in();
  EXPECT_TRUE(client.command_out(write10(kLba, kBlocks), Bytes(kBlocks * 512u, 0x22), kBlocks * 512u).good());
  EXPECT_EQ(medium(kLba), Bytes(kBlocks * 512u, 0x22));
}

// Found by reading: the block of a WRITE SAME that had to wait was about to be written to the start of the medium.
TEST_F(OrphanedWrite, AWriteSameBehindItWritesItsRangeAndNothingElse) {
  orphan();
  RawClient client = logged_in();
  EXPECT_TRUE(client.command_out(write_same16(kLba, kBlocks, 0), Bytes(512, 0x33), 512).good());
  EXPECT_EQ(medium(kLba), Bytes(kBlocks * 512u, 0x33));
  EXPECT_EQ(medium(0), Bytes(kBlocks * 512u, 0));
}

}  // namespace
}  // namespace zvolt::test
