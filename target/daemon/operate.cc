// What the operator does to one volume by hand: offline, online, resize. See apply.h.
#include <spdlog/spdlog.h>

#include <charconv>

#include "target/daemon/apply.h"
#include "target/daemon/final_flush.h"

namespace zvolt::daemon {
namespace {

constexpr std::chrono::milliseconds kOfflineFlush{10'000};

VolumeReport refuse(const std::string& name, unsigned status, const std::string& why) {
  return {name, why, {}, status};
}

}  // namespace

const OpenVolume* find_volume(const Composition& composition, const std::string& text) {
  if (const OpenVolume* volume = composition.volume(text)) return volume;
  const size_t slash = text.rfind('/');
  if (slash == std::string::npos) return nullptr;
  uint16_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, number);
  if (error != std::errc() || stop != end) return nullptr;
  for (const config::Target& target : composition.config.targets)
    for (const config::Lun& lun : target.luns)
      if (target.name == text.substr(0, slash) && lun.number == number) return composition.volume(lun.volume);
  return nullptr;
}

namespace {

std::string size_text(uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

}  // namespace

VolumeReport Control::set_offline(const std::string& name, bool offline) {
  const auto running = current();
  const OpenVolume* volume = find_volume(*running, name);
  if (volume == nullptr) return refuse(name, 404, "there is no volume or LUN '" + name + "'");
  VolumeReport report{volume->config.name, {}, {}, 200};
  spdlog::info("volume {}: taken {} by the operator", report.volume, offline ? "offline" : "online");
  if (offline) {
    const auto drained = set_.journals().drain({*volume}, kOfflineFlush);
    if (!drained)
      spdlog::warn("volume {}: goes offline with data in its journal: {}", report.volume, drained.error().message);
  }
  if (volume->followed) {
    const auto stands = volume->followed->set_offline(offline);  // flushes before it closes
    if (volume->health->report(stands)) volume->followed->set_flushes_told();
  } else {
    if (offline) {
      volume->health->set_offline(true);
      const FlushReport flushed = flush_all({*volume}, kOfflineFlush);
      if (!flushed.lost.empty()) return refuse(report.volume, 500, "it is offline, but " + flushed.lost.front());
    } else {
      volume->health->set_offline(false);
    }
  }
  const auto view = volume->health->view();
  report.text = std::string(state_text(view.state)) + (view.reason.empty() ? "" : ": " + view.reason);
  if (!offline && !view.reason.empty())
    return refuse(report.volume, 503, "it is online, but not served: " + view.reason);
  return report;
}

VolumeReport Control::resize(const std::string& name, uint64_t size) {
  std::scoped_lock one(change_mutex_);
  const auto running = current();
  const OpenVolume* volume = find_volume(*running, name);
  if (volume == nullptr) return refuse(name, 404, "there is no volume or LUN '" + name + "'");
  VolumeReport report{volume->config.name, {}, {}, 200};
  const uint64_t before = volume->store->size_bytes();
  if (size != 0) {
    if (size < before)
      return refuse(report.volume, 409,
                    "it has " + size_text(before) + ": to shrink it, write 'provision: { size: ..., " +
                        "allow_shrink: true }' in the configuration and apply it");
    const auto resized = resize_store(*volume, size, false);
    if (!resized) return refuse(report.volume, 500, resized.error().message);
  } else if (volume->followed) {
    volume->followed->look();
  } else {
    const auto seen = volume->store->refresh_size();
    if (!seen) return refuse(report.volume, 500, seen.error().message);
  }
  const uint64_t now = volume->store->size_bytes();
  report.text =
      now == before ? size_text(now) + ", as before" : size_text(before) + " before, " + size_text(now) + " now";
  const bool configured = volume->config.provision && volume->config.provision->size.value_or(now) != now;
  if (configured) report.text += "; write that size in the configuration too, or the next apply says it is too large";
  return report;
}

}  // namespace zvolt::daemon
