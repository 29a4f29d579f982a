// See zfs.h.
#include "backing/zfs/zfs.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "backing/zfs/child.h"
#include "backing/zfs/zfs_output.h"

namespace zvolt::backing {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxDatasetName = 255;                     // ZFS_MAX_DATASET_NAME_LEN without its NUL
constexpr std::chrono::milliseconds kHistoryLimit{60'000};  // a history of 1 GiB, the most that a pool keeps
constexpr std::chrono::milliseconds kSyncLimit{60'000};     // a transaction group of slow disks under load
constexpr uint64_t kMaxSize = uint64_t{1} << 62;  // bytes; far above what ZFS takes, and rounding up cannot overflow

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool name_character(char c) {
  return letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == ':' || c == ' ';
}

std::string bad_component(std::string_view part) {
  if (part.empty()) return "has an empty part";
  if (part == "." || part == "..") return "has a part '" + std::string(part) + "'";
  const bool good = std::all_of(part.begin(), part.end(), name_character);
  return good ? "" : "may have letters, digits and -_.: and blanks only";
}

bool good_property(const std::string& name) {
  const auto good = [](char c) {
    return letter_or_digit(c) || c == ':' || c == '.' || c == '_' || c == '-' || c == '@';
  };
  return !name.empty() && name[0] != '-' && name.size() <= kMaxDatasetName &&
         std::all_of(name.begin(), name.end(), good);
}

Result<void> check_name(const std::string& name) {
  const std::string bad = bad_dataset_name(name);
  if (!bad.empty()) return Error{EINVAL, "'" + printable(name) + "' cannot be the name of a volume: it " + bad};
  return {};
}

uint64_t round_up(uint64_t bytes, uint64_t block) {
  return (bytes + block - 1) / block * block;
}

Result<void> check_pool(const std::string& pool) {
  const std::string bad = bad_dataset_name(pool);
  if (bad.empty() && pool.find('/') == std::string::npos) return {};
  return Error{EINVAL, "'" + printable(pool) + "' cannot be the name of a pool"};
}

Error not_there(const std::string& name) {
  return {ENOENT, "'" + name + "' does not exist"};
}

std::string assignment(const std::string& property, const std::string& value) {
  std::string text = property;
  text += '=';
  text += value;
  return text;
}

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

Result<std::string> run(const std::vector<std::string>& arguments, std::chrono::milliseconds deadline,
                        const std::string& what) {
  ChildLimits limits;
  limits.deadline = deadline;
  const Result<ChildResult> result = run_child(arguments, limits);
  if (!result) return result.error();
  if (result->status != 0) return command_error(what, result->status, result->err);
  return result->out;
}

Result<void> check_spec(const Zfs::CreateSpec& spec) {
  if (Result<void> good = check_name(spec.name); !good) return good;
  if (spec.name.find('/') == std::string::npos) return Error{EINVAL, quoted(spec.name) + " is a pool, not a volume"};
  if (spec.size > kMaxSize) return Error{EINVAL, "the size of " + quoted(spec.name) + " is too large"};
  for (const auto& [property, value] : spec.properties) {
    if (!good_property(property)) {
      return Error{EINVAL, "'" + printable(property) + "' cannot be the name of a property"};
    }
    if (property == "volsize" || property == "volblocksize" || property == "refreservation") {
      return Error{EINVAL, "property " + property + " of " + quoted(spec.name) +
                               " is given by size, volblocksize and sparse, not among the properties"};
    }
  }
  return {};
}

// What would fail after the clone was made, or lose data, is refused before.
Result<void> check_origin(const Zfs::CreateSpec& spec, uint64_t volsize, uint64_t volblocksize) {
  if (volsize == 0 || volblocksize == 0) {
    return Error{EINVAL, "'" + spec.clone_from + "' is no snapshot of a volume"};
  }
  if (spec.volblocksize != 0 && spec.volblocksize != volblocksize) {
    return Error{EINVAL, quoted(spec.name) + " cannot have another volblocksize than its origin's, " +
                             std::to_string(volblocksize)};
  }
  if (spec.size != 0 && round_up(spec.size, volblocksize) < volsize) {
    return Error{EINVAL, quoted(spec.name) + " would be smaller than its origin, which has " + std::to_string(volsize) +
                             " bytes"};
  }
  return {};
}

void add_properties(const Zfs::CreateSpec& spec, std::vector<std::string>& arguments) {
  for (const auto& [property, value] : spec.properties) {
    arguments.emplace_back("-o");
    arguments.push_back(assignment(property, value));
  }
}

}  // namespace

std::string pool_of(const std::string& dataset) {
  return dataset.substr(0, dataset.find_first_of("/@#"));
}

std::string bad_dataset_name(const std::string& name, bool snapshot) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxDatasetName) return "is longer than " + std::to_string(kMaxDatasetName) + " bytes";
  const char first = name[0];
  if (!letter_or_digit(first) || (first >= '0' && first <= '9')) return "does not begin with a letter";
  const size_t at = name.find('@');
  if (snapshot && at == std::string::npos) return "names no snapshot";
  if (!snapshot && at != std::string::npos) return "names a snapshot";
  if (snapshot) {
    if (std::string bad = bad_component(std::string_view(name).substr(at + 1)); !bad.empty()) return bad;
  }
  std::string_view rest = std::string_view(name).substr(0, at);
  for (;;) {
    const size_t slash = rest.find('/');
    if (std::string bad = bad_component(rest.substr(0, slash)); !bad.empty()) return bad;
    if (slash == std::string_view::npos) return "";
    rest.remove_prefix(slash + 1);
  }
}

