// zvolt-engine-bench: random reads and writes of one block device or file through a BlockStore and each kind of engine,
// in turn, several rounds in one run, so that the kinds can be compared although the machine is not quiet. One thread,
// as a shard. Prints a line per case: IOPS, CPU of this process and of the whole machine per operation. tests/vm runs
// it on zvols.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backing/aligned_buffer.h"
#include "backing/io_engine.h"
#include "backing/stores.h"

namespace zvolt::backing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kDepth = 32;  // requests in flight, as one busy session
constexpr int kPollMs = 1000;

struct Load {
  BlockStore& store;
  IoEngine& engine;
  IoKind kind;
  uint32_t size;
  uint64_t span;
  Clock::time_point end;
  uint64_t done = 0;
  int error = 0;
  unsigned in_flight = 0;
  std::mt19937_64 random{1};
};

struct Slot {
  IoRequest request;
  iovec iov{};
  AlignedBuffer buffer;
  Load* load = nullptr;
};

void finished(IoRequest& request) noexcept;

// Again and again, as long as the store answers at once.
void submit(Slot& slot) {
  Load& load = *slot.load;
  while (Clock::now() < load.end && load.error == 0) {
    IoRequest& request = slot.request;
    request.kind = load.kind;
    request.offset = load.random() % (load.span / load.size) * load.size;
    request.length = load.size;
    slot.iov = {slot.buffer.get(), load.size};
    request.iov = &slot.iov;
    request.iov_count = 1;
    request.done = finished;
    request.context = &slot;
    request.error = 0;
    if (load.store.submit(request, load.engine) == Submitted::pending) {
      ++load.in_flight;
      return;
    }
    ++load.done;
    load.error = request.error;
  }
}

void finished(IoRequest& request) noexcept {
  Slot& slot = *static_cast<Slot*>(request.context);
  --slot.load->in_flight;
  ++slot.load->done;
  if (request.error != 0) slot.load->error = request.error;
  submit(slot);
}

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

double process_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// Of all processors, without idle and I/O wait: a zvol works in threads of ZFS.
double machine_cpu() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0;
  stat >> cpu >> user >> nice >> system >> idle >> wait >> irq >> softirq;
  return (user + nice + system + irq + softirq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void run_case(BlockStore& store, const EngineOptions& options, const char* name, IoKind kind, uint32_t size,
              double seconds) {
  const std::unique_ptr<IoEngine> engine = make_engine(options);
  Load load{store,
            *engine,
            kind,
            size,
            store.size_bytes(),
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))};
  std::vector<std::unique_ptr<Slot>> slots;
  for (unsigned n = 0; n < kDepth; ++n) {
    slots.push_back(std::make_unique<Slot>());
    slots.back()->buffer = make_aligned(size);
    std::memset(slots.back()->buffer.get(), static_cast<int>(n + 1), size);
    slots.back()->load = &load;
  }
  const double cpu = process_cpu(), all = machine_cpu();
  const auto began = Clock::now();
  for (auto& slot : slots) submit(*slot);
  engine->flush();
  while (load.in_flight > 0) {
    pollfd ready{engine->wait_fd(), POLLIN, 0};
    ::poll(&ready, 1, kPollMs);
    engine->reap(64);
    engine->flush();
  }
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  const auto count = static_cast<double>(load.done > 0 ? load.done : 1);
  std::printf("%s %s %u %.0f %.1f %.1f%s%s\n", name, kind == IoKind::read ? "read" : "write", size, count / took,
              (process_cpu() - cpu) / count * 1e6, (machine_cpu() - all) / count * 1e6,
              load.error != 0 ? " ERROR " : "", load.error != 0 ? std::strerror(load.error) : "");
  std::fflush(stdout);
}

int run(const std::string& path, unsigned rounds, double seconds) {
  auto opened = open_device({.path = path});
  if (!opened) opened = open_file({.path = path});
  if (!opened) {
    std::fprintf(stderr, "zvolt-engine-bench: %s: %s\n", path.c_str(), opened.error().message.c_str());
    return 1;
  }
  std::printf("engine operation bytes iops process_cpu_us machine_cpu_us\n");
  for (unsigned round = 0; round < rounds; ++round)
    for (const uint32_t size : {4096u, 16384u, 65536u})
      for (const IoKind kind : {IoKind::write, IoKind::read}) {
        run_case(**opened, {}, "ring", kind, size, seconds);
        run_case(**opened, {.worker_threads = 2, .allow_uring = false}, "threads2", kind, size, seconds);
        run_case(**opened, {.worker_threads = 8, .allow_uring = false}, "threads8", kind, size, seconds);
      }
  return 0;
}

}  // namespace
}  // namespace zvolt::backing

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: zvolt-engine-bench DEVICE [ROUNDS [SECONDS]]   overwrites DEVICE\n");
    return 2;
  }
  return zvolt::backing::run(argv[1], argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 3,
                             argc > 3 ? std::atof(argv[3]) : 2);
}
