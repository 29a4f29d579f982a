// Pulse: a thread that does one thing again and again, each `period` and at once when woken. What it does may hang for
// ever (a device, a zfs command): so it is never joined without a limit, and owns all that it uses. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace zvolt::daemon {

class Pulse {
 public:
  using Clock = std::chrono::steady_clock;

  // `beat` is called on the new thread with true when it was woken before its time; it must not throw and must own what
  // it refers to. `name`: of the thread, 15 bytes count.
  Pulse(const std::string& name, std::chrono::milliseconds period, std::function<void(bool woken)> beat);
  ~Pulse();  // stops, does not wait
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  void wake();
  void stop();
  // Until the thread is over after stop(). False: it still is in its beat at `end`.
  bool join_until(Clock::time_point end);
  // How long the present beat lasts already; zero between two.
  std::chrono::milliseconds busy_for() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zvolt::daemon
