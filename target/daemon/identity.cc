// See identity.h.
//
// identity.json: { "version": 1, "instance": UUID, "volumes": [ { "uuid", "backing", "path", "name", "guid" }, ... ] }
// guid: of the zvol that had this identity last, as decimal text; tells one that was destroyed and made anew.
// Entries of volumes that left the configuration stay: a volume that comes back is the same disk to its hosts.
#include "target/daemon/identity.h"

#include <openssl/evp.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace zvolt::daemon {
namespace {

using nlohmann::json;

constexpr const char* kFile = "identity.json";
constexpr int kVersion = 1;

struct Record {
  Uuid uuid{};
  std::string backing, path, name;
  uint64_t guid = 0;     // of the zvol, 0: not known
  bool claimed = false;  // by a volume of this configuration
};

struct Store {
  Uuid instance{};
  std::vector<Record> records;
  bool changed = false;
};

// Version and variant bits of RFC 9562.
void stamp_version(Uuid& uuid, uint8_t version) {
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | version << 4);
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
}

Result<Uuid> random_uuid() {
  Uuid uuid{};
  size_t done = 0;
  while (done < uuid.size()) {
    const ssize_t n = ::getrandom(uuid.data() + done, uuid.size() - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{errno, std::string("cannot make a UUID: ") + std::strerror(errno)};
    done += static_cast<size_t>(n);
  }
  stamp_version(uuid, 4);
  return uuid;
}

// Version 8 (own hash): SHA-256 over the instance and the name.
Uuid derived_uuid(const Uuid& instance, const std::string& name) {
  std::string text(instance.begin(), instance.end());
  text += "zvolt volume " + name;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha256(), nullptr);
  Uuid uuid{};
  std::memcpy(uuid.data(), digest, uuid.size());
  stamp_version(uuid, 8);
  return uuid;
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

uint64_t guid_of(const std::string& text) {
  uint64_t guid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), guid);
  return error == std::errc() && end == text.data() + text.size() ? guid : 0;
}

// A damaged file is an error, never a reason to hand out new identities: hosts would see new disks.
Result<Store> load(const StateDir& state) {
  auto content = state.read(kFile);
  if (!content) return content.error();
  Store store;
  if (!content->has_value()) {
    const auto instance = random_uuid();
    if (!instance) return instance.error();
    store.instance = *instance;
    store.changed = true;
    return store;
  }
  const Error damaged{EBADMSG, state.path() + "/" + kFile +
                                   " is damaged: it holds the LUNs' identities; restore it, or pin each with 'uuid' "
                                   "and remove it"};
  const json document = json::parse(**content, nullptr, false);
  if (!document.is_object() || document.value("version", json(0)) != json(kVersion)) return damaged;
  const auto instance = parse_uuid(text_of(document, "instance"));
  const auto volumes = document.find("volumes");
  if (!instance || volumes == document.end() || !volumes->is_array()) return damaged;
  store.instance = *instance;
  for (const json& entry : *volumes) {
    if (!entry.is_object()) return damaged;
    const auto uuid = parse_uuid(text_of(entry, "uuid"));
    if (!uuid || text_of(entry, "backing").empty()) return damaged;
    store.records.push_back({*uuid, text_of(entry, "backing"), text_of(entry, "path"), text_of(entry, "name"),
                             guid_of(text_of(entry, "guid"))});
  }
  return store;
}

