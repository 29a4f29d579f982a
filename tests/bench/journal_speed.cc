// zvolt-journal-speed: what the write journal does for synchronous writes, as ratios within one run of one zvoltd: the
// same writes to a disk whose flush takes 5 ms, to that disk behind a journal whose log's flush takes 50 us, to a null
// store, and to files of this machine with and without a journal. Rounds in turn (A B C A B C), medians. By hand:
// zvolt-journal-speed [SECONDS-EACH [ROUNDS [DIRECTORY-FOR-REAL-FILES]]]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/write_load.h"
#include "tests/support/daemon.h"
#include "tests/support/process.h"

namespace zvolt::test {
namespace {

constexpr const char* kSlowFlush = "faults: [ { op: flush, action: delay, delay_us: 5000 } ]";
constexpr const char* kLogFlush = "faults: [ { op: flush, action: delay, delay_us: 50 } ]";

enum Lun { kSlow, kJournalled, kNull, kLogAlone, kMemory, kFile, kFileJournalled };
const char* const kNames[] = {"no journal, 5 ms flush", "journal, 50 us flush", "null store",
                              "disk like the log",      "memory, no flush",     "file",
                              "file, journal on a file"};

struct Cell {
  const char* name;
  unsigned depth;
  uint32_t bytes;
  bool sequential;
  std::vector<Lun> luns;
};
const Cell kCells[] = {
    {"4 KiB random, depth 1", 1, 4096, false, {kSlow, kJournalled, kNull, kLogAlone, kFile, kFileJournalled}},
    {"4 KiB random, depth 8", 8, 4096, false, {kSlow, kJournalled, kNull, kFile, kFileJournalled}},
    {"4 KiB random, depth 32", 32, 4096, false, {kSlow, kJournalled, kNull, kMemory, kFile, kFileJournalled}},
    {"64 KiB sequential, depth 8", 8, 65536, true, {kSlow, kJournalled, kFile, kFileJournalled}},
    {"1 MiB sequential, depth 4", 4, 1 << 20, true, {kSlow, kJournalled, kFile, kFileJournalled}},
};

DaemonConfig served(const std::string& log, const std::string& real) {
  DaemonConfig config;
  const std::string disk = "memory: 64MiB, sync: always, ";
  const std::string file = ", provision: { size: 64MiB }, sync: always";
  config.luns = {
      "{ lun: 0, name: slow, " + disk + kSlowFlush + " }",
      "{ lun: 1, name: journalled, journal: modelled, " + disk + kSlowFlush + " }",
      "{ lun: 2, name: nothing, null: 64MiB, sync: always }",
      "{ lun: 3, name: log-alone, " + disk + kLogFlush + " }",
      "{ lun: 4, name: plain, memory: 64MiB }",
      "{ lun: 5, name: file, file: " + real + "/speed-a.img" + file + " }",
      "{ lun: 6, name: file-journalled, journal: real, file: " + real + "/speed-b.img" + file + " }",
  };
  config.more_yaml = "journals:\n  modelled: { path: " + log + ", provision: { size: 256MiB }, " + kLogFlush +
                     " }\n  real: { path: " + real + "/speed.log, provision: { size: 256MiB } }\n";
  config.arguments = {"--test-stores"};
  config.threads = 1;
  return config;
}

using Found = std::map<Lun, std::vector<WriteRates>>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}
double median(const Found& found, Lun lun, double WriteRates::*what) {
  std::vector<double> values;
  const auto rates = found.find(lun);
  if (rates != found.end())
    for (const WriteRates& each : rates->second) values.push_back(each.*what);
  return median(values);
}

void print(const Cell& cell, const Found& found) {
  std::printf("\n%s%22s %10s %10s %10s\n", cell.name, "writes/s", "p50 us", "p99 us", "cpu us");
  for (const Lun lun : cell.luns)
    std::printf("  %-24s %12.0f %10.0f %10.0f %10.2f\n", kNames[lun], median(found, lun, &WriteRates::per_second),
                median(found, lun, &WriteRates::p50_us), median(found, lun, &WriteRates::p99_us),
                median(found, lun, &WriteRates::target_cpu_us));
  const auto rate = [&](Lun lun) { return median(found, lun, &WriteRates::per_second); };
  const auto p50 = [&](Lun lun) { return median(found, lun, &WriteRates::p50_us); };
  std::printf("  journal / no journal: x%.2f; on files: x%.2f\n", rate(kJournalled) / rate(kSlow),
              rate(kFileJournalled) / rate(kFile));
  if (found.contains(kNull)) std::printf("  journal / null store: x%.2f\n", rate(kJournalled) / rate(kNull));
  if (found.contains(kLogAlone))
    std::printf("  time beyond the null store, journal / disk like the log: %.0f us / %.0f us = x%.2f\n",
                p50(kJournalled) - p50(kNull), p50(kLogAlone) - p50(kNull),
                (p50(kJournalled) - p50(kNull)) / (p50(kLogAlone) - p50(kNull)));
  if (found.contains(kMemory))
    std::printf(
        "  cpu of a journalled write beyond a plain one: %.2f us\n",
        median(found, kJournalled, &WriteRates::target_cpu_us) - median(found, kMemory, &WriteRates::target_cpu_us));
}

bool measure(Daemon& daemon, const Cell& cell, double seconds, int rounds) {
  Found found;
  for (int round = 0; round < rounds; ++round) {
    for (const Lun lun : cell.luns) {
      WriteLoad load;
      load.url = daemon.url(lun);
      load.depth = cell.depth;
      load.bytes = cell.bytes;
      load.sequential = cell.sequential;
      load.seconds = seconds;
      load.target = daemon.pid();
      const auto rates = run_writes(load);
      if (!rates) {
        std::fprintf(stderr, "%s, %s: %s\n", cell.name, kNames[lun], rates.error().message.c_str());
        return false;
      }
      found[lun].push_back(*rates);
    }
  }
  print(cell, found);
  const CommandResult journal = run_command({program("zvoltctl"), "--socket", daemon.admin_socket(), "journal"});
  std::printf("%s", journal.output.c_str());
  std::fflush(stdout);
  return true;
}

int run(double seconds, int rounds, const std::string& real) {
  // In memory: its flush takes what the model says and nothing more.
  const std::string log = "/dev/shm/zvolt-journal-speed-" + std::to_string(::getpid());
  Daemon daemon(served(log, real));
  const auto started = daemon.start();
  ::unlink(log.c_str());
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  for (const Cell& cell : kCells)
    if (!measure(daemon, cell, seconds, rounds)) return 1;
  return daemon.terminate() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace zvolt::test

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  const zvolt::test::TempDir here;
  return zvolt::test::run(seconds, rounds, argc > 3 ? argv[3] : here.file("."));
}
