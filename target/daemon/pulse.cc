// See pulse.h.
#include "target/daemon/pulse.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace zvolt::daemon {

struct Pulse::State {
  void run();

  std::function<void(bool)> beat;
  std::chrono::milliseconds period{};
  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  bool woken = false, stopping = false, over = false;
  std::optional<Clock::time_point> busy_since;
};

void Pulse::State::run() {
  std::unique_lock lock(mutex);
  auto due = Clock::now() + period;
  while (!stopping) {
    changed.wait_until(lock, due, [this] { return stopping || woken; });
    if (stopping) break;
    const bool early = std::exchange(woken, false) && Clock::now() < due;
    if (!early) due = Clock::now() + period;
    busy_since = Clock::now();
    lock.unlock();
    beat(early);
    lock.lock();
    busy_since.reset();
  }
  lock.unlock();
  beat = nullptr;  // what it owns ends here, not with who stopped us
  lock.lock();
  over = true;
  changed.notify_all();
}

Pulse::Pulse(const std::string& name, std::chrono::milliseconds period, std::function<void(bool woken)> beat)
    : state_(std::make_shared<State>()) {
  state_->beat = std::move(beat);
  state_->period = period;
  std::thread([state = state_, name] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    state->run();
  }).detach();
}

Pulse::~Pulse() {
  stop();
}

void Pulse::wake() {
  std::scoped_lock lock(state_->mutex);
  state_->woken = true;
  state_->changed.notify_all();
}

void Pulse::stop() {
  std::scoped_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

bool Pulse::join_until(Clock::time_point end) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(lock, end, [this] { return state_->over; });
}

std::chrono::milliseconds Pulse::busy_for() const {
  std::scoped_lock lock(state_->mutex);
  if (!state_->busy_since) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *state_->busy_since);
}

}  // namespace zvolt::daemon
