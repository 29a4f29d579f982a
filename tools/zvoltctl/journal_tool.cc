// See journal_tool.h.
#include "tools/zvoltctl/journal_tool.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backing/journal/blocking.h"
#include "backing/journal/journal.h"
#include "backing/journal/journaled_store.h"
#include "backing/journal/replay.h"
#include "backing/journal/superblock.h"
#include "config/syntax.h"
#include "target/daemon/journal_log.h"

namespace zvolt::control {
namespace {

namespace journal = backing::journal;
using nlohmann::ordered_json;
using StorePtr = std::shared_ptr<backing::BlockStore>;

constexpr int kFailed = 1, kWrongUse = 2;
constexpr std::chrono::hours kReplayLimit{24};  // a store that is slow is waited for; ^C ends it, and nothing is lost

int fail(const std::string& why) {
  std::fprintf(stderr, "zvoltctl: %s\n", why.c_str());
  return kFailed;
}

journal::Blocking blocking() {
  return journal::Blocking([] { return backing::make_engine({}); });
}

std::optional<journal::Uuid> uuid_of(const std::string& text) {
  const auto canonical = config::parse_uuid(text);
  if (!canonical) return std::nullopt;
  journal::Uuid out{};
  size_t digit = 0;
  for (const char c : *canonical) {
    if (c == '-') continue;
    const auto value = static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    out[digit / 2] = static_cast<uint8_t>(out[digit / 2] << 4 | value);
    ++digit;
  }
  return out;
}

const char* kind_name(journal::RecordKind kind) {
  switch (kind) {
    case journal::RecordKind::write:
      return "write";
    case journal::RecordKind::write_zeroes:
      return "write_zeroes";
    case journal::RecordKind::discard:
      return "discard";
    case journal::RecordKind::pointer:
      return "pointer";
    case journal::RecordKind::superseded:
      return "superseded";
    case journal::RecordKind::barrier:
      return "barrier";
  }
  return "?";
}

struct LunSum {
  uint64_t records = 0, bytes = 0;
};

// What reading a log finds.
struct Reading {
  journal::Superblock superblock;
  std::string other_fault;
  std::map<std::string, LunSum> luns;
  ordered_json records = ordered_json::array();
  journal::RingEnd end;
  std::string damage;  // not empty: records that were durable are lost
};

void take_group(Reading& out, const journal::Group& group, bool records) {
  for (const journal::Descriptor& record : group.records) {
    LunSum& sum = out.luns[journal::uuid_text(record.lun)];
    if (record.kind == journal::RecordKind::superseded) sum = {};
    if (record.kind != journal::RecordKind::superseded && record.kind != journal::RecordKind::barrier) {
      ++sum.records;
      sum.bytes += record.length;
    }
    if (!records) continue;
    out.records.push_back({{"sequence", record.sequence},
                           {"epoch", group.header.epoch},
                           {"kind", kind_name(record.kind)},
                           {"lun", journal::uuid_text(record.lun)},
                           {"offset", record.offset},
                           {"length", record.length},
                           {"forwarded", (record.flags & journal::kForwarded) != 0}});
  }
}

Result<Reading> read_log(const std::string& path, bool records) {
  const auto log = daemon::open_log(path, 0);
  if (!log) return log.error();
  journal::Blocking io = blocking();
  const auto slots = journal::read_superblocks(**log, io);
  if (!slots) return slots.error();
  Reading out;
  out.superblock = slots->newest;
  out.other_fault = slots->other_fault;
  const auto end = journal::read_ring(
      **log, out.superblock, io, [&](const journal::Group& group, std::span<const uint8_t>, const journal::GroupSpan&) {
        take_group(out, group, records);
      });
  if (end)
    out.end = *end;
  else if (end.error().code == EBADMSG)
    out.damage = end.error().message;
  else
    return end.error();
  return out;
}

ordered_json to_json(const Reading& r) {
  ordered_json luns = ordered_json::array();
  for (const auto& [uuid, sum] : r.luns)
    luns.push_back({{"uuid", uuid}, {"records", sum.records}, {"bytes", sum.bytes}});
  ordered_json out = {{"uuid", journal::uuid_text(r.superblock.uuid)},
                      {"format", journal::kFormatVersion},
                      {"generation", r.superblock.generation},
                      {"epoch", r.superblock.epoch},
                      {"clean", r.superblock.clean},
                      {"sector", r.superblock.sector},
                      {"ring_bytes", r.superblock.ring_bytes},
                      {"tail_sequence", r.superblock.tail.sequence},
                      {"tail_position", r.superblock.tail.position},
                      {"watermark", r.superblock.watermark},
                      {"span", r.superblock.span},
                      {"other_superblock", r.other_fault},
                      {"groups", r.end.groups},
                      {"last_sequence", r.end.head.sequence - 1},
                      {"head_position", r.end.head.position},
                      {"torn", r.end.torn},
                      {"torn_text", r.end.torn_text},
                      {"damage", r.damage},
                      {"luns", std::move(luns)}};
  if (!r.records.empty()) out["records"] = r.records;
  return out;
}

void print_text(const Reading& r) {
  const ordered_json all = to_json(r);
  for (const auto& [key, value] : all.items()) {
    if (value.is_array()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!text.empty()) std::printf("%-16s %s\n", key.c_str(), text.c_str());
  }
  for (const auto& [uuid, sum] : r.luns)
    std::printf("lun %s: %llu records, %llu bytes\n", uuid.c_str(), static_cast<unsigned long long>(sum.records),
                static_cast<unsigned long long>(sum.bytes));
  for (const auto& record : r.records) std::printf("%s\n", record.dump().c_str());
}

// A journal that is worked on by hand: no state outside it is kept, the daemon's is looked at by its next start.
Result<std::unique_ptr<journal::Journal>> open_by_hand(const std::string& path) {
  auto log = daemon::open_log(path, 0);
  if (!log) return log.error();
  journal::JournalOptions options;
  options.report = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  return journal::Journal::open(std::move(*log), std::move(options));
}

}  // namespace

int journal_inspect(const std::string& path, bool records, bool json) {
  const auto reading = read_log(path, records);
  if (!reading) return fail(reading.error().message);
  if (json)
    std::printf("%s\n", to_json(*reading).dump(2).c_str());
  else
    print_text(*reading);
  return 0;
}

int journal_verify(const std::string& path, bool json) {
  const auto reading = read_log(path, false);
  if (!reading) return fail(reading.error().message);
  if (json) std::printf("%s\n", to_json(*reading).dump(2).c_str());
  if (!reading->damage.empty()) return fail(reading->damage);
  if (!reading->other_fault.empty())
    std::fprintf(stderr, "one superblock of two is not good: %s\n", reading->other_fault.c_str());
  if (reading->end.torn)
    std::fprintf(stderr, "%s (it was never acknowledged, and is dropped)\n", reading->end.torn_text.c_str());
  if (!json)
    std::printf("%s: good, %llu groups, up to sequence %llu\n", path.c_str(),
                static_cast<unsigned long long>(reading->end.groups),
                static_cast<unsigned long long>(reading->end.head.sequence - 1));
  return 0;
}

int journal_replay(const std::string& path, const std::string& lun, const std::string& store_path) {
  const auto uuid = uuid_of(lun);
  if (!uuid) return fail("'" + lun + "' is no UUID; 'zvoltctl journal inspect' shows those that it has"), kWrongUse;
  auto opened = open_by_hand(path);
  if (!opened) return fail(opened.error().message);
  const auto& luns = (*opened)->replayed().luns;
  const auto found = std::find_if(luns.begin(), luns.end(), [&](const auto& each) { return each.uuid == *uuid; });
  if (found == luns.end()) return fail(path + " holds nothing of " + lun);
  auto store = daemon::open_log(store_path, 0);  // a device or file, opened in the same way
  if (!store) return fail(store.error().message);
  {
    const auto attached =
        (*opened)->attach({.uuid = *uuid, .name = lun, .store = *store, .admit_replay = {}, .made_durable = {}});
    if (!attached) return fail(attached.error().message);
    const auto closed = (*opened)->close(kReplayLimit);
    if (!closed) return fail(closed.error().message);
  }
  std::printf("%s: %llu bytes of %s written to %s\n", path.c_str(), static_cast<unsigned long long>(found->bytes),
              lun.c_str(), store_path.c_str());
  return 0;
}

int journal_discard(const std::string& path, const std::string& lun) {
  const auto uuid = uuid_of(lun);
  if (!uuid) return fail("'" + lun + "' is no UUID; 'zvoltctl journal inspect' shows those that it has"), kWrongUse;
  auto opened = open_by_hand(path);
  if (!opened) return fail(opened.error().message);
  const auto discarded = (*opened)->discard(*uuid);
  if (!discarded) return fail(discarded.error().message);
  const auto closed = (*opened)->close(std::chrono::seconds(10));
  if (!closed) return fail(closed.error().message);
  std::printf("%s: what it held of %s is given up\n", path.c_str(), lun.c_str());
  return 0;
}

int journal_format(const std::string& path, bool force) {
  const auto log = daemon::open_log(path, 0);
  if (!log) return fail(log.error().message);
  const auto formatted = daemon::format_log(*log, force);
  if (!formatted) return fail(formatted.error().message);
  std::printf("%s: an empty journal\n", path.c_str());
  return 0;
}

}  // namespace zvolt::control
