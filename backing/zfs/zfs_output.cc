// See zfs_output.h.
#include "backing/zfs/zfs_output.h"

#include <cerrno>
#include <charconv>
#include <optional>
#include <set>

namespace zvolt::backing {

namespace {

// How a value is put into ZvolProperties; false: it cannot be read.
using Reader = bool (*)(std::string_view value, std::string_view source, ZvolProperties& properties);

bool number(std::string_view value, uint64_t& into) {
  if (value == "-" || value == "none") {
    into = 0;
    return true;
  }
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), into);
  return error == std::errc() && end == value.data() + value.size();
}

std::string word(std::string_view value) {
  return value == "-" ? std::string() : printable(value);
}

template <uint64_t ZvolProperties::*kMember>
bool read_number(std::string_view value, std::string_view, ZvolProperties& properties) {
  return number(value, properties.*kMember);
}

template <std::string ZvolProperties::*kMember>
bool read_word(std::string_view value, std::string_view, ZvolProperties& properties) {
  properties.*kMember = word(value);
  return true;
}

// The row with which a dataset begins.
constexpr std::string_view kFirst = "name";

bool read_name(std::string_view value, std::string_view, ZvolProperties& properties) {
  return value == properties.name;
}

bool read_type(std::string_view value, std::string_view, ZvolProperties& properties) {
  if (value != "volume") properties.problem = "is a " + printable(value) + ", not a volume";
  return true;
}

bool read_read_only(std::string_view value, std::string_view, ZvolProperties& properties) {
  properties.read_only = value == "on";
  return value == "on" || value == "off" || value == "-";
}

bool read_key(std::string_view value, std::string_view, ZvolProperties& properties) {
  properties.key_missing = value == "unavailable";
  return true;
}

bool read_uuid(std::string_view value, std::string_view source, ZvolProperties& properties) {
  if (source == "local" || source == "received") properties.uuid = word(value);
  return true;
}

bool read_journal(std::string_view value, std::string_view source, ZvolProperties& properties) {
  if (source == "local" || source == "received") properties.journal = word(value);
  return true;
}

struct Known {
  std::string_view property;
  Reader read;
};
// In the order in which they are asked for and told.
constexpr Known kKnown[] = {
    {kFirst, read_name},
    {"guid", read_number<&ZvolProperties::guid>},
    {"volsize", read_number<&ZvolProperties::volsize>},
    {"volblocksize", read_number<&ZvolProperties::volblocksize>},
    {"available", read_number<&ZvolProperties::available>},
    {"used", read_number<&ZvolProperties::used>},
    {"referenced", read_number<&ZvolProperties::referenced>},
    {"refreservation", read_number<&ZvolProperties::refreservation>},
    {"sync", read_word<&ZvolProperties::sync>},
    {"logbias", read_word<&ZvolProperties::logbias>},
    {"compression", read_word<&ZvolProperties::compression>},
    {"volmode", read_word<&ZvolProperties::volmode>},
    {"snapdev", read_word<&ZvolProperties::snapdev>},
    {"origin", read_word<&ZvolProperties::origin>},
    {"readonly", read_read_only},
    {"type", read_type},
    {"keystatus", read_key},
    {kUuidProperty, read_uuid},
    {kJournalProperty, read_journal},
};

