// See identity.h.
//
// identity.json: { "version": 1, "instance": UUID, "volumes": [ { "uuid", "backing", "path", "name" }, ... ] }
// Entries of volumes that left the configuration stay: a volume that comes back is the same disk to its hosts.
#include "target/daemon/identity.h"

#include <openssl/evp.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

namespace zvolt::daemon {
namespace {

using nlohmann::json;

constexpr const char* kFile = "identity.json";
constexpr int kVersion = 1;

struct Record {
  Uuid uuid{};
  std::string backing, path, name;
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
    store.records.push_back({*uuid, text_of(entry, "backing"), text_of(entry, "path"), text_of(entry, "name")});
  }
  return store;
}

Result<void> save(const StateDir& state, const Store& store) {
  json volumes = json::array();
  for (const Record& r : store.records)
    volumes.push_back({{"uuid", uuid_text(r.uuid)}, {"backing", r.backing}, {"path", r.path}, {"name", r.name}});
  const json document = {{"version", kVersion}, {"instance", uuid_text(store.instance)}, {"volumes", volumes}};
  return state.replace(kFile, document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

bool same_object(const std::string& a, const std::string& b) {
  struct stat left {
  }, right{};
  if (::stat(a.c_str(), &left) != 0 || ::stat(b.c_str(), &right) != 0) return false;
  if (S_ISBLK(left.st_mode) && S_ISBLK(right.st_mode)) return left.st_rdev == right.st_rdev;
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

bool is_gone(const std::string& path) {
  struct stat ignored {};
  return ::lstat(path.c_str(), &ignored) != 0 && errno == ENOENT;
}

// A record whose backing has another spelling now: the same object under another path (a link, /dev/sdb for its by-id
// name), or what this name served before and that is no longer there (the file was moved).
Record* find_moved(Store& store, const VolumeKey& volume) {
  Record* moved = nullptr;
  for (Record& record : store.records) {
    if (record.claimed) continue;
    if (same_object(record.path, volume.path)) return &record;
    if (record.name == volume.name && is_gone(record.path)) moved = &record;
  }
  return moved;
}

void refresh(Store& store, Record& record, const VolumeKey& volume) {
  record.claimed = true;
  if (record.backing == volume.backing && record.path == volume.path && record.name == volume.name) return;
  if (record.backing != volume.backing)
    spdlog::info("volume {}: {} keeps the identity {} of {}", volume.name, volume.backing, uuid_text(record.uuid),
                 record.backing);
  record.backing = volume.backing;
  record.path = volume.path;
  record.name = volume.name;
  store.changed = true;
}

Result<void> refuse_doubles(const std::vector<VolumeKey>& volumes, const std::vector<Uuid>& uuids) {
  std::map<Uuid, size_t> seen;
  for (size_t i = 0; i < uuids.size(); ++i) {
    const auto [first, fresh] = seen.emplace(uuids[i], i);
    if (fresh) continue;
    return Error{EEXIST, "volumes " + volumes[first->second].name + " and " + volumes[i].name + " have the same UUID " +
                             uuid_text(uuids[i]) + ": hosts would take them for one disk; give one its own 'uuid'"};
  }
  return {};
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

Result<std::vector<Uuid>> identify(const StateDir& state, const std::vector<VolumeKey>& volumes) {
  auto loaded = load(state);
  if (!loaded) return loaded.error();
  Store& store = *loaded;
  std::vector<Uuid> uuids(volumes.size());
  std::vector<Record*> records(volumes.size(), nullptr);
  // Exact matches first, so that a guess never takes what belongs to another volume.
  for (size_t i = 0; i < volumes.size(); ++i)
    for (Record& record : store.records)
      if (!volumes[i].backing.empty() && record.backing == volumes[i].backing && !record.claimed) {
        records[i] = &record;
        record.claimed = true;
        break;
      }
  std::vector<Record> fresh;
  for (size_t i = 0; i < volumes.size(); ++i) {
    const VolumeKey& volume = volumes[i];
    if (!volume.pinned.empty()) {
      const auto uuid = parse_uuid(volume.pinned);
      if (!uuid) return uuid.error();
      uuids[i] = *uuid;
      continue;
    }
    if (volume.backing.empty()) {
      uuids[i] = derived_uuid(store.instance, volume.name);
      continue;
    }
    if (records[i] == nullptr) records[i] = find_moved(store, volume);
    if (records[i] != nullptr) {
      refresh(store, *records[i], volume);
      uuids[i] = records[i]->uuid;
      continue;
    }
    const auto uuid = random_uuid();
    if (!uuid) return uuid.error();
    uuids[i] = *uuid;
    fresh.push_back({*uuid, volume.backing, volume.path, volume.name, true});
    spdlog::info("volume {}: new identity {}", volume.name, uuid_text(*uuid));
  }
  store.changed = store.changed || !fresh.empty();
  store.records.insert(store.records.end(), fresh.begin(), fresh.end());
  const auto unique = refuse_doubles(volumes, uuids);
  if (!unique) return unique.error();
  if (store.changed) {
    const auto saved = save(state, store);
    if (!saved) return saved.error();
  }
  return uuids;
}

}  // namespace zvolt::daemon
