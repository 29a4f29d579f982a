// Rate limits and the cap of requests in one unit's store, seen from the wire: what waits, what does not, and that a
// change is felt at once.
#include <chrono>
#include <set>
#include <thread>

#include "target/limits.h"
#include "tests/integration/live_server.h"

namespace zvolt::test {
namespace {

using iscsi::Opcode;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Small unsolicited data makes the window as large as it gets: a hundred commands fit.
const Keys kDeep = {{"FirstBurstLength", "4096"}};

class Limit : public LiveServer {
 protected:
  void SetUp() override { start({node(kFirst, {{0, a.unit}, {1, b.unit}})}, 1); }

  uint64_t delayed(scsi::OpClass op) const {
    for (const auto& stats : server_->lun_stats())
      if (stats->name() == "a") return stats->summary(op).stages[static_cast<size_t>(stats::Stage::limit)].count();
    return 0;
  }
  // Answers of that many commands, in whatever order they come.
  static void take_answers(RawClient& client, std::set<uint32_t> tags) {
    while (!tags.empty()) {
      Pdu pdu;
      ASSERT_EQ(client.receive(pdu), Arrived::pdu);
      const bool status = pdu.opcode() == Opcode::scsi_response ||
                          (pdu.opcode() == Opcode::data_in && (pdu.bhs.flags & iscsi::DataIn::kStatus) != 0);
      if (status) tags.erase(pdu.bhs.initiator_task_tag.value());
    }
  }

  Volume a = volume("a", 0xa1), b = volume("b", 0xb2);
};

TEST_F(Limit, ReadsComeAtTheRateAndTheirDelayIsAStage) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 50, .bandwidth = 0, .burst = milliseconds(0)});
  const auto begin = Clock::now();
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(client.command_in(read10(0, 8), 4096).good());
  EXPECT_GE(Clock::now() - begin, milliseconds(195));  // ten intervals of 20 ms, less the slack
  settle(client);                                      // a command is counted once its answer was sent
  EXPECT_GE(delayed(scsi::OpClass::read), 9u);
}

TEST_F(Limit, UnsolicitedWritesAreStoredAtOnceAndAnsweredLater) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 0, .bandwidth = 40960, .burst = milliseconds(0)});
  EXPECT_TRUE(client.command_out(write10(0, 8), pattern(4096, 1), 4096).good());
  const auto begin = Clock::now();
  const uint32_t tag = begin_write(client, 0, 8, pattern(4096, 2), 4096);
  settle(client);
  a.unit->set_limit({});  // or the read would wait too
  EXPECT_EQ(medium(client, 0, 8, 8), pattern(4096, 2));
  (void)tag;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(Limit, AnAnswerToAWriteComesWhenItsTimeHasCome) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 0, .bandwidth = 40960, .burst = milliseconds(0)});
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(client.command_out(write10(0, 8), pattern(4096, i), 4096).good());
  EXPECT_GE(Clock::now() - begin, milliseconds(295));
  settle(client);
  EXPECT_GE(delayed(scsi::OpClass::write), 3u);
}

TEST_F(Limit, R2tComesWhenItsTimeHasCome) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 5, .bandwidth = 0, .burst = milliseconds(0)});
  EXPECT_TRUE(client.command_out(write10(0, 16), pattern(8192, 1)).good());
  const auto begin = Clock::now();
  const uint32_t tag = begin_write(client, 0, 0, pattern(8192, 2), 0);
  Pdu r2t;
  ASSERT_EQ(client.receive(r2t), Arrived::pdu);
  EXPECT_EQ(r2t.opcode(), Opcode::r2t);
  EXPECT_GE(Clock::now() - begin, milliseconds(100));
  const uint32_t transfer_tag = r2t.as<iscsi::R2T>().target_transfer_tag.value();
  client.send_data_out(tag, transfer_tag, 0, pattern(8192, 2), 0, true);
  EXPECT_TRUE(client.finish(tag).good());
}

TEST_F(Limit, OtherVolumesAndOtherCommandsAreNotDelayed) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
  std::set<uint32_t> waiting;
  for (int i = 0; i < 60; ++i) waiting.insert(begin_read(client, 0, 0, 1));
  const auto begin = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.command_in(read10(0, 8), 4096, 1).good());
  EXPECT_TRUE(client.command_none(test_unit_ready()).good());
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  a.unit->set_limit({});
}

TEST_F(Limit, LiftingItLetsThoseGoThatWait) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
  std::set<uint32_t> waiting;
  for (int i = 0; i < 60; ++i) waiting.insert(begin_read(client, 0, 0, 1));
  settle(client);
  const auto begin = Clock::now();
  a.unit->set_limit({});
  waiting.erase(waiting.begin());  // it went at once, and settle() has thrown its answer away
  take_answers(client, waiting);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));  // a minute otherwise
}

