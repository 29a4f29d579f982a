// Pace: an initiator that waits for its answers is never delayed; one that has many unread ones is, but for a bounded
// time.
#include "target/session/pace.h"

#include <gtest/gtest.h>

namespace zvolt::iscsi {
namespace {

constexpr uint64_t kMicrosecond = 1000;

// One burst: `commands` arrive `gap_ns` apart, with `unread` answers that the initiator has not looked at.
class PaceTest : public testing::Test {
 protected:
  uint64_t Burst(uint32_t commands, uint32_t unread, uint64_t gap_ns) {
    pace_.begin(stat_sn_);
    for (uint32_t i = 0; i < commands; ++i) pace_.command(stat_sn_ - unread);
    now_ += gap_ns * commands;
    stat_sn_ += commands;
    return pace_.end(now_);
  }
  Pace pace_;
  uint32_t stat_sn_ = 0xfffffff0;  // wraps during the test
  uint64_t now_ = 1'000'000;
};

TEST_F(PaceTest, QueueDepthOneIsNeverDelayed) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Burst(1, 0, 20 * kMicrosecond), 0u);
}

TEST_F(PaceTest, BatchesWhoseAnswersWereAllReadAreNeverDelayed) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Burst(32, 0, 5 * kMicrosecond), 0u);
}

TEST_F(PaceTest, AFewUnreadAnswersAreNoReasonToWait) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Burst(1, Pace::kUnreadMin - 1, 10 * kMicrosecond), 0u);
}

TEST_F(PaceTest, ABusyInitiatorIsLeftHalfOfItsUnreadAnswers) {
  uint64_t pause = 0;
  for (int i = 0; i < 200; ++i) pause = Burst(2, 10, 10 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(pause), 50.0 * kMicrosecond, 2.0 * kMicrosecond);
}

TEST_F(PaceTest, AFastInitiatorGivesNoPauseThatIsWorthATimer) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Burst(2, 8, kMicrosecond), 0u);
}

TEST_F(PaceTest, NoPauseIsLongerThanTheBound) {
  for (int i = 0; i < 200; ++i) EXPECT_LE(Burst(1, 120, 1000 * kMicrosecond), Pace::kPauseMaxNs);
}

TEST_F(PaceTest, AnAcknowledgementFromTheFutureCountsAsNoneUnread) {
  pace_.begin(100);
  pace_.command(5000);
  EXPECT_EQ(pace_.end(now_), 0u);
}

TEST_F(PaceTest, ABurstWithoutCommandsIsNotDelayed) {
  for (int i = 0; i < 50; ++i) Burst(2, 30, 10 * kMicrosecond);
  pace_.begin(stat_sn_);
  EXPECT_EQ(pace_.end(now_ + 10 * kMicrosecond), 0u);
}

}  // namespace
}  // namespace zvolt::iscsi
