// See journal_keeper.h.
#include "target/daemon/journal_keeper.h"

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "target/daemon/identity.h"

namespace zvolt::daemon {
namespace {

using backing::journal::StateKeeper;
using nlohmann::json;

constexpr char kFile[] = "journal-state.json";

struct StateName {
  StateKeeper::State state;
  const char* name;
};
constexpr StateName kStates[] = {{StateKeeper::State::attached, "attached"},
                                 {StateKeeper::State::dirty, "dirty"},
                                 {StateKeeper::State::detached, "detached"}};

}  // namespace

const char* journal_state_name(StateKeeper::State state) {
  for (const StateName& known : kStates)
    if (known.state == state) return known.name;
  return "?";
}

std::string journal_state_text(const JournalState& entry) {
  return uuid_text(entry.journal) + "," + std::to_string(entry.epoch) + "," + journal_state_name(entry.state);
}

std::optional<JournalState> parse_journal_state(const backing::journal::Uuid& lun, const std::string& text) {
  const size_t first = text.find(','), second = text.rfind(',');
  if (first == std::string::npos || second == first) return std::nullopt;
  const auto journal = parse_uuid(text.substr(0, first));
  if (!journal) return std::nullopt;
  JournalState entry;
  entry.lun = lun;
  entry.journal = *journal;
  const char* end = text.data() + second;
  const auto [stop, error] = std::from_chars(text.data() + first + 1, end, entry.epoch);
  if (error != std::errc() || stop != end) return std::nullopt;
  for (const StateName& known : kStates) {
    if (text.compare(second + 1, std::string::npos, known.name) != 0) continue;
    entry.state = known.state;
    return entry;
  }
  return std::nullopt;
}

void JournalKeeper::set_dataset(const backing::journal::Uuid& lun, const std::string& dataset) {
  const std::scoped_lock lock(datasets_mutex_);
  datasets_[lun] = dataset;
}

std::string JournalKeeper::dataset_of(const backing::journal::Uuid& lun) const {
  const std::scoped_lock lock(datasets_mutex_);
  const auto found = datasets_.find(lun);
  return found == datasets_.end() ? std::string() : found->second;
}

Result<std::map<std::string, std::string>> JournalKeeper::read_all() const {
  const auto text = state_.read(kFile);
  if (!text) return text.error();
  std::map<std::string, std::string> out;
  if (!*text) return out;
  const json file = json::parse(**text, nullptr, false);
  if (!file.is_object() || !file.contains("luns") || !file["luns"].is_object())
    return Error{EPROTO, state_.path() + "/" + kFile + " is damaged: it says which volumes have data in a journal"};
  for (const auto& [lun, state] : file["luns"].items()) {
    if (!state.is_string()) return Error{EPROTO, state_.path() + "/" + kFile + " is damaged at " + lun};
    out[lun] = state.get<std::string>();
  }
  return out;
}

// The property is written with every change, by whichever host has the pool: where it is set, it is the newest word.
Result<std::optional<JournalState>> JournalKeeper::load(const backing::journal::Uuid& lun) {
  std::string text, where;
  const std::string dataset = dataset_of(lun);
  if (!dataset.empty()) {
    const auto properties = zfs_.get(dataset);
    if (!properties) return properties.error();
    if (!*properties) return Error{ENOENT, "there is no zvol " + dataset};
    text = (*properties)->journal;
    where = std::string("property ") + backing::kJournalProperty + " of " + dataset;
  }
  if (text.empty()) {
    const std::scoped_lock lock(file_mutex_);
    const auto all = read_all();
    if (!all) return all.error();
    const auto found = all->find(uuid_text(lun));
    if (found == all->end()) return std::optional<JournalState>();
    text = found->second;
    where = state_.path() + "/" + kFile;
  }
  const auto entry = parse_journal_state(lun, text);
  if (!entry) return Error{EPROTO, where + " cannot be understood: '" + text + "'"};
  return std::optional<JournalState>(*entry);
}

Result<void> JournalKeeper::save(const Entry& entry) {
  {
    const std::scoped_lock lock(file_mutex_);
    auto all = read_all();
    if (!all) return all.error();
    (*all)[uuid_text(entry.lun)] = journal_state_text(entry);
    const auto written = state_.replace(kFile, json({{"luns", *all}}).dump(2) + "\n");
    if (!written) return written;
  }
  const std::string dataset = dataset_of(entry.lun);
  if (dataset.empty()) return {};
  const auto set = zfs_.set(dataset, backing::kJournalProperty, journal_state_text(entry));
  if (!set) return Error{set.error().code, "zvol " + dataset + ": " + set.error().message};
  return {};
}

}  // namespace zvolt::daemon
