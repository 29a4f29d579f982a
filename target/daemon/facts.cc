// See facts.h.
#include "target/daemon/facts.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace zvolt::daemon {
namespace {

using config::StoreFacts;
using config::StoreKind;

StoreFacts file_facts(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {.exists = true, .size = static_cast<uint64_t>(found.st_size)};
}

StoreFacts device_facts(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  StoreFacts facts;
  facts.exists = ::ioctl(fd, BLKGETSIZE64, &facts.size) == 0;
  ::close(fd);
  return facts;
}

class Gathering {
 public:
  Gathering(config::Facts& out, const ZvolFacts& zvols) : out_(out), zvols_(zvols) {}

  void open_store(const OpenVolume& volume) {
    const std::string key = store_of(volume);
    out_.open[volume.config.name] = {key, volume.uuid ? uuid_text(*volume.uuid) : ""};
    if (volume.config.kind == StoreKind::zvol) return look(volume.config, key);
    // Devices that are open are not opened once more: their store knows their size.
    if (volume.followed) {
      const auto report = volume.followed->report();
      out_.stores[key] = {.exists = report.presence == backing::Presence::present, .size = report.size};
      return;
    }
    out_.stores[key] = {.exists = true, .size = volume.store->size_bytes()};
  }

  void look(const config::Volume& volume, const std::string& key) {
    if (out_.stores.contains(key)) return;
    switch (volume.kind) {
      case StoreKind::file:
        out_.stores[key] = file_facts(volume.path);
        return;
      case StoreKind::device:
        out_.stores[key] = device_facts(volume.path);
        return;
      case StoreKind::zvol:
        return look_at_zvol(key.substr(std::string("/dev/zvol/").size()), key);
      case StoreKind::memory:
      case StoreKind::null:
        out_.stores[key] = {};  // made when it is opened
        return;
    }
  }

 private:
  void look_at_zvol(const std::string& name, const std::string& key) {
    if (zvols_.silent.contains(backing::pool_of(name))) return;  // not known: no entry
    const auto found = zvols_.found.find(name);
    if (found == zvols_.found.end()) {
      out_.stores[key] = {};
    } else if (found->second.problem.empty()) {
      out_.stores[key] = {true, found->second.volsize, found->second.volblocksize};
    }
  }

  config::Facts& out_;
  const ZvolFacts& zvols_;
};

}  // namespace

std::string store_of(const OpenVolume& volume) {
  config::Volume now = volume.config;
  if (volume.zvol) now.path = volume.zvol->name();
  return config::store_key(now);
}

config::Facts gather_facts(const Composition& running, const config::Config& wanted, const VolumeSet& set,
                           const std::vector<iscsi::SessionInfo>& sessions) {
  const auto used = used_volumes(wanted);
  std::vector<config::Volume> renamed;  // running volumes under their present names
  for (const OpenVolume& volume : running.volumes) {
    renamed.push_back(volume.config);
    if (volume.zvol) renamed.back().path = volume.zvol->name();
  }
  std::vector<const config::Volume*> asked = used;
  for (const config::Volume& volume : renamed) asked.push_back(&volume);

  config::Facts out;
  const ZvolFacts zvols = set.ask_zfs(asked);
  Gathering gathering(out, zvols);
  for (const OpenVolume& volume : running.volumes) gathering.open_store(volume);
  for (const config::Volume* volume : used) gathering.look(*volume, config::store_key(*volume));
  for (const iscsi::SessionInfo& session : sessions)
    out.sessions.push_back(
        {.initiator = session.initiator, .target = session.target, .tsih = session.tsih, .address = session.address});
  return out;
}

}  // namespace zvolt::daemon
