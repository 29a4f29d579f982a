// See include.h.
#include "config/include.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace zvolt::config {
namespace {

std::string canonical(const std::string& path) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(path, ignored);
  return out.empty() ? path : out.string();
}

// The path as the file that names it means it.
std::string relative_to(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos;
}

// For glob(3): the folder of the including file is taken as it is written.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::strchr("*?[]\\", c) != nullptr) out += '\\';
    out += c;
  }
  return out;
}

struct Matches {
  std::vector<std::string> paths;
  bool failed = false;  // out of memory, or a folder that cannot be read
};

// What is not there matches nothing; what cannot be read is an error. Called by glob(3).
int is_unreadable(const char*, int error) {
  return error != ENOENT && error != ENOTDIR ? 1 : 0;
}

Matches match(const std::string& file, const std::string& pattern) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const bool absolute = pattern.starts_with('/');
  const std::string whole = absolute || folder.empty() ? pattern : escaped(folder) + "/" + pattern;
  Matches out;
  glob_t found{};
  const int result = ::glob(whole.c_str(), GLOB_NOSORT, is_unreadable, &found);
  out.failed = result != 0 && result != GLOB_NOMATCH;
  if (result == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i)
      out.paths.push_back(std::filesystem::path(found.gl_pathv[i]).lexically_normal().string());
  ::globfree(&found);
  std::sort(out.paths.begin(), out.paths.end());  // by bytes: the same everywhere, whatever the locale
  return out;
}

int read_open(int fd, bool regular, std::string& text) {
  struct stat status {};
  if (regular && ::fstat(fd, &status) != 0) return errno;
  if (regular && S_ISDIR(status.st_mode)) return EISDIR;
  if (regular && !S_ISREG(status.st_mode)) return EINVAL;
  std::array<char, 65536> chunk{};
  while (text.size() <= kMaxFileBytes) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    text.append(chunk.data(), static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

int read_bounded(const std::string& path, bool regular, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0));
  if (fd < 0) return errno;
  const int error = read_open(fd, regular, text);
  ::close(fd);
  return error;
}

Includes::Includes(Context& context, std::vector<std::string>& files) : context_(context), files_(files) {
  stack_.push_back(canonical(files.front()));
  known_.insert(stack_.back());
}

void Includes::read(const Node& list) {
  for (const Node* item : list.items) read_entry(*item);
}

void Includes::read_entry(const Node& item) {
  if (item.kind != Node::Kind::scalar || item.text.empty()) {
    context_.error(item, "'include' lists paths, found " + describe(item));
    return;
  }
  if (!is_pattern(item.text)) {
    read_file(item, relative_to(*item.file, item.text), false);
    return;
  }
  const Matches matches = match(*item.file, item.text);
  if (matches.failed) context_.error(item, "include: the folders of '" + item.text + "' cannot be read");
  if (!matches.failed && matches.paths.empty()) context_.warn(item, "include: no file matches '" + item.text + "'");
  for (const std::string& path : matches.paths) read_file(item, path, true);
}

// A document with something in it, or nullptr.
const YamlTree* Includes::parse(const Node& item, const std::string& path) {
  std::string text;
  const int error = read_bounded(path, true, text);
  if (error != 0) {
    const std::string why = error == EINVAL ? "it is no regular file" : std::strerror(error);
    context_.error(item, "include: cannot read '" + path + "': " + why);
    return nullptr;
  }
  bytes_ += text.size();
  if (bytes_ > kMaxIncludedBytes) {
    const std::string limit = std::to_string(kMaxIncludedBytes >> 20);
    context_.error(item, "include: the files are larger than " + limit + " MiB together");
    return nullptr;
  }
  const YamlTree& tree = trees_.emplace_back(YamlTree::parse(text, path, context_.problems()));
  if (tree.root() == nullptr) return nullptr;
  nodes_ += tree.root()->weight;
  if (nodes_ > kMaxIncludedNodes) {
    const std::string limit = std::to_string(kMaxIncludedNodes);
    context_.error(item, "include: more than " + limit + " values in the files together (aliases counted)");
    return nullptr;
  }
  return tree.root()->kind == Node::Kind::null ? nullptr : &tree;
}

// A pattern may well match the file that it stands in, or one that was named before it: those are passed over.
void Includes::read_file(const Node& item, const std::string& path, bool from_pattern) {
  const std::string real = canonical(path);
  const bool cycle = std::find(stack_.begin(), stack_.end(), real) != stack_.end();
  if (from_pattern && known_.contains(real)) return;
  if (cycle) return context_.error(item, "include: '" + path + "' includes itself");
  if (known_.contains(real)) return context_.error(item, "include: '" + path + "' is already included");
  if (stack_.size() > kMaxIncludeDepth)
    return context_.error(item, "include: more than " + std::to_string(kMaxIncludeDepth) + " files inside each other");
  if (known_.size() > kMaxIncludedFiles)
    return context_.error(item, "include: more than " + std::to_string(kMaxIncludedFiles) + " files");
  known_.insert(real);
  files_.push_back(path);
  const YamlTree* tree = parse(item, path);
  if (tree == nullptr) return;
  const MapReader& map = documents_.emplace_back(context_, *tree->root(), kIncludedSchema);
  const Node* more = map.value("include");
  if (more == nullptr) return;
  stack_.push_back(real);
  read(*more);
  stack_.pop_back();
}

}  // namespace zvolt::config
