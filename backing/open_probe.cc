// See open_probe.h.
#include "backing/open_probe.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace zvolt::backing {

namespace {

// struct statx of Linux 6.1; older C libraries lack the two members.
struct StatxWithDirect {
  uint32_t mask;
  uint8_t before[148];
  uint32_t dio_mem_align;
  uint32_t dio_offset_align;
  uint8_t after[96];
};
static_assert(sizeof(StatxWithDirect) == 256);
static_assert(offsetof(StatxWithDirect, dio_mem_align) == 152);
constexpr unsigned kStatxDioAlign = 0x2000;

constexpr std::chrono::milliseconds kBusyPoll{50};

std::string process_name(const std::string& pid) {
  const std::string name = sysfs_text("/proc/" + pid + "/comm");
  return name.empty() ? "process " + pid : "process " + pid + " (" + name + ")";
}

// "8:0" of the device itself and "8:1" ... of its partitions.
std::set<std::string> numbers_with_partitions(dev_t device) {
  const std::string own = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  std::set<std::string> out{own};
  std::error_code failed;
  std::filesystem::directory_iterator entry("/sys/dev/block/" + own, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string folder = entry->path().string();
    if (access((folder + "/partition").c_str(), F_OK) == 0) out.insert(sysfs_text(folder + "/dev"));
  }
  return out;
}

}  // namespace

bool statx_direct_alignment(int fd, DirectAlignment& alignment) {
  StatxWithDirect answer{};
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kStatxDioAlign, &answer) != 0) return false;
  if ((answer.mask & kStatxDioAlign) == 0) return false;
  alignment.memory = answer.dio_mem_align;
  alignment.offset = answer.dio_offset_align;
  return true;
}

bool on_memory_file_system(int fd) {
  struct statfs fs {};
  if (fstatfs(fd, &fs) != 0) return false;
  return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
}

int retry_while_busy(const std::function<int()>& attempt, int busy, std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  for (;;) {
    const int error = attempt();
    if (error != busy || std::chrono::steady_clock::now() >= deadline) return error;
    std::this_thread::sleep_for(kBusyPoll);  // neither flock nor O_EXCL can be waited for with a deadline
  }
}

std::string lock_owner(int fd) {
  struct stat st {};
  if (fstat(fd, &st) != 0) return "another process";
  char inode[64];
  snprintf(inode, sizeof inode, "%02x:%02x:%lu", major(st.st_dev), minor(st.st_dev),
           static_cast<unsigned long>(st.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);  // "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"
    std::string number, kind, mode, access, pid, where;
    words >> number >> kind >> mode >> access >> pid >> where;
    if (kind == "FLOCK" && where == inode && pid != "0" && pid != "-1") return process_name(pid);
  }
  return "another process";
}

std::string mount_point(dev_t device) {
  const std::set<std::string> wanted = numbers_with_partitions(device);
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);  // "36 35 98:0 /root /mount/point options ..."
    std::string id, parent, numbers, root, point;
    words >> id >> parent >> numbers >> root >> point;
    if (wanted.contains(numbers)) return point;
  }
  return "";
}

std::string sysfs_text(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t sysfs_number(const std::string& path, uint64_t fallback) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : fallback;
}

std::string failure(const std::string& what, const std::string& path, int error) {
  return "cannot " + what + " " + path + ": " + strerror(error);
}

}  // namespace zvolt::backing
