// Stages of a command delayed on purpose, one at a time: the stage that was delayed is the one that the statistics
// blame, within 2 %. The delays are so long that a loaded machine's scheduling does not matter. A server in the test's
// own process.
#include <array>
#include <chrono>
#include <thread>

#include "tests/integration/live_server.h"

namespace zvolt::test {
namespace {

using stats::Stage;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDelay{2000};  // 2 % are 40 ms
constexpr double kError = 0.02;
constexpr double kNotBlamed = 0.1;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Blame : public LiveServer {
 protected:
  void SetUp() override { start({node(kFirst, {{0, a_.unit}})}, 1); }

  // The peer does something else for a while: there is no event to wait for, the delay is what is tested.
  static double dawdle() {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(kDelay);
    return seconds_since(begin);
  }
  void delay_store(backing::IoKind kind) {
    backing::FaultRule rule;
    rule.fault = backing::Fault::delay;
    rule.any_kind = false;
    rule.kind = kind;
    rule.count = 1;
    rule.delay = kDelay;
    a_.store->set_rules({rule});
  }
  // Seconds that commands of this class spent in each stage, all together.
  std::array<double, stats::kStages> spent(scsi::OpClass op) const {
    std::array<double, stats::kStages> out{};
    for (const auto& lun : server_->lun_stats()) {
      const auto summary = lun->summary(op);
      for (size_t i = 0; i < stats::kStages; ++i)
        out[i] = summary.stages[i].mean_ns() * static_cast<double>(summary.stages[i].count()) / 1e9;
    }
    return out;
  }
  // The blamed stage shows what was injected; the others have no more than their own time, which on a busy machine can
  // be some dozens of milliseconds, and all stages add up to the whole.
  // A command is counted when its answer was given to the socket, which may be after the client has it: a NOP comes in
  // a later burst.
  void expect_blamed(RawClient& client, scsi::OpClass op, Stage stage, double injected) {
    settle(client);
    const auto seconds = spent(op);
    double sum = 0;
    for (size_t i = 0; i < stats::kStages; ++i) {
      if (i == static_cast<size_t>(Stage::total)) continue;
      sum += seconds[i];
      if (i == static_cast<size_t>(stage)) {
        EXPECT_NEAR(seconds[i], injected, kError * injected) << stats::kStageNames[i];
      } else {
        EXPECT_LT(seconds[i], kNotBlamed * injected) << stats::kStageNames[i];
      }
    }
    EXPECT_NEAR(sum, seconds[static_cast<size_t>(Stage::total)], 1e-3);
  }

  Volume a_ = volume("a", 0xa1);
};

constexpr double kInjected = std::chrono::duration<double>(kDelay).count();

TEST_F(Blame, ASlowStoreIsTheStoresFaultForAReadAndAWrite) {
  RawClient client = session(kFirst);
  delay_store(backing::IoKind::read);
  EXPECT_TRUE(client.command_in(read10(0, 8), 4096).good());
  expect_blamed(client, scsi::OpClass::read, Stage::store, kInjected);
  delay_store(backing::IoKind::write);
  EXPECT_TRUE(client.command_out(write10(0, 8), pattern(4096, 1), 4096).good());
  expect_blamed(client, scsi::OpClass::write, Stage::store, kInjected);
}

TEST_F(Blame, ASlowFlushIsTheStoresFault) {
  RawClient client = session(kFirst);
  delay_store(backing::IoKind::flush);
  EXPECT_TRUE(client.command_none(synchronize_cache10()).good());
  expect_blamed(client, scsi::OpClass::flush, Stage::store, kInjected);
}

TEST_F(Blame, ALimitIsNobodysFaultButTheLimits) {
  RawClient client = session(kFirst);
  const auto rate = static_cast<uint64_t>(4096 / kInjected);  // bytes a second: the second command waits kDelay
  a_.unit->set_limit({.iops = 0, .bandwidth = rate, .burst = milliseconds(0)});
  EXPECT_TRUE(client.command_in(read10(0, 8), 4096).good());
  EXPECT_TRUE(client.command_in(read10(0, 8), 4096).good());
  expect_blamed(client, scsi::OpClass::read, Stage::limit, kInjected);
}

TEST_F(Blame, AClientThatIsSlowToSendIsSeenInReceive) {
  RawClient client = session(kFirst, 1, {{"InitialR2T", "Yes"}, {"ImmediateData", "No"}});
  const uint32_t tag = begin_write(client, 0, 0, pattern(65536, 1), 0);
  Pdu r2t;
  ASSERT_EQ(client.receive(r2t), Arrived::pdu);
  ASSERT_EQ(r2t.opcode(), iscsi::Opcode::r2t);
  const uint32_t transfer_tag = r2t.as<iscsi::R2T>().target_transfer_tag.value();
  const double injected = dawdle();
  client.send_data_out(tag, transfer_tag, 0, pattern(65536, 1), 0, true);
  EXPECT_TRUE(client.finish(tag).good());
  expect_blamed(client, scsi::OpClass::write, Stage::receive, injected);
}

}  // namespace
}  // namespace zvolt::test
