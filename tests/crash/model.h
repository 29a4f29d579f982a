// Model: what each sector of each LUN may hold, by the contract alone. A version is one change by a host; per sector
// the versions that may still be seen are kept. Version v comes *before* w when v had ended before w was issued; those
// that overlap in time have no order. Pure: no I/O; times are the driver's count of steps.
//
// A sector may show version v unless some w that comes after v must be there: w was acknowledged in this life before
// the question was asked, or w is durable (FUA, or a flush issued after w and acknowledged).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace zvolt::crash {

constexpr uint64_t kSectorBytes = 512;
constexpr uint64_t kNever = UINT64_MAX;

struct Version {
  uint64_t id = 0;  // what its sectors are stamped with
  uint64_t issued = 0;
  uint64_t done = kNever;
  uint32_t life = 0;
  bool zeros = false;
  bool ok = false;   // acknowledged
  bool any = false;  // whatever stands there: a sector beyond the end of a store that was made smaller
};

class Model {
 public:
  using Index = uint32_t;  // of a version

  // What stands in one sector of an image.
  struct Content {
    bool whole = false;  // one version, and of this place
    bool zeros = false;
    uint64_t id = 0;
  };

  size_t add_lun(uint64_t sectors);
  uint64_t sectors(size_t lun) const { return luns_[lun].size(); }
  void resize(size_t lun, uint64_t sectors, uint64_t now);
  // A change under way that covers a sector which went and came back.
  void still_comes(size_t lun, uint64_t sector, Index version) { luns_[lun][sector].push_back({version, false}); }

  static void stamp(uint8_t* sector, uint64_t id, size_t lun, uint64_t number);
  static Content content(const uint8_t* sector, size_t lun, uint64_t number);

  Index issue(size_t lun, uint64_t first, uint64_t count, bool zeros, uint64_t now, uint32_t life);
  // The answer. An error leaves open whether any of it happened.
  void answered(size_t lun, uint64_t first, uint64_t count, Index version, bool ok, bool durable, uint64_t now);
  // An acknowledged flush that was issued at `issued`. It speaks of this life: what a power cut took does not come
  // back.
  void flushed(size_t lun, uint64_t first, uint64_t count, uint64_t issued, uint32_t life);
  void cut(uint64_t now);  // what is in flight is over

  // Empty: the sector may show that to who asked at `asked`, nothing that was issued after `latest` included.
  std::string judge(size_t lun, uint64_t sector, const uint8_t* data, uint64_t asked, uint32_t life,
                    uint64_t latest = kNever) const;
  // The sector holds this from now on, durably: it was read after a restart.
  void settle(size_t lun, uint64_t sector, const uint8_t* data, uint64_t now, uint32_t life);
  bool changed_since(size_t lun, uint64_t sector, uint64_t time) const;
  // It holds what `data` says, whatever was promised (records were thrown away on purpose).
  void reset(size_t lun, uint64_t sector, const uint8_t* data, uint64_t now);
  void forget(size_t lun, uint64_t now);  // it may hold anything
  // The records of a life have one order, so what survives of them is a prefix. `reached`: when the youngest survivor
  // was issued. Empty, or which version of this sector is missing although it was acknowledged before that.
  std::string missing(size_t lun, uint64_t sector, const uint8_t* data, uint32_t life, uint64_t reached) const;
  // When the version that is seen there was issued, 0 when that is not known or it is not of `life`.
  uint64_t issued(size_t lun, uint64_t sector, const uint8_t* data, uint32_t life) const;

  // Forgets versions that can be seen by nobody: those before a durable one that was acknowledged before `before`.
  void prune(size_t lun, uint64_t first, uint64_t count, uint64_t before);
  const Version& version(Index index) const { return versions_[index]; }
  uint64_t last_id() const { return versions_.size(); }

 private:
  struct Entry {
    Index version;
    bool durable;
  };
  using Sector = std::vector<Entry>;

  bool matches(const Entry& entry, const Content& seen) const;
  bool overtaken(const Sector& sector, const Entry& entry, uint64_t asked, uint32_t life) const;
  std::string tell(const Sector& sector) const;
  Index new_version(Version version);

  std::vector<std::vector<Sector>> luns_;
  std::deque<Version> versions_;
};

}  // namespace zvolt::crash
