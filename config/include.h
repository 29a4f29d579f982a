// `include:`: further files with volumes and targets. Called by loader.cc. A path is relative to the file that names it
// and may be a pattern (glob(7)), whose files are read in the order of their names. Each file counts once; a file that
// includes itself is refused. Not shared between threads.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "config/reader.h"
#include "config/yaml_tree.h"

namespace zvolt::config {

// Limits. One file per virtual machine on a large host stays well below them.
inline constexpr size_t kMaxIncludeDepth = 8;                   // files inside each other, the main file not counted
inline constexpr size_t kMaxIncludedFiles = 2000;               // in all
inline constexpr size_t kMaxIncludedBytes = 8 * kMaxFileBytes;  // in all
inline constexpr uint64_t kMaxIncludedNodes = 4 * kMaxNodes;    // values in all, aliases expanded

// A whole file, or at most kMaxFileBytes + 1 bytes of it, so that a device or an endless pipe is no trap. Returns
// errno. `regular`: nothing else is opened for reading (EINVAL), so that a named pipe is not waited for.
int read_bounded(const std::string& path, bool regular, std::string& text);

class Includes {
 public:
  // `files` are the names in the order of reading; holds the main file already.
  Includes(Context& context, std::vector<std::string>& files);

  // Reads what the list names, and what those files include.
  void read(const Node& list);

  // The files that were read and are mappings, in the order in which their contents count.
  const std::deque<MapReader>& documents() const { return documents_; }

 private:
  void read_entry(const Node& item);
  void read_file(const Node& item, const std::string& path, bool from_pattern);
  const YamlTree* parse(const Node& item, const std::string& path);

  Context& context_;
  std::vector<std::string>& files_;
  std::vector<std::string> stack_;  // canonical paths of the files that are being read
  std::set<std::string> known_;     // canonical paths of all files
  std::deque<YamlTree> trees_;      // stable addresses
  std::deque<MapReader> documents_;
  size_t bytes_ = 0;
  uint64_t nodes_ = 0;
};

}  // namespace zvolt::config
