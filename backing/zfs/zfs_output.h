// Reading what `zfs` and `zpool` write: pure functions on text, no process, no state. Called by Zfs; tested against
// recorded output. zfs-get(8): with -H one property a line, fields separated by one tab, with -p exact numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backing/result.h"
#include "backing/zfs/zfs.h"

namespace zvolt::backing {

// The properties asked for, comma separated: `name` first (a dataset's rows begin with it), the only free text last.
std::string zvol_property_list();

// Output of `zfs get -Hp -o name,property,value,source LIST NAMES`. Properties that were not asked for are passed over.
// EPROTO: it is not that. A dataset with a value that cannot be read has a `problem`, the others stay good.
Result<std::vector<ZvolProperties>> parse_properties(std::string_view text);

// Bytes that a terminal, a log or JSON would stumble over become '?'; at most `limit` bytes.
std::string printable(std::string_view text, size_t limit = 1000);

// The errno that a message of zfs or zpool means; EIO when none is known.
int meaning_of(std::string_view message);

// The error of a command that ended with `status` and wrote `err`: "cannot WHAT: first line of err".
Error command_error(const std::string& what, int status, std::string_view err);

// The lines of `err` without those that say that a dataset does not exist, and without notes that are no errors.
std::vector<std::string> errors_but_missing(std::string_view err);

// Reads `zpool history -i` for what became of volumes after a property of theirs was set to a value (Zfs::
// contents_replaced). Renames are followed. One thread.
class HistoryScan {
 public:
  HistoryScan(std::string property, std::string value);
  void take(std::string_view text);  // in pieces of any length
  // Of the volume that has this name at the end. nullopt: it was never set; "": and nothing happened since.
  std::optional<std::string> replaced(const std::string& name) const;

 private:
  void line(std::string_view text);
  void renamed(const std::string& from, const std::string& to);

  const std::string set_to_;                  // "PROPERTY=VALUE"
  std::string partial_;                       // of a line; a longer one than kLongestLine is not looked at
  std::map<std::string, std::string> since_;  // by present name, what happened since
};

}  // namespace zvolt::backing
