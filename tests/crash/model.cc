// See model.h.
#include "tests/crash/model.h"

#include <algorithm>
#include <cstring>

namespace zvolt::crash {

namespace {

constexpr size_t kWords = kSectorBytes / 8;

uint64_t place_of(size_t lun, uint64_t number) {
  return (uint64_t{lun} << 48) | number | (uint64_t{1} << 63);
}

std::string name_of(const Model::Content& content) {
  if (!content.whole) return "a mixture";
  return content.zeros ? "zeros" : "version " + std::to_string(content.id);
}

}  // namespace

Model::Index Model::new_version(Version version) {
  version.id = versions_.size() + 1;
  versions_.push_back(version);
  return static_cast<Index>(versions_.size() - 1);
}

size_t Model::add_lun(uint64_t sectors) {
  const Index begin = new_version({.done = 0, .zeros = true, .ok = true});
  luns_.emplace_back(sectors, Sector{{begin, true}});
  return luns_.size() - 1;
}

void Model::resize(size_t lun, uint64_t sectors, uint64_t now) {
  auto& all = luns_[lun];
  if (sectors > all.size()) {
    const Index begin = new_version({.issued = now, .done = now, .zeros = true, .ok = true, .any = true});
    all.resize(sectors, Sector{{begin, true}});
  }
  all.resize(sectors);
}

void Model::stamp(uint8_t* sector, uint64_t id, size_t lun, uint64_t number) {
  const uint64_t words[2] = {id, place_of(lun, number)};
  for (size_t i = 0; i < kWords; i += 2) memcpy(sector + i * 8, words, 16);
}

Model::Content Model::content(const uint8_t* sector, size_t lun, uint64_t number) {
  uint64_t words[kWords];
  memcpy(words, sector, kSectorBytes);
  Content seen{true, words[0] == 0 && words[1] == 0, words[0]};
  for (size_t i = 2; i < kWords; ++i) seen.whole = seen.whole && words[i] == words[i % 2];
  if (!seen.zeros) seen.whole = seen.whole && words[1] == place_of(lun, number);
  return seen;
}

void Model::forget(size_t lun, uint64_t now) {
  const Index index = new_version({.issued = now, .done = now, .zeros = true, .ok = true, .any = true});
  for (Sector& sector : luns_[lun]) sector = {{index, true}};
}

Model::Index Model::issue(size_t lun, uint64_t first, uint64_t count, bool zeros, uint64_t now, uint32_t life) {
  const Index index = new_version({.issued = now, .life = life, .zeros = zeros});
  for (uint64_t i = first; i < first + count; ++i) luns_[lun][i].push_back({index, false});
  return index;
}

void Model::answered(size_t lun, uint64_t first, uint64_t count, Index index, bool ok, bool durable, uint64_t now) {
  versions_[index].done = now;
  versions_[index].ok = ok;
  if (!ok || !durable) return;
  for (uint64_t i = first; i < std::min(first + count, sectors(lun)); ++i) {
    for (Entry& entry : luns_[lun][i]) entry.durable = entry.durable || entry.version == index;
  }
}

void Model::flushed(size_t lun, uint64_t first, uint64_t count, uint64_t issued, uint32_t life) {
  for (uint64_t i = first; i < std::min(first + count, sectors(lun)); ++i) {
    for (Entry& entry : luns_[lun][i]) {
      const Version& v = versions_[entry.version];
      entry.durable = entry.durable || (v.ok && v.done < issued && v.life == life);
    }
  }
}

void Model::cut(uint64_t now) {
  for (Version& v : versions_) {
    if (v.done == kNever) v.done = now;
  }
}

bool Model::matches(const Entry& entry, const Content& seen) const {
  const Version& v = versions_[entry.version];
  if (v.any) return true;
  return v.zeros ? seen.zeros : (!seen.zeros && seen.id == v.id);
}

bool Model::overtaken(const Sector& sector, const Entry& entry, uint64_t asked, uint32_t life) const {
  const uint64_t done = versions_[entry.version].done;
  return std::any_of(sector.begin(), sector.end(), [&](const Entry& other) {
    const Version& w = versions_[other.version];
    return w.ok && w.done < asked && done < w.issued && (other.durable || w.life == life);
  });
}

std::string Model::judge(size_t lun, uint64_t number, const uint8_t* data, uint64_t asked, uint32_t life,
                         uint64_t latest) const {
  const Content seen = content(data, lun, number);
  const Sector& sector = luns_[lun][number];
  if (seen.whole) {
    for (const Entry& entry : sector) {
      const Version& v = versions_[entry.version];
      if (!matches(entry, seen) || (v.issued > latest && !v.any)) continue;
      if (!overtaken(sector, entry, asked, life)) return {};
    }
  }
  return "lun " + std::to_string(lun) + " sector " + std::to_string(number) + " holds " + name_of(seen) +
         "; asked at " + std::to_string(asked) + " in life " + std::to_string(life) +
         ", it may be one of:" + tell(sector);
}

std::string Model::tell(const Sector& sector) const {
  std::string text;
  for (const Entry& entry : sector) {
    const Version& v = versions_[entry.version];
    text += "\n    " +
            (v.any     ? "anything"
             : v.zeros ? "zeros (version " + std::to_string(v.id) + ")"
                       : "version " + std::to_string(v.id)) +
            " issued " + std::to_string(v.issued) +
            (v.done == kNever ? " in flight" : " ended " + std::to_string(v.done)) + " life " + std::to_string(v.life) +
            (v.ok ? " ok" : " not acknowledged") + (entry.durable ? " durable" : "");
  }
  return text;
}

void Model::settle(size_t lun, uint64_t number, const uint8_t* data, uint64_t now, uint32_t life) {
  const Content seen = content(data, lun, number);
  Sector& sector = luns_[lun][number];
  const Entry* settled = nullptr;
  for (const Entry& entry : sector) {
    const Version& v = versions_[entry.version];
    if (v.any || !matches(entry, seen) || overtaken(sector, entry, now, life)) continue;
    // What this life wrote may still be lost; several versions look alike when they are zeros.
    if (!entry.durable && v.life == life) return;
    if (settled == nullptr) settled = &entry;
  }
  if (settled == nullptr) return reset(lun, number, data, now);
  sector = {{settled->version, true}};
}

bool Model::changed_since(size_t lun, uint64_t number, uint64_t time) const {
  const Sector& sector = luns_[lun][number];
  return std::any_of(sector.begin(), sector.end(),
                     [&](const Entry& entry) { return versions_[entry.version].issued > time; });
}

void Model::reset(size_t lun, uint64_t number, const uint8_t* data, uint64_t now) {
  const Content seen = content(data, lun, number);
  Sector& sector = luns_[lun][number];
  if (!seen.zeros) {
    const auto index = static_cast<Index>(seen.id - 1);
    sector = {{index, true}};
    if (versions_[index].done == kNever) versions_[index].done = now;
  } else {
    sector = {{new_version({.issued = now, .done = now, .zeros = true, .ok = true}), true}};
  }
}

uint64_t Model::issued(size_t lun, uint64_t number, const uint8_t* data, uint32_t life) const {
  const Content seen = content(data, lun, number);
  if (seen.zeros || !seen.whole || seen.id == 0 || seen.id > versions_.size()) return 0;
  const Version& v = versions_[seen.id - 1];
  return v.life == life ? v.issued : 0;
}

std::string Model::missing(size_t lun, uint64_t number, const uint8_t* data, uint32_t life, uint64_t reached) const {
  const Content seen = content(data, lun, number);
  const Sector& sector = luns_[lun][number];
  for (const Entry& entry : sector) {
    if (!matches(entry, seen)) continue;
    const uint64_t done = versions_[entry.version].done;
    const bool passed = std::any_of(sector.begin(), sector.end(), [&](const Entry& other) {
      const Version& w = versions_[other.version];
      return w.ok && w.life == life && w.done < reached && done < w.issued;
    });
    if (!passed) return {};
  }
  return "lun " + std::to_string(lun) + " sector " + std::to_string(number) + " holds " + name_of(seen) +
         ", but a change issued at " + std::to_string(reached) + " survived: what is kept is no prefix." + tell(sector);
}

void Model::prune(size_t lun, uint64_t first, uint64_t count, uint64_t before) {
  for (uint64_t i = first; i < std::min(first + count, sectors(lun)); ++i) {
    Sector& sector = luns_[lun][i];
    if (sector.size() < 6) continue;
    uint64_t floor = 0;  // when the youngest durable version was issued
    for (const Entry& entry : sector) {
      const Version& w = versions_[entry.version];
      if (entry.durable && w.ok && w.done < before) floor = std::max(floor, w.issued);
    }
    std::erase_if(sector, [&](const Entry& entry) { return versions_[entry.version].done < floor; });
  }
}

}  // namespace zvolt::crash
