// Pace: when a connection's next wake-up may wait. Every command carries ExpStatSN, so we know how many of our answers
// the initiator had not looked at yet when it sent it. While there are several, the initiator is busy and nothing waits
// for us: a wake-up per command would only cost both sides. We then come back after it has worked off half of them. An
// initiator that waits for its answers (queue depth 1, or batches) has none unread and is never delayed. Plain state of
// one connection.
//
// Measured, 4 KiB random writes at depth 32 on loopback, one core each: 1.5 commands a wake-up and 15 us of CPU each
// without, 13 commands and 9 us with it, at the same or more operations a second.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zvolt::iscsi {

class Pace {
 public:
  static constexpr uint32_t kUnreadMin = 6;         // answers; fewer are worked off before a timer fires
  static constexpr uint64_t kPauseMinNs = 15'000;   // below, a timer costs more than the wake-ups it saves
  static constexpr uint64_t kPauseMaxNs = 100'000;  // the most that a wrong guess can cost

  void begin(uint32_t stat_sn) {
    stat_sn_ = stat_sn;
    commands_ = 0;
  }
  void command(uint32_t exp_stat_sn) {
    ++commands_;
    const auto unread = static_cast<int32_t>(stat_sn_ - exp_stat_sn);
    unread_ = unread > 0 ? static_cast<uint32_t>(unread) : 0;
  }
  uint32_t commands() const { return commands_; }  // of this burst
  // The burst is over: nanoseconds that the next look at the socket may wait; 0: none.
  uint64_t end(uint64_t now_ns) {
    const bool first = last_ns_ == 0;
    const uint64_t elapsed = now_ns - last_ns_;
    last_ns_ = now_ns;
    if (commands_ == 0 || first) return 0;
    per_command_ns_ = (per_command_ns_ * 7 + std::min(elapsed / commands_, kPauseMaxNs)) / 8;
    if (unread_ < kUnreadMin) return 0;
    const uint64_t pause = std::min(per_command_ns_ * (unread_ / 2), kPauseMaxNs);
    return pause < kPauseMinNs ? 0 : pause;
  }

 private:
  uint32_t stat_sn_ = 0;         // when the burst began
  uint32_t commands_ = 0;        // of this burst
  uint32_t unread_ = 0;          // answers sent before the burst that the newest command does not acknowledge
  uint64_t per_command_ns_ = 0;  // moving average of what a command takes the initiator
  uint64_t last_ns_ = 0;
};

}  // namespace zvolt::iscsi
