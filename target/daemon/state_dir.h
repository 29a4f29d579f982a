// StateDir: the directory where the daemon keeps what it must remember: it makes the directory, holds it against a
// second daemon, and replaces files so that a power cut leaves the old or the new one. Main thread, before serving.
#pragma once

#include <optional>
#include <string>

#include "backing/result.h"

namespace zvolt::daemon {

class StateDir {
 public:
  // Creates the directory (0700) and locks it. Waits a moment for a daemon that is just ending.
  static Result<StateDir> open(const std::string& path);
  StateDir(StateDir&& other) noexcept;
  StateDir& operator=(StateDir&& other) noexcept;
  ~StateDir();

  const std::string& path() const { return path_; }
  // Contents of a file, nothing when there is none.
  Result<std::optional<std::string>> read(const std::string& name) const;
  // Written, flushed and renamed into place; the directory is flushed too.
  Result<void> replace(const std::string& name, const std::string& content) const;

 private:
  StateDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;
};

}  // namespace zvolt::daemon
