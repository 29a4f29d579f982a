// See journal_status.h.
#include "target/daemon/journal_status.h"

#include <algorithm>

#include "target/daemon/journal_slot.h"

namespace zvolt::daemon {
namespace {

using backing::journal::JournaledStore;
using backing::journal::Statistics;
using nlohmann::json;

const char* mode_name(JournaledStore::Mode mode) {
  switch (mode) {
    case JournaledStore::Mode::journaled:
      return "journaled";
    case JournaledStore::Mode::leaving:
      return "leaving";
    case JournaledStore::Mode::direct:
      return "direct";
    case JournaledStore::Mode::read_only:
      return "read-only";
    case JournaledStore::Mode::refused:
      return "refused";
  }
  return "?";
}

// Upper bound of the bucket that holds the given part of all commits; bucket i ends at 2^i us.
uint64_t percentile_us(const Statistics& s, double part) {
  uint64_t seen = 0;
  for (size_t i = 0; i < s.commit_latency.size(); ++i) {
    seen += s.commit_latency[i];
    if (s.commits > 0 && static_cast<double>(seen) >= part * static_cast<double>(s.commits)) return uint64_t{1} << i;
  }
  return 0;
}

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

json statistics_json(const Statistics& s) {
  return {{"ring_bytes", s.ring_bytes},
          {"ring_used", s.ring_used},
          {"fill_percent", 100.0 * ratio(s.ring_used, s.ring_bytes)},
          {"memory_used", s.memory_used},
          {"dirty_bytes", s.dirty_bytes},
          {"waiting", s.waiting},
          {"waited", s.waited},
          {"refused_busy", s.refused_busy},
          {"commits", s.commits},
          {"records", s.records},
          {"records_per_commit", ratio(s.records, s.commits)},
          {"bytes_committed", s.bytes_committed},
          {"commit_p50_us", percentile_us(s, 0.50)},
          {"commit_p99_us", percentile_us(s, 0.99)},
          {"forwarded", s.forwarded},
          {"bytes_in", s.bytes_in},
          {"bytes_written_back", s.bytes_written_back},
          {"write_backs", s.write_backs},
          {"partial_in", s.partial_in},
          {"partial_written_back", s.partial_written_back},
          {"rmw_avoided", s.partial_in > s.partial_written_back ? s.partial_in - s.partial_written_back : 0},
          {"discards_dropped", s.discards_dropped},
          {"store_errors", s.store_errors}};
}

json replay_json(const backing::journal::ReplayReport& report) {
  json out = {{"records", report.records}, {"torn", report.torn}, {"torn_text", report.torn_text}};
  out["luns"] = json::array();
  for (const auto& lun : report.luns)
    out["luns"].push_back({{"uuid", uuid_text(lun.uuid)}, {"records", lun.records}, {"bytes", lun.bytes}});
  return out;
}

// Volumes that the log has data of and that are not served by it now.
json waiting_json(const OpenJournal& open, const std::vector<OpenVolume>& volumes) {
  json out = json::array();
  for (const auto& lun : open.journal->replayed().luns) {
    const auto attached = std::any_of(volumes.begin(), volumes.end(), [&](const OpenVolume& volume) {
      return volume.uuid == lun.uuid && volume.slot && volume.slot->journaled();
    });
    if (!attached) out.push_back({{"uuid", uuid_text(lun.uuid)}, {"state", "offline"}, {"dirty_bytes", lun.bytes}});
  }
  return out;
}

}  // namespace

json journals_json(const Journals& journals, const std::vector<OpenVolume>& volumes) {
  json out = json::array();
  for (const JournalView& view : journals.views()) {
    json one = {{"name", view.config.name}, {"path", view.config.path}, {"problem", view.problem}};
    if (view.open) {
      one["uuid"] = uuid_text(view.open->journal->uuid());
      one["epoch"] = view.open->journal->epoch();
      const std::string failure = view.open->journal->failure();
      if (!failure.empty()) one["problem"] = failure;
      one["statistics"] = statistics_json(view.open->journal->statistics());
      one["replayed"] = replay_json(view.open->journal->replayed());
      one["offline"] = waiting_json(*view.open, volumes);
    }
    one["volumes"] = json::array();
    for (const OpenVolume& volume : volumes)
      if (volume.config.journal == view.config.name)
        one["volumes"].push_back({{"volume", volume.config.name}, {"journal", journal_of_volume_json(volume)}});
    out.push_back(std::move(one));
  }
  return out;
}

json journal_of_volume_json(const OpenVolume& volume) {
  if (!volume.slot) return nullptr;
  json out = {{"name", volume.config.journal}};
  const auto store = volume.slot->journaled();
  if (!store) {
    out["mode"] = volume.slot->empty() ? "not attached" : "direct";
    return out;
  }
  const auto status = store->status();
  out.update({{"mode", mode_name(status.mode)},
              {"dirty_bytes", status.dirty_bytes},
              {"dirty_extents", status.dirty_extents},
              {"ring_bytes", status.ring_bytes},
              {"store_away", status.store_away},
              {"store_problem", status.store_problem},
              {"replaying", status.replaying}});
  return out;
}

}  // namespace zvolt::daemon