Result<void> save(const StateDir& state, const Store& store) {
  json volumes = json::array();
  for (const Record& r : store.records) {
    json entry = {{"uuid", uuid_text(r.uuid)}, {"backing", r.backing}, {"path", r.path}, {"name", r.name}};
    if (r.guid != 0) entry["guid"] = std::to_string(r.guid);
    volumes.push_back(std::move(entry));
  }
  const json document = {{"version", kVersion}, {"instance", uuid_text(store.instance)}, {"volumes", volumes}};
  return state.replace(kFile, document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

// What a path leads to: device and inode, or the device number of a block device. Asked once per record and run.
struct Object {
  bool block = false;
  dev_t device = 0;
  ino_t inode = 0;
  auto operator<=>(const Object&) const = default;
};

std::optional<Object> object_at(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return std::nullopt;
  if (S_ISBLK(found.st_mode)) return Object{true, found.st_rdev, 0};
  return Object{false, found.st_dev, found.st_ino};
}

bool is_gone(const std::string& path) {
  struct stat ignored {};
  return ::lstat(path.c_str(), &ignored) != 0 && errno == ENOENT;
}

// One run of identify(): the records, and indexes into them so that 500 volumes are not 250,000 comparisons.
class Assignment {
 public:
  Assignment(Store& store, const std::vector<VolumeKey>& volumes, bool quiet)
      : store_(store), volumes_(volumes), out_(volumes.size()), quiet_(quiet) {
    for (size_t i = 0; i < store_.records.size(); ++i) by_backing_.try_emplace(store_.records[i].backing, i);
  }

  Result<std::vector<Identity>> run();

 private:
  Result<void> assign(size_t index);
  Result<void> assign_zvol(size_t index);
  Result<void> make_new(size_t index);
  Record* exact(const VolumeKey& volume);
  Record* moved(const VolumeKey& volume);
  Record* same_zvol(const VolumeKey& volume);
  void refresh(Record& record, const VolumeKey& volume, const Uuid& uuid);
  Result<void> refuse_doubles() const;

  Store& store_;
  const std::vector<VolumeKey>& volumes_;
  std::vector<Identity> out_;
  const bool quiet_;
  std::map<std::string, size_t> by_backing_;
  std::optional<std::multimap<Object, size_t>> by_object_;  // made when first needed: a stat per record
  std::set<Uuid> told_;                                     // by the properties of zvols that are there
};

Record* Assignment::exact(const VolumeKey& volume) {
  const auto found = by_backing_.find(volume.backing);
  return found == by_backing_.end() ? nullptr : &store_.records[found->second];
}

// A record whose backing has another spelling now: the same object under another path (a link, /dev/sdb for its by-id
// name), or what this name served before and that is no longer there (the file was moved).
Record* Assignment::moved(const VolumeKey& volume) {
  if (!by_object_) {
    by_object_.emplace();
    for (size_t i = 0; i < store_.records.size(); ++i)
      if (const auto object = object_at(store_.records[i].path)) by_object_->emplace(*object, i);
  }
  if (const auto object = object_at(volume.path)) {
    const auto [begin, end] = by_object_->equal_range(*object);
    for (auto it = begin; it != end; ++it)
      if (!store_.records[it->second].claimed) return &store_.records[it->second];
  }
  // A zvol's path says nothing when it is late, and its GUID has been asked for already.
  if (volume.sight != ZvolSight::none) return nullptr;
  Record* guess = nullptr;
  for (Record& record : store_.records)
    if (!record.claimed && record.name == volume.name && record.guid == 0 && is_gone(record.path)) guess = &record;
  return guess;
}

// The record of a zvol that is there without the property: the one of its name unless that was another dataset, else
// the one of its GUID (it was renamed). Never one whose UUID another zvol carries: that one is the original.
Record* Assignment::same_zvol(const VolumeKey& volume) {
  const auto usable = [&](const Record& record) {
    return !told_.contains(record.uuid) && (record.guid == 0 || record.guid == volume.guid);
  };
  if (Record* record = exact(volume); record != nullptr && usable(*record)) return record;
  for (Record& record : store_.records)
    if (!record.claimed && record.guid != 0 && record.guid == volume.guid && usable(record)) return &record;
  return nullptr;
}

void Assignment::refresh(Record& record, const VolumeKey& volume, const Uuid& uuid) {
  record.claimed = true;
  const uint64_t guid = volume.guid != 0 ? volume.guid : record.guid;
  if (record.backing == volume.backing && record.path == volume.path && record.name == volume.name &&
      record.uuid == uuid && record.guid == guid)
    return;
  if (record.backing != volume.backing && !quiet_)
    spdlog::info("volume {}: {} keeps the identity {} of {}", volume.name, volume.backing, uuid_text(uuid),
                 record.backing);
  record = {uuid, volume.backing, volume.path, volume.name, guid, true};
  store_.changed = true;
}

Result<void> Assignment::make_new(size_t index) {
  const VolumeKey& volume = volumes_[index];
  const auto uuid = random_uuid();
  if (!uuid) return uuid.error();
  out_[index].uuid = *uuid;
  if (!quiet_) spdlog::info("volume {}: new identity {}", volume.name, uuid_text(*uuid));
  store_.changed = true;
  if (Record* record = exact(volume)) {  // a name that another disk had
    *record = {*uuid, volume.backing, volume.path, volume.name, volume.guid, true};
    return {};
  }
  by_backing_.emplace(volume.backing, store_.records.size());
  store_.records.push_back({*uuid, volume.backing, volume.path, volume.name, volume.guid, true});
  return {};
}

Result<void> Assignment::assign_zvol(size_t index) {
  const VolumeKey& volume = volumes_[index];
  Identity& out = out_[index];
  if (volume.sight == ZvolSight::unseen) {
    if (const Record* record = exact(volume)) {
      out.uuid = record->uuid;
      out.guid = record->guid;
    }
    return {};
  }
  out.guid = volume.guid;
  if (volume.sight == ZvolSight::fresh) return make_new(index);
  if (!volume.property.empty()) {
    const auto uuid = parse_uuid(volume.property);
    if (!uuid)
      return Error{EINVAL, "volume " + volume.name + ": the property org.zvolt:uuid of " + volume.dataset + " is '" +
                               volume.property + "', which is no UUID: set it right, or remove it with 'zfs inherit " +
                               "org.zvolt:uuid " + volume.dataset + "' to have one made"};
    out.uuid = *uuid;
    if (Record* record = exact(volume)) {
      refresh(*record, volume, *uuid);
    } else {
      by_backing_.emplace(volume.backing, store_.records.size());
      store_.records.push_back({*uuid, volume.backing, volume.path, volume.name, volume.guid, true});
      store_.changed = true;
    }
    return {};
  }
  Record* record = same_zvol(volume);
  if (record == nullptr && exact(volume) == nullptr) record = moved(volume);
  if (record == nullptr) return make_new(index);
  out.uuid = record->uuid;
  refresh(*record, volume, record->uuid);
  return {};
}

Result<void> Assignment::assign(size_t index) {
  const VolumeKey& volume = volumes_[index];
  if (!volume.pinned.empty()) {
    const auto uuid = parse_uuid(volume.pinned);
    if (!uuid) return uuid.error();
    out_[index].uuid = *uuid;
    return {};
  }
  if (volume.backing.empty()) {
    out_[index].uuid = derived_uuid(store_.instance, volume.name);
    return {};
  }
  if (volume.sight != ZvolSight::none) return assign_zvol(index);
  Record* record = exact(volume);
  if (record == nullptr) record = moved(volume);
  if (record == nullptr) return make_new(index);
  out_[index].uuid = record->uuid;
  refresh(*record, volume, record->uuid);
  return {};
}

Result<void> Assignment::refuse_doubles() const {
  std::map<Uuid, size_t> seen;
  for (size_t i = 0; i < out_.size(); ++i) {
    if (!out_[i].uuid) continue;
    const auto [first, fresh] = seen.emplace(*out_[i].uuid, i);
    if (fresh) continue;
    const VolumeKey &a = volumes_[first->second], &b = volumes_[i];
    std::string advice = "give one its own 'uuid'";
    const auto spare = random_uuid();
    if (!b.dataset.empty() && b.pinned.empty() && spare)
      advice = "one is a copy of the other; give the copy its own: zfs set org.zvolt:uuid=" + uuid_text(*spare) + " " +
               b.dataset + (a.dataset.empty() ? "" : " (or " + a.dataset + ")");
    return Error{EEXIST, "volumes " + a.name + (a.dataset.empty() ? "" : " (" + a.dataset + ")") + " and " + b.name +
                             (b.dataset.empty() ? "" : " (" + b.dataset + ")") + " have the same UUID " +
                             uuid_text(*out_[i].uuid) + ": hosts would take them for one disk; " + advice};
  }
  return {};
}

Result<std::vector<Identity>> Assignment::run() {
  // Exact matches first, so that a guess never takes what belongs to another volume.
  for (const VolumeKey& volume : volumes_) {
    if (!volume.backing.empty())
      if (Record* record = exact(volume)) record->claimed = true;
    if (const auto uuid = parse_uuid(volume.property)) told_.insert(*uuid);
  }
  for (size_t i = 0; i < volumes_.size(); ++i) {
    const auto assigned = assign(i);
    if (!assigned) return assigned.error();
  }
  const auto unique = refuse_doubles();
  if (!unique) return unique.error();
  return std::move(out_);
}

}  // namespace

std::string uuid_text(const Uuid& uuid) {
  std::string out;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", uuid[i]);
  }
  return out;
}

Result<Uuid> parse_uuid(const std::string& text) {
  Uuid uuid{};
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((i == 8 || i == 13 || i == 18 || i == 23) && c == '-') continue;
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if ((!digit && !letter) || digits == 32) return Error{EINVAL, "'" + text + "' is no UUID"};
    const unsigned value = static_cast<unsigned>(digit ? c - '0' : c - 'a' + 10);
    uuid[digits / 2] = static_cast<uint8_t>(uuid[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 32 || text.size() != 36) return Error{EINVAL, "'" + text + "' is no UUID"};
  return uuid;
}

Result<std::vector<Identity>> identify(const StateDir& state, const std::vector<VolumeKey>& volumes, bool look_only) {
  auto loaded = load(state);
  if (!loaded) return loaded.error();
  auto out = Assignment(*loaded, volumes, look_only).run();
  if (out && loaded->changed && !look_only) {
    const auto saved = save(state, *loaded);
    if (!saved) return saved.error();
  }
  return out;
}

}  // namespace zvolt::daemon
