// The fixture of tests of zvols with a journal: volume `a` is tank/a, its log a file.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/zvol_daemon.h"

namespace zvolt::test {

class JournalledZvols : public Zvols {
 protected:
  void SetUp() override {
    Zvols::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    set_journal();
    zfs({"create", "-s", "-V", "32M", "tank/a"});
  }
  void set_journal(const std::string& more = "") {
    daemon_.config().more_yaml = "journals: { slog: { path: " + path("slog.log") +
                                 ", provision: { size: 32MiB }, memory: 16MiB" + more + " } }\n";
  }
  void serve(const std::string& more = "") {
    daemon_.config().luns = {zvol_lun(0, "a", "journal: slog" + (more.empty() ? more : ", " + more))};
    start();
  }
  // The journal alone has `data` at the beginning of the volume, and the daemon is dead.
  void crash_with(const Bytes& data) {
    serve("faults: [ { op: write, action: stall } ]");
    ASSERT_TRUE(becomes("a", "serving"));
    LibiscsiSession session = opened(0);
    ASSERT_TRUE(session.write(0, data, kFua).good());
    EXPECT_TRUE(value("tank/a", "org.zvolt:journal").ends_with(",dirty"));
    daemon_.kill();
  }
  CommandResult control_with_zfs(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"env"};
    all.insert(all.end(), daemon_.config().environment.begin(), daemon_.config().environment.end());
    all.insert(all.end(), {program("zvoltctl"), "--socket", daemon_.admin_socket()});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_command(all);
  }
  size_t commands_like(const std::string& text) const {
    std::ifstream log(path("zfs/log"));
    size_t count = 0;
    for (std::string line; std::getline(log, line);)
      if (line.find(text) != std::string::npos) ++count;
    return count;
  }
  // Bytes of a volume of the pool, or of its snapshot.
  Bytes in_pool(const std::string& name, uint64_t offset, size_t length) const {
    std::ifstream file(path("zfs/files/tank/" + name), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    Bytes out(length);
    file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(length));
    return out;
  }
  std::string reason() const { return lun("a").value("reason", ""); }
};

}  // namespace zvolt::test
