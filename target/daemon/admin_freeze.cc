// POST /api/freeze holds the writes of volumes and answers once they are held; POST /api/thaw lets them go. Between the
// two the client does what needs volumes at rest (a snapshot, a hook). The hold ends by itself after its time: hosts
// must not wait for a client that died. See admin_answer.h.
#include <charconv>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "target/daemon/admin_answer.h"

namespace zvolt::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr unsigned kDefaultSeconds = 10;  // hosts time out commands after 30 s and more
constexpr unsigned kMostSeconds = 25;
constexpr size_t kMostHolds = 8;  // at once; they exclude each other anyway

// One freeze: on its own thread, because the client's answer comes in the middle of it.
struct Hold {
  enum class Stage : uint8_t { begins, held, over };
  std::mutex mutex;
  std::condition_variable changed;
  Stage stage = Stage::begins;
  bool thaw = false;     // the client is done
  bool expired = false;  // its time was over before
  VolumeReport report;
};

struct Holds {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, std::shared_ptr<Hold>> known;  // those that are over are forgotten when others come
};
Holds& holds() {
  static Holds all;
  return all;
}

// Under the hold: until the client is done, or its time is over.
void stay(Hold& hold, Clock::time_point end) {
  std::unique_lock lock(hold.mutex);
  hold.stage = Hold::Stage::held;
  hold.changed.notify_all();
  if (!hold.changed.wait_until(lock, end, [&] { return hold.thaw; })) hold.expired = true;
}

void run(Control& control, const std::shared_ptr<Hold>& hold, const std::vector<std::string>& names,
         milliseconds limit) {
  VolumeReport report = control.freeze(names, [&]() -> Result<void> {
    stay(*hold, Clock::now() + limit);
    return {};
  });
  const std::scoped_lock lock(hold->mutex);
  hold->report = std::move(report);
  hold->stage = Hold::Stage::over;
  hold->changed.notify_all();
}

std::vector<std::string> names_of(std::string text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) out.push_back(text.substr(0, comma));
    text = comma == std::string::npos ? std::string() : text.substr(comma + 1);
  }
  return out;
}

std::optional<uint64_t> number_of(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Its token; nothing when there are too many.
std::optional<uint64_t> enter(const std::shared_ptr<Hold>& hold) {
  const std::scoped_lock lock(holds().mutex);
  std::erase_if(holds().known, [](const auto& entry) {
    const std::scoped_lock other(entry.second->mutex);
    return entry.second->stage == Hold::Stage::over;
  });
  if (holds().known.size() >= kMostHolds) return std::nullopt;
  holds().known[++holds().last] = hold;
  return holds().last;
}

}  // namespace

Answer freeze_order(Control& control, const Query& query) {
  const auto names = names_of(value_of(query, "luns"));
  if (names.empty()) return refuse(400, "which? give ?luns=NAME,NAME");
  const std::string asked = value_of(query, "seconds");
  const auto seconds = asked.empty() ? std::optional<uint64_t>(kDefaultSeconds) : number_of(asked);
  if (!seconds || *seconds == 0 || *seconds > kMostSeconds)
    return refuse(400, "'seconds' is 1 to " + std::to_string(kMostSeconds) + ": hosts time out");
  auto hold = std::make_shared<Hold>();
  const auto token = enter(hold);
  if (!token) return refuse(503, "too many freezes wait already; try again");
  std::thread([&control, hold, names, limit = milliseconds(*seconds * 1000)] {
    run(control, hold, names, limit);
  }).detach();
  std::unique_lock lock(hold->mutex);
  hold->changed.wait(lock, [&] { return hold->stage != Hold::Stage::begins; });
  if (!hold->report.error.empty()) return volume_answer(hold->report);
  return {200, {{"token", *token}, {"seconds", *seconds}}};
}

void end_freezes() {
  std::vector<std::shared_ptr<Hold>> all;
  {
    const std::scoped_lock lock(holds().mutex);
    for (const auto& [token, hold] : holds().known) all.push_back(hold);
  }
  for (const auto& hold : all) {
    std::unique_lock lock(hold->mutex);
    hold->expired = hold->thaw = true;
    hold->changed.notify_all();
    hold->changed.wait(lock, [&] { return hold->stage == Hold::Stage::over; });
  }
}

Answer thaw_order(Control&, const Query& query) {
  const auto token = number_of(value_of(query, "token"));
  if (!token) return refuse(400, "which? give ?token=N, as freeze answered");
  std::shared_ptr<Hold> hold;
  {
    const std::scoped_lock lock(holds().mutex);
    const auto found = holds().known.find(*token);
    if (found == holds().known.end()) return refuse(404, "there is no such freeze");
    hold = found->second;
    holds().known.erase(found);
  }
  std::unique_lock lock(hold->mutex);
  hold->thaw = true;
  hold->changed.notify_all();
  hold->changed.wait(lock, [&] { return hold->stage == Hold::Stage::over; });
  if (hold->expired) return refuse(409, "the hold was over before: writes went on meanwhile");
  return volume_answer(hold->report);
}

}  // namespace zvolt::daemon