TEST_F(Limit, ACommandThatWaitsCanBeAborted) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
  EXPECT_TRUE(client.command_in(read10(0, 1), 512).good());
  for (int i = 0; i < 60; ++i) begin_read(client, 0, 0, 1);
  auto abort = make<iscsi::TaskManagementRequest>(Opcode::task_management_request, 0x82);  // ABORT TASK SET
  abort.opcode_byte |= iscsi::kImmediate;
  abort.initiator_task_tag = client.next_task_tag();
  abort.cmd_sn = client.cmd_sn();
  ASSERT_TRUE(client.send(abort));
  for (;;) {  // one or two reads may have been answered before
    Pdu answer;
    ASSERT_EQ(client.receive(answer), Arrived::pdu);
    if (answer.opcode() == Opcode::task_management_response) break;
  }
  EXPECT_EQ(server_->stop(std::chrono::seconds(5)), 0u);
}

TEST_F(Limit, ASessionThatEndsLeavesNobodyWaiting) {
  {
    RawClient client = session(kFirst, 2, kDeep);
    a.unit->set_limit({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
    for (int i = 0; i < 60; ++i) begin_read(client, 0, 0, 1);
    settle(client);
    client.reset();
  }
  a.unit->set_limit({});
  RawClient next = session(kFirst, 2, kDeep);
  EXPECT_TRUE(next.command_in(read10(0, 1), 512).good());
}

TEST_F(Limit, AStopDoesNotWaitForIt) {
  RawClient client = session(kFirst, 2, kDeep);
  a.unit->set_limit({.iops = 1, .bandwidth = 0, .burst = milliseconds(0)});
  for (int i = 0; i < 60; ++i) begin_read(client, 0, 0, 1);
  settle(client);
  EXPECT_EQ(server_->stop(std::chrono::seconds(20)), 0u);  // a minute otherwise
}

class Cap : public Limit {
 protected:
  static constexpr int kEach = 100;  // commands of a session; two have more than the cap
  // Two sessions that have more in flight than the cap; returns their tags.
  std::pair<std::set<uint32_t>, std::set<uint32_t>> fill(RawClient& one, RawClient& two, bool write) {
    std::pair<std::set<uint32_t>, std::set<uint32_t>> tags;
    for (int i = 0; i < kEach; ++i) {
      for (auto [client, set] : {std::pair{&one, &tags.first}, std::pair{&two, &tags.second}}) {
        const auto lba = static_cast<uint32_t>(i * 8);
        set->insert(write ? begin_write(*client, 0, lba, pattern(4096, lba), 4096) : begin_read(*client, 0, lba, 8));
      }
    }
    settle(one);
    settle(two);
    return tags;
  }
  void expect_capped(bool write) {
    RawClient one = session(kFirst, 2, kDeep), two = session(kFirst, 2, kDeep), other = session(kFirst, 2, kDeep);
    stall(a);
    const auto tags = fill(one, two, write);
    EXPECT_EQ(a.store->stalled(), iscsi::limits::kUnitInFlight);
    EXPECT_TRUE(other.command_out(write10(0, 64), pattern(32768, 1), 0, 1).good());
    EXPECT_TRUE(one.command_in(read10(0, 8), 4096, 1).good());
    EXPECT_TRUE(other.command_in(inquiry(96), 96).good());
    go_on(a);
    take_answers(one, tags.first);
    take_answers(two, tags.second);
    if (write) {
      EXPECT_EQ(medium(other, 0, (kEach - 1) * 8, 8), pattern(4096, (kEach - 1) * 8));
    }
  }
};

TEST_F(Cap, ReadsOfAStalledStoreAreCappedAndOthersServed) {
  expect_capped(false);
}

TEST_F(Cap, WritesOfAStalledStoreAreCappedAndOthersServed) {
  expect_capped(true);
}

TEST_F(Cap, WhoWaitsBehindTheCapCanBeAborted) {
  RawClient one = session(kFirst, 2, kDeep), two = session(kFirst, 2, kDeep);
  stall(a);
  fill(one, two, true);
  ASSERT_EQ(a.store->stalled(), iscsi::limits::kUnitInFlight);
  two.reset();
  one.reset();
  RawClient next = session(kFirst, 2, kDeep);
  EXPECT_TRUE(next.command_in(read10(0, 8), 4096, 1).good());
  go_on(a);
  EXPECT_TRUE(next.command_out(write10(0, 8), pattern(4096, 7), 4096).good());
  EXPECT_EQ(medium(next, 0, 0, 8), pattern(4096, 7));
}

}  // namespace
}  // namespace zvolt::test