Result<void> Zfs::list_chunk(const std::vector<std::string>& names, std::vector<ZvolProperties>& all) const {
  std::vector<std::string> arguments = {options_.command,    "get", "-Hp", "-o", "name,property,value,source",
                                        zvol_property_list()};
  arguments.insert(arguments.end(), names.begin(), names.end());
  ChildLimits limits;
  limits.deadline = options_.deadline;
  const Result<ChildResult> result = run_child(arguments, limits);
  if (!result) return result.error();
  // Status 1 is also that some of them are missing: then the others were told all the same.
  const std::vector<std::string> errors = errors_but_missing(result->err);
  if (result->status != 0 && (!errors.empty() || result->err.empty())) {
    return command_error("read the properties of volumes", result->status, errors.empty() ? "" : errors.front());
  }
  Result<std::vector<ZvolProperties>> parsed = parse_properties(result->out);
  if (!parsed) return parsed.error();
  const std::set<std::string> asked(names.begin(), names.end());
  for (ZvolProperties& one : *parsed) {
    if (!asked.contains(one.name)) {
      return Error{EPROTO, "'zfs get' told of '" + printable(one.name) + "', which was not asked for"};
    }
    all.push_back(std::move(one));
  }
  return {};
}

Result<std::vector<ZvolProperties>> Zfs::list(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (Result<void> good = check_name(name); !good) return good.error();
  }
  const auto until = Clock::now() + options_.deadline;
  std::vector<ZvolProperties> all;
  for (size_t from = 0; from < names.size(); from += kNamesPerCommand) {
    const size_t to = std::min(names.size(), from + kNamesPerCommand);
    Zfs rest(options_);  // all chunks together keep the deadline
    rest.options_.deadline = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const Result<void> done = rest.list_chunk(
        {names.begin() + static_cast<ptrdiff_t>(from), names.begin() + static_cast<ptrdiff_t>(to)}, all);
    if (!done) return done.error();
  }
  return all;
}

Result<std::optional<ZvolProperties>> Zfs::get(const std::string& name) const {
  Result<std::vector<ZvolProperties>> all = list({name});
  if (!all) return all.error();
  if (all->empty()) return std::optional<ZvolProperties>();
  ZvolProperties& one = all->front();
  if (!one.problem.empty()) return Error{EINVAL, quoted(name) + " cannot be served: it " + one.problem};
  return std::optional<ZvolProperties>(std::move(one));
}

Result<uint64_t> Zfs::create(const CreateSpec& spec) const {
  if (const Result<void> good = check_spec(spec); !good) return good.error();
  if (!spec.clone_from.empty()) return clone(spec);
  if (spec.size == 0) return Error{EINVAL, "a size is needed to create " + quoted(spec.name)};
  std::vector<std::string> arguments = {options_.command, "create"};
  if (spec.sparse) arguments.emplace_back("-s");
  if (spec.volblocksize != 0) {
    arguments.emplace_back("-b");
    arguments.push_back(std::to_string(spec.volblocksize));
  }
  add_properties(spec, arguments);
  // ZFS rounds up to its block size by itself, but to its sector first: fractions of it are refused.
  const uint64_t size = round_up(spec.size, spec.volblocksize != 0 ? spec.volblocksize : 512);
  arguments.insert(arguments.end(), {"-V", std::to_string(size), spec.name});
  const Result<std::string> made = run(arguments, options_.deadline, "create " + quoted(spec.name));
  if (!made) return made.error();
  const Result<std::optional<ZvolProperties>> now = get(spec.name);
  if (!now) return Error{now.error().code, quoted(spec.name) + " was created, but " + now.error().message};
  if (!now->has_value()) return not_there(spec.name);
  return (*now)->volsize;
}