const Known* known(std::string_view property) {
  for (const Known& entry : kKnown) {
    if (entry.property == property) return &entry;
  }
  return nullptr;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

void blame(ZvolProperties& properties, const std::string& problem) {
  if (properties.problem.empty()) properties.problem = problem;
}

bool is_user_property(std::string_view property) {
  return property == kUuidProperty || property == kJournalProperty;
}

// Reads the lines of one answer. A tab or newline inside a value can only be in a user property, and those are the last
// of a dataset: what follows it up to the next `name` row is not believed.
class Parser {
 public:
  bool line(std::string_view text) {
    const std::vector<std::string_view> fields = split(text, '\t');
    const bool row = fields.size() == 4 && !fields[0].empty() && !fields[1].empty();
    if (row && fields[1] == kFirst && fields[2] == fields[0]) return begin(fields);
    if (all_.empty()) return false;
    if (broken_) return true;
    if (row && fields[0] == all_.back().name) return value(fields);
    if (!at_user_property(fields)) return false;
    broken_ = true;
    blame(all_.back(), std::string("the value of its property ") + kUuidProperty + " or " + kJournalProperty +
                           " has a tab or line feed in it");
    return true;
  }

  std::vector<ZvolProperties> take() {
    for (ZvolProperties& one : all_) finish(one);
    return std::move(all_);
  }

 private:
  bool begin(const std::vector<std::string_view>& fields) {
    if (!names_.insert(std::string(fields[0])).second) return false;  // twice: nothing can be believed
    all_.emplace_back();
    all_.back().name = fields[0];
    broken_ = user_seen_ = false;
    return value(fields);
  }

  bool value(const std::vector<std::string_view>& fields) {
    const Known* entry = known(fields[1]);
    if (entry == nullptr) return true;
    user_seen_ = is_user_property(fields[1]);
    if (fields[1] == "type") typed_.insert(all_.back().name);
    if (!entry->read(fields[2], fields[3], all_.back())) {
      blame(all_.back(), "property " + std::string(entry->property) + " has the value '" + printable(fields[2], 64) +
                             "', which is not understood");
    }
    return true;
  }

  bool at_user_property(const std::vector<std::string_view>& fields) const {
    return user_seen_ || (fields.size() >= 2 && fields[0] == all_.back().name && is_user_property(fields[1]));
  }

  // A volume without size, block size or GUID is none that could be served.
  void finish(ZvolProperties& one) const {
    if (!typed_.contains(one.name)) blame(one, "has no type that ZFS told");
    if (one.guid == 0 || one.volsize == 0 || one.volblocksize == 0) {
      blame(one, "ZFS did not tell its guid, volsize and volblocksize");
    }
  }

  std::vector<ZvolProperties> all_;
  std::set<std::string> names_;
  std::set<std::string> typed_;  // those of them whose type was told
  bool broken_ = false;
  bool user_seen_ = false;
};

struct Meaning {
  std::string_view text;
  int error;
};
// Parts of messages of libzfs (OpenZFS 2.1 to 2.3) in lower case, the more special first.
constexpr Meaning kMeanings[] = {
    {"dataset does not exist", ENOENT},
    {"no such pool", ENOENT},
    {"parent does not exist", ENOENT},
    {"no such dataset", ENOENT},
    {"already exists", EEXIST},
    {"pool or dataset exists", EEXIST},
    {"modules are not loaded", ENOSYS},
    {"module is not loaded", ENOSYS},
    {"/dev/zfs", ENOSYS},  // "Unable to open /dev/zfs: No such file or directory"
    {"permission denied", EPERM},
    {"must be run as root", EPERM},
    {"insufficient privileges", EPERM},
    {"currently suspended", EAGAIN},
    {"is busy", EBUSY},
    {"out of space", ENOSPC},
    {"no space left", ENOSPC},
    {"greater than available space", ENOSPC},
    {"quota exceeded", ENOSPC},
    {"disc quota", ENOSPC},
    {"read only property", EINVAL},
    {"is readonly", EINVAL},
    {"read-only file system", EROFS},
    {"is read-only", EROFS},
    {"dataset is read only", EROFS},
    {"must be a multiple", EINVAL},
    {"must be power of 2", EINVAL},
    {"must be one of", EINVAL},
    {"invalid", EINVAL},
    {"bad property", EINVAL},
    {"bad numeric value", EINVAL},
    {"bad volume size", EINVAL},
    {"missing", EINVAL},
    {"not applicable to datasets of this type", EINVAL},
    {"does not apply to datasets of this type", EINVAL},
    {"doesn't apply to datasets of this type", EINVAL},
    {"cannot be set", EINVAL},
    {"cannot be zero", EINVAL},
    {"parent is not a filesystem", EINVAL},
    {"too long", EINVAL},
    {"too large", EINVAL},
    {"exceeds", EINVAL},
    {"usage:", EINVAL},
};

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return all;
}

// A name in a message ('tank/no such pool') must not be taken for its meaning: what stands in quotes is left out.
std::string without_quoted(std::string_view text) {
  std::string rest;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool quote = text[i] == '\'';
    const bool opens = quote && !quoted && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '(');
    if (opens) quoted = true;
    if (!quoted) rest += text[i];
    if (quote && quoted && !opens) quoted = false;
  }
  return quoted ? std::string(text) : rest;
}

std::optional<int> known_meaning(std::string_view message) {
  const std::string text = lower(without_quoted(message));
  for (const Meaning& entry : kMeanings) {
    if (text.find(entry.text) != std::string::npos) return entry.error;
  }
  return std::nullopt;
}

}  // namespace

std::string zvol_property_list() {
  std::string all;
  for (const Known& entry : kKnown) {
    if (!all.empty()) all += ',';
    all += entry.property;
  }
  return all;
}

Result<std::vector<ZvolProperties>> parse_properties(std::string_view text) {
  if (text.empty()) return std::vector<ZvolProperties>();
  if (text.back() != '\n') return Error{EPROTO, "the output of 'zfs get' ends within a line"};
  text.remove_suffix(1);
  Parser parser;
  for (const std::string_view line : split(text, '\n')) {
    if (!parser.line(line)) {
      return Error{EPROTO, "the output of 'zfs get' is not understood: '" + printable(line, 200) + "'"};
    }
  }
  return parser.take();
}

std::string printable(std::string_view text, size_t limit) {
  std::string all(text.substr(0, limit));
  for (char& c : all) {
    if (c < ' ' || c > '~') c = '?';
  }
  return all;
}

int meaning_of(std::string_view message) {
  return known_meaning(message).value_or(EIO);
}

Error command_error(const std::string& what, int status, std::string_view err) {
  int code = EIO;
  std::string text;
  for (const std::string_view line : split(err, '\n')) {
    if (line.empty()) continue;
    const std::optional<int> meaning = known_meaning(line);
    if (!meaning && !text.empty()) continue;
    text = printable(line);
    code = meaning.value_or(EIO);
    if (meaning) break;  // the first line whose meaning is known, else the first
  }
  if (text.empty()) text = "the command ended with status " + std::to_string(status) + " and no message";
  return {code, "cannot " + what + ": " + text};
}

std::vector<std::string> errors_but_missing(std::string_view err) {
  std::vector<std::string> rest;
  for (const std::string_view line : split(err, '\n')) {
    if (line.empty() || lower(line).rfind("warning", 0) == 0) continue;
    if (known_meaning(line) == ENOENT && line.rfind("cannot open ", 0) == 0) continue;
    rest.emplace_back(line);
  }
  return rest;
}

}  // namespace zvolt::backing
