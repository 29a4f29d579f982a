// See provision.h.
#include "target/daemon/provision.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

namespace zvolt::daemon {
namespace {

constexpr mode_t kFileMode = 0600;  // a volume is nobody else's to read

Error failure(const std::string& what, const std::string& path, int error) {
  return {error, "cannot " + what + " " + path + ": " + std::strerror(error)};
}

struct Descriptor {
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd = -1;
};

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// A file without a name (it is gone with the process), or one with a name of its own where the file system has no such
// thing.
int open_unnamed(const std::string& path, std::string& temporary) {
  const int fd = ::open(directory_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kFileMode);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOSYS)) return fd;
  temporary = path + ".zvolt-new";
  ::unlink(temporary.c_str());  // of a process that was killed here
  return ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
}

// Gives the file its name unless there is one by that name: 0, EEXIST, or what went wrong.
int name_it(int fd, const std::string& temporary, const std::string& path) {
  const std::string source = temporary.empty() ? "/proc/self/fd/" + std::to_string(fd) : temporary;
  const int flags = temporary.empty() ? AT_SYMLINK_FOLLOW : 0;
  return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), flags) == 0 ? 0 : errno;
}

}  // namespace

Result<bool> provision_file(const std::string& path, uint64_t size, std::vector<MadeFile>& made) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return false;
  if (errno != ENOENT) return failure("look for", path, errno);
  std::string temporary;
  const Descriptor file{open_unnamed(path, temporary)};
  if (file.fd < 0) return failure("create", path, errno);
  int error = ::ftruncate(file.fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
  if (error != 0 && !temporary.empty()) ::unlink(temporary.c_str());
  if (error != 0) return failure("give its size to", path, error);
  error = name_it(file.fd, temporary, path);
  if (!temporary.empty()) ::unlink(temporary.c_str());
  if (error == EEXIST) return false;
  if (error != 0) return failure("create", path, error);
  if (::fstat(file.fd, &found) != 0) return failure("stat", path, errno);
  made.push_back({path, found.st_dev, found.st_ino, size, found.st_mtim});
  return true;
}

Result<void> sync_directories(const std::vector<MadeFile>& made) {
  std::set<std::string> directories;
  for (const MadeFile& file : made) directories.insert(directory_of(file.path));
  for (const std::string& directory : directories) {
    const Descriptor opened{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (opened.fd < 0 || ::fsync(opened.fd) != 0) return failure("make durable the new files in", directory, errno);
  }
  return {};
}

void remove_untouched(const MadeFile& made) {
  struct stat now {};
  if (::lstat(made.path.c_str(), &now) != 0) return;
  const bool same = S_ISREG(now.st_mode) && now.st_dev == made.device && now.st_ino == made.inode &&
                    static_cast<uint64_t>(now.st_size) == made.size && now.st_mtim.tv_sec == made.modified.tv_sec &&
                    now.st_mtim.tv_nsec == made.modified.tv_nsec;
  if (same) ::unlink(made.path.c_str());
}

Result<void> resize_file(const std::string& path, uint64_t size) {
  const Descriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return failure("open", path, errno);
  struct stat found {};
  if (::fstat(file.fd, &found) != 0 || !S_ISREG(found.st_mode)) return Error{EINVAL, path + " is no regular file"};
  if (::ftruncate(file.fd, static_cast<off_t>(size)) != 0) return failure("resize", path, errno);
  if (::fsync(file.fd) != 0) return failure("make durable the new size of", path, errno);
  return {};
}

backing::Zfs::CreateSpec create_spec(const config::Volume& volume, const std::string& uuid) {
  const config::Provision& from = *volume.provision;
  backing::Zfs::CreateSpec spec;
  spec.name = volume.path;
  spec.size = from.size.value_or(0);
  spec.volblocksize = from.volblocksize;
  spec.sparse = from.sparse;
  spec.properties = from.properties;
  spec.properties[backing::kUuidProperty] = uuid;
  spec.clone_from = from.clone_from;
  return spec;
}

std::string what_stays(const Made& made) {
  if (made.zvols.empty()) return {};
  std::string names;
  for (const std::string& name : made.zvols) names += (names.empty() ? "" : ", ") + name;
  return (made.zvols.size() == 1 ? "zvol " + names + " was made and stays" : "zvols " + names + " were made and stay") +
         " (nothing is ever destroyed here: remove by 'zfs destroy', or try again and it is used)";
}

}  // namespace zvolt::daemon