Result<uint64_t> Zfs::clone(const CreateSpec& spec) const {
  if (const std::string bad = bad_dataset_name(spec.clone_from, true); !bad.empty()) {
    return Error{EINVAL, "'" + printable(spec.clone_from) + "' cannot be cloned: it " + bad};
  }
  // A snapshot tells its size, but the block size only its volume.
  const std::string volume = spec.clone_from.substr(0, spec.clone_from.find('@'));
  std::vector<ZvolProperties> origin;
  if (const Result<void> asked = list_chunk({volume, spec.clone_from}, origin); !asked) return asked.error();
  const auto of = [&](const std::string& name) {
    return std::find_if(origin.begin(), origin.end(), [&](const ZvolProperties& one) { return one.name == name; });
  };
  if (of(spec.clone_from) == origin.end() || of(volume) == origin.end()) return not_there(spec.clone_from);
  const Result<void> good = check_origin(spec, of(spec.clone_from)->volsize, of(volume)->volblocksize);
  if (!good) return good.error();
  std::vector<std::string> arguments = {options_.command, "clone"};
  add_properties(spec, arguments);
  arguments.insert(arguments.end(), {spec.clone_from, spec.name});
  const Result<std::string> made =
      run(arguments, options_.deadline, "clone '" + spec.clone_from + "' to " + quoted(spec.name));
  if (!made) return made.error();
  const auto half_done = [&](const Error& error) {
    return Error{error.code, quoted(spec.name) + " was cloned, but " + error.message};
  };
  const Result<std::optional<ZvolProperties>> now = get(spec.name);
  if (!now) return half_done(now.error());
  if (!now->has_value()) return not_there(spec.name);
  uint64_t size = (*now)->volsize;
  if (spec.size != 0) {
    const Result<uint64_t> resized = set_volsize(spec.name, spec.size);
    if (!resized) return half_done(resized.error());
    size = *resized;
  }
  if (!spec.sparse) {
    if (const Result<void> reserved = set(spec.name, "refreservation", "auto"); !reserved) {
      return half_done(reserved.error());
    }
  }
  return size;
}

Result<void> Zfs::set(const std::string& name, const std::string& property, const std::string& value) const {
  if (Result<void> good = check_name(name); !good) return good;
  if (!good_property(property)) return Error{EINVAL, "'" + printable(property) + "' cannot be the name of a property"};
  const Result<std::string> done = run({options_.command, "set", assignment(property, value), name}, options_.deadline,
                                       "set " + property + " of " + quoted(name));
  if (!done) return done.error();
  return {};
}

Result<uint64_t> Zfs::set_volsize(const std::string& name, uint64_t bytes, bool allow_shrink) const {
  if (bytes == 0 || bytes > kMaxSize) {
    return Error{EINVAL, std::to_string(bytes) + " bytes cannot be the size of " + quoted(name)};
  }
  const Result<std::optional<ZvolProperties>> now = get(name);
  if (!now) return now.error();
  if (!now->has_value()) return not_there(name);
  const uint64_t wanted = round_up(bytes, (*now)->volblocksize);
  if (wanted == (*now)->volsize) return wanted;
  if (wanted < (*now)->volsize && !allow_shrink) {
    return Error{EINVAL, quoted(name) + " has " + std::to_string((*now)->volsize) + " bytes: making it " +
                             std::to_string(wanted) + " would lose what lies beyond"};
  }
  const Result<void> done = set(name, "volsize", std::to_string(wanted));
  if (!done) return done.error();
  return wanted;
}

Result<std::string> Zfs::contents_replaced(const std::string& name, const std::string& property,
                                           const std::string& value) const {
  if (const Result<void> good = check_name(name); !good) return good.error();
  const std::string pool = pool_of(name);
  HistoryScan scan(property, value);
  ChildLimits limits;
  limits.deadline = std::max(options_.deadline, kHistoryLimit);
  limits.take = [&scan](std::string_view text) { scan.take(text); };
  const Result<ChildResult> result = run_child({options_.zpool_command, "history", "-i", pool}, limits);
  if (!result) return result.error();
  if (result->status != 0) {
    return command_error("read the history of pool '" + pool + "'", result->status, result->err);
  }
  const std::optional<std::string> found = scan.replaced(name);
  if (found) return *found;
  return Error{ENOENT, "the history of pool '" + pool + "' does not say that " + property + " of " + quoted(name) +
                           " was ever set to '" + printable(value) + "'"};
}

Result<void> Zfs::sync_pool(const std::string& pool) const {
  if (Result<void> good = check_pool(pool); !good) return good;
  const Result<std::string> done =
      run({options_.zpool_command, "sync", pool}, std::max(options_.deadline, kSyncLimit), "sync pool '" + pool + "'");
  return done ? Result<void>() : done.error();
}

Result<std::string> Zfs::pool_state(const std::string& pool) const {
  if (const Result<void> good = check_pool(pool); !good) return good.error();
  const Result<std::string> out =
      run({options_.zpool_command, "list", "-Hp", "-o", "health", pool}, options_.deadline, "ask pool '" + pool + "'");
  if (!out) return out.error();
  const std::string state = out->substr(0, out->find('\n'));
  const bool upper =
      !state.empty() && std::all_of(state.begin(), state.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!upper || out->size() != state.size() + 1) {
    return Error{EPROTO, "the output of 'zpool list' is not understood: '" + printable(*out, 200) + "'"};
  }
  return state;
}

}  // namespace zvolt::backing
