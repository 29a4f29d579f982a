// The command table and REPORT SUPPORTED OPERATION CODES, and every operation code sent at random.
#include <random>
#include <set>

#include "scsi/bytes.h"
#include "scsi/command_table.h"
#include "tests/unit/scsi/fixture.h"

namespace zvolt::scsi::test {
namespace {

using Opcodes = ScsiTest;

TEST(CommandTable, EveryRowHasAHandlerAndItsOwnOpcodeInTheUsageData) {
  for (const CommandEntry& entry : all_commands()) {
    SCOPED_TRACE(int{entry.opcode});
    EXPECT_NE(entry.start, nullptr);
    EXPECT_EQ(entry.usage[0], entry.opcode);
    const size_t length = cdb_length(entry.format);
    EXPECT_EQ(entry.usage[length - 1], kNaca);
    for (size_t i = length; i < 16; ++i) EXPECT_EQ(entry.usage[i], 0);
  }
}

TEST(CommandTable, LengthsFollowTheGroupCode) {
  const size_t lengths[] = {6, 10, 10, 0, 16, 12};
  for (const CommandEntry& entry : all_commands()) EXPECT_EQ(cdb_length(entry.format), lengths[entry.opcode >> 5]);
}

TEST(CommandTable, EveryRowIsFoundByItsCode) {
  for (const CommandEntry& entry : all_commands()) {
    const auto byte1 = static_cast<uint8_t>(std::max<int>(entry.service_action, 0));
    const Found found = find_command(entry.opcode, byte1, true);
    EXPECT_EQ(found.entry, &entry);
  }
}

TEST_F(Opcodes, AllCommandsReportListsTheTable) {
  for (const bool timeouts : {false, true}) {
    const Bytes data = ReportOpcodes(timeouts ? 0x80 : 0).data;
    ASSERT_EQ(data.size(), size_t{4} + get32(data.data()));
    const size_t step = timeouts ? 20 : 8;
    ASSERT_EQ(data.size(), 4 + step * all_commands().size());
    for (size_t i = 0; i < all_commands().size(); ++i) {
      const CommandEntry& entry = all_commands()[i];
      const uint8_t* descriptor = data.data() + 4 + step * i;
      EXPECT_EQ(descriptor[0], entry.opcode);
      const bool has_action = entry.service_action != kNoServiceAction;
      EXPECT_EQ(descriptor[5], (has_action ? 1 : 0) | (timeouts ? 2 : 0));
      EXPECT_EQ(get16(descriptor + 2), has_action ? entry.service_action : 0);
      EXPECT_EQ(get16(descriptor + 6), cdb_length(entry.format));
      if (!timeouts) continue;
      EXPECT_EQ(get16(descriptor + 8), 0x0a);
    }
  }
  EXPECT_EQ(ReportOpcodes(0, 0, 0, 20).data.size(), 20u);
  EXPECT_EQ(ReportOpcodes(0, 0, 0, 0).data.size(), 0u);
}

TEST_F(Opcodes, OneCommandReportGivesTheUsageData) {
  for (const CommandEntry& entry : all_commands()) {
    SCOPED_TRACE(int{entry.opcode});
    const bool has_action = entry.service_action != kNoServiceAction;
    const auto action = static_cast<uint16_t>(has_action ? entry.service_action : 0);
    for (const uint8_t options : Bytes{static_cast<uint8_t>(has_action ? 2 : 1), 3}) {
      const Bytes data = ReportOpcodes(options, entry.opcode, action).data;
      const size_t length = cdb_length(entry.format);
      ASSERT_EQ(data.size(), 4 + length);
      EXPECT_EQ(data[1], 0x03);
      EXPECT_EQ(get16(data.data() + 2), length);
      EXPECT_EQ(data[4], entry.opcode);
      if (!has_action) continue;
      EXPECT_EQ(data[5], action);
    }
    const Bytes timed = ReportOpcodes(static_cast<uint8_t>(0x80 | 3), entry.opcode, action).data;
    EXPECT_EQ(timed[1], 0x83);
    EXPECT_EQ(timed.size(), size_t{4} + cdb_length(entry.format) + 12);
  }
}

TEST_F(Opcodes, DpoAndFuaAreShownInTheUsageData) {
  for (const uint8_t opcode : Bytes{0x28, 0x2a, 0x88, 0x8a, 0xa8, 0xaa}) {
    EXPECT_EQ(ReportOpcodes(1, opcode).data[5] & 0x18, 0x18);
  }
  for (const uint8_t opcode : Bytes{0x2f, 0x8f, 0xaf}) EXPECT_EQ(ReportOpcodes(1, opcode).data[5] & 0x18, 0x10);
}

// The pointer to byte 2 is how a host tells "wrong question" from "no such command".
TEST_F(Opcodes, AQuestionThatDoesNotFitTheCommandIsRefusedWithAPointerToByteTwo) {
  ExpectInvalidField(ReportOpcodes(1, 0x9e), 2);
  ExpectInvalidField(ReportOpcodes(1, 0xa3), 2);
  ExpectInvalidField(ReportOpcodes(2, 0x28), 2);
  for (uint8_t options = 4; options < 8; ++options) ExpectInvalidField(ReportOpcodes(options, 0x28), 2);
}

TEST_F(Opcodes, WhatIsNotImplementedIsReportedSo) {
  EXPECT_EQ(ReportOpcodes(1, 0x5e).data[1], 1);
  EXPECT_EQ(ReportOpcodes(2, 0x5e, 3).data[1], 1);
  EXPECT_EQ(ReportOpcodes(2, 0x9e, 0x13).data[1], 1);
  EXPECT_EQ(ReportOpcodes(3, 0x9e, 0x113).data[1], 1);
  EXPECT_EQ(ReportOpcodes(3, 0x28, 1).data[1], 1);
  Build([](backing::Geometry& geometry) { geometry.discard_granularity = 0; }, {});
  EXPECT_EQ(ReportOpcodes(1, 0x42).data[1], 1);
  const Bytes all = ReportOpcodes(0).data;
  for (size_t at = 4; at < all.size(); at += 8) EXPECT_NE(all[at], 0x42);
}

TEST_F(Opcodes, EveryAdvertisedCommandIsImplemented) {
  const Bytes all = ReportOpcodes(0).data;
  for (size_t at = 4; at < all.size(); at += 8) {
    Bytes cdb(16);
    cdb[0] = all[at];
    cdb[1] = all[at + 3];
    const Reply reply = Send(cdb, Bytes(512));
    if (reply.status == Status::good) continue;
    EXPECT_FALSE(reply.asc() == 0x20 || reply.field_pointer() == 1) << int{all[at]};
  }
}

TEST_F(Opcodes, WhatIsNotAdvertisedIsRefusedCleanly) {
  std::set<uint8_t> implemented;
  for (const CommandEntry& entry : all_commands()) implemented.insert(entry.opcode);
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (implemented.contains(static_cast<uint8_t>(opcode))) continue;
    Bytes cdb(16);
    cdb[0] = static_cast<uint8_t>(opcode);
    ExpectSense(Send(cdb), 5, 0x20, 0);
  }
  Bytes unknown_action(16);
  unknown_action[0] = 0x9e;
  unknown_action[1] = 0x13;
  ExpectInvalidField(Send(unknown_action), 1);
}

TEST_F(Opcodes, NacaIsRefusedWithAPointerToTheControlByte) {
  for (const CommandEntry& entry : all_commands()) {
    Bytes cdb(16);
    cdb[0] = entry.opcode;
    cdb[1] = static_cast<uint8_t>(std::max<int>(entry.service_action, 0));
    const auto at = static_cast<uint16_t>(cdb_length(entry.format) - 1);
    cdb[at] = 0x04;
    ExpectInvalidField(Send(cdb), at);
  }
}

TEST_F(Opcodes, WritesAreRefusedOnAReadOnlyUnitBeforeTheirParametersAreChecked) {
  Build({}, [](UnitOptions& options) { options.read_only = true; });
  for (const CommandEntry& entry : all_commands()) {
    Bytes cdb(16, 0xff);
    cdb[0] = entry.opcode;
    cdb[cdb_length(entry.format) - 1u] = 0;
    const Reply reply = Send(cdb);
    const bool refused = reply.status == Status::check_condition && reply.key() == 7;
    EXPECT_EQ(refused, (entry.flags & kWrites) != 0) << int{entry.opcode};
  }
  ExpectGood(SynchronizeCache10());
  EXPECT_EQ(store->count(backing::IoKind::write), 0u);
}

void ExpectSaneAnswer(const Reply& reply, const Bytes& cdb) {
  SCOPED_TRACE(int{cdb[0]});
  if (reply.status == Status::good) return;
  ASSERT_EQ(reply.status, Status::check_condition);
  EXPECT_EQ(reply.sense.length, 18);
  EXPECT_TRUE(reply.key() == 5 || reply.key() == 0x0e) << int{reply.key()};
  EXPECT_NE(reply.asc(), 0);
}

TEST_F(Opcodes, EveryOpcodeWithAllOnesIsAnswered) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    Bytes cdb(16, 0xff);
    cdb[0] = static_cast<uint8_t>(opcode);
    ExpectSaneAnswer(Send(cdb, Bytes(65535, 0xff)), cdb);
  }
}

TEST_F(Opcodes, RandomCommandsWithRandomDataAreAnswered) {
  std::mt19937 random(20261130);
  std::vector<uint8_t> opcodes;
  for (const CommandEntry& entry : all_commands()) opcodes.push_back(entry.opcode);
  for (int round = 0; round < 20000; ++round) {
    Bytes cdb(16);
    // Mostly zeros: else nearly every LBA is off the unit and nothing but the range check is reached.
    for (uint8_t& byte : cdb) byte = random() % 3 == 0 ? static_cast<uint8_t>(random()) : 0;
    if (random() % 8 != 0) cdb[0] = opcodes[random() % opcodes.size()];
    Bytes data(random() % 1200);
    for (uint8_t& byte : data) byte = random() % 4 == 0 ? static_cast<uint8_t>(random()) : 0;
    store->timing = random() % 2 == 0 ? Timing::at_once : Timing::later;
    ExpectSaneAnswer(Send(cdb, data), cdb);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace zvolt::scsi::test
