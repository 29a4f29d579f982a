// zvolt-verify-loop: mixed I/O of many sizes on several sessions of one LUN, every byte checked. Each session owns a
// part of the LUN and keeps a generation per block; data is a function of (block, generation), so a lost, stale, torn
// or misplaced write shows. At the end every session reads the part of the next one. Exit status 1 on the first
// mismatch or error. One thread a session, libiscsi's asynchronous interface. Used by the integration tests and by hand
// for minutes.
#include <getopt.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cdb.h"
#include "tests/support/libiscsi_session.h"

namespace zvolt::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLargestBytes = 1 << 20;
constexpr uint64_t kDefaultSpan = 256ull << 20;  // bytes of the LUN that are used: small enough for many overwrites
constexpr uint32_t kUnknown = 0;                 // generation: never written by this run
constexpr uint32_t kZeroed = 1;                  // unmapped: reads zero

struct Options {
  std::string url;
  unsigned sessions = 4;
  unsigned seconds = 5;
  unsigned depth = 8;
  uint64_t span = kDefaultSpan;
  uint64_t seed = 1;
  bool patient = false;  // unit attentions, "becoming ready" and BUSY: the command is repeated, as hosts do
};

// Between two attempts of a patient command that was told to wait.
constexpr auto kPatience = std::chrono::milliseconds(5);

// Attempts of a patient command of the setup or of the final check: 10 s.
constexpr int kAttempts = 2000;

std::atomic<bool> failed{false};

void report(const std::string& what) {
  failed = true;
  std::fprintf(stderr, "zvolt-verify-loop: %s\n", what.c_str());
}

// The commands of the setup and of the final check, repeated like those of the load.
template <typename Run>
ScsiResult patiently(const Options& options, Run run) {
  for (int attempt = 1;; ++attempt) {
    ScsiResult result = run();
    const bool told_to_wait = result.sense.starts_with("06/") || result.sense == "02/04/01";
    if (!options.patient || !told_to_wait || attempt == kAttempts) return result;
    std::this_thread::sleep_for(kPatience);
  }
}

void stamp(uint8_t* block, uint32_t block_size, uint64_t number, uint32_t generation) {
  if (generation == kZeroed) {
    std::fill_n(block, block_size, uint8_t{0});
    return;
  }
  const Bytes data = pattern(block_size, number << 20 ^ generation);
  std::copy(data.begin(), data.end(), block);
}

enum class Kind { read, write, write_fua, verify, unmap, synchronize };

class Worker;

struct Operation {
  Worker* worker = nullptr;
  Kind kind = Kind::read;
  uint64_t first = 0;  // block
  uint32_t blocks = 0;
  uint32_t generation = 0;  // that a write leaves
  Bytes data;
  scsi_task* task = nullptr;
  Clock::time_point begun{};  // repetitions included
};

struct Totals {
  uint64_t operations = 0, bytes = 0, repeated = 0;
  Clock::duration longest{};  // of one operation
};

// One session and the blocks it owns. All members belong to its thread.
class Worker {
 public:
  Worker(const Options& options, LibiscsiSession session, uint32_t block_size, uint64_t first, uint64_t blocks,
         unsigned id)
      : options_(options),
        session_(std::move(session)),
        block_size_(block_size),
        first_(first),
        generations_(blocks, kUnknown),
        users_(blocks, 0),
        random_(options.seed * 1000 + id) {
    session_.set_block_size(block_size);
  }

  void run(Clock::time_point until) {
    for (unsigned i = 0; i < options_.depth; ++i) operations_.emplace_back().worker = this;
    for (Operation& operation : operations_) start(operation);
    while (in_flight_ > 0 && !stuck_) {
      stopping_ = stopping_ || failed || Clock::now() >= until;
      turn();
    }
  }

  // Reads what `owner` wrote, through this session.
  void check_all_of(const Worker& owner) {
    const uint32_t step = kLargestBytes / 4 / block_size_;
    for (uint64_t at = 0; at < owner.generations_.size() && !failed; at += step) {
      const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(step, owner.generations_.size() - at));
      const ScsiResult result =
          patiently(options_, [&] { return session_.read((owner.first_ + at) * block_size_, blocks * block_size_); });
      if (!result.good())
        report("final read: " + result.text());
      else
        owner.compare(at, blocks, result.data.data(), result.data.size(), "final check through another session");
      ++totals_.operations;
      totals_.bytes += uint64_t{blocks} * block_size_;
    }
  }

  const Totals& totals() const { return totals_; }

 private:
  void turn() {
    iscsi_context* context = session_.context();
    pollfd events{iscsi_get_fd(context), static_cast<short>(iscsi_which_events(context)), 0};
    if (::poll(&events, 1, 1000) < 0 || iscsi_service(context, events.revents) != 0) {
      report(std::string("connection: ") + iscsi_get_error(context));
      stuck_ = true;
    }
  }

  bool idle(uint64_t at, uint32_t blocks) const {
    return std::all_of(users_.begin() + static_cast<ptrdiff_t>(at),
                       users_.begin() + static_cast<ptrdiff_t>(at + blocks), [](uint8_t users) { return users == 0; });
  }

  void mark(const Operation& operation, uint8_t users) {
    std::fill_n(users_.begin() + static_cast<ptrdiff_t>(operation.first), operation.blocks, users);
  }

  Kind pick_kind() {
    const auto percent = std::uniform_int_distribution<int>(0, 99)(random_);
    if (percent < 45) return Kind::read;
    if (percent < 85) return Kind::write;
    if (percent < 90) return Kind::write_fua;
    if (percent < 95) return Kind::verify;
    return percent < 99 ? Kind::unmap : Kind::synchronize;
  }

  // Sizes spread evenly over the powers of two, places over the whole part; never a block that another operation of
  // this session is using.
  bool pick_range(Operation& operation) {
    const double most = std::log2(static_cast<double>(std::min<uint64_t>(kLargestBytes / block_size_, users_.size())));
    for (int attempt = 0; attempt < 50; ++attempt) {
      const auto blocks = static_cast<uint32_t>(std::exp2(std::uniform_real_distribution<double>(0, most)(random_)));
      const uint64_t at = std::uniform_int_distribution<uint64_t>(0, users_.size() - blocks)(random_);
      if (!idle(at, blocks)) continue;
      operation.first = at;
      operation.blocks = blocks;
      return true;
    }
    return false;
  }

  void start(Operation& operation) {
    operation.kind = pick_kind();
    if (!pick_range(operation)) {  // everything is busy: a flush needs no range
      operation.kind = Kind::synchronize;
      operation.blocks = 0;
    }
    if (operation.kind == Kind::verify && !known(operation)) operation.kind = Kind::write;
    prepare(operation);
    mark(operation, 1);
    operation.begun = Clock::now();
    submit(operation);
  }

  bool known(const Operation& operation) const {
    const auto begin = generations_.begin() + static_cast<ptrdiff_t>(operation.first);
    return std::find(begin, begin + operation.blocks, kUnknown) == begin + operation.blocks;
  }

  void prepare(Operation& operation) {
    operation.data.clear();
    const bool writes = operation.kind == Kind::write || operation.kind == Kind::write_fua;
    if (writes) operation.generation = ++last_generation_;
    if (operation.kind == Kind::unmap) {
      operation.generation = kZeroed;
      operation.data = unmap_list(first_ + operation.first, operation.blocks);
    }
    if (!writes && operation.kind != Kind::verify) return;
    operation.data.resize(uint64_t{operation.blocks} * block_size_);
    for (uint32_t i = 0; i < operation.blocks; ++i)
      stamp(&operation.data[uint64_t{i} * block_size_], block_size_, first_ + operation.first + i,
            writes ? operation.generation : generations_[operation.first + i]);
  }

  Cdb cdb_of(const Operation& operation) const {
    const uint64_t lba = first_ + operation.first;
    switch (operation.kind) {
      case Kind::read:
        return read16(lba, operation.blocks);
      case Kind::write:
        return write16(lba, operation.blocks);
      case Kind::write_fua:
        return write16(lba, operation.blocks, kFua);
      case Kind::verify:
        return verify16(lba, operation.blocks, kBytchk);
      case Kind::unmap:
        return unmap(24);
      case Kind::synchronize:
        break;
    }
    return synchronize_cache16();
  }

  void submit(Operation& operation) {
    Cdb cdb = cdb_of(operation);
    const bool in = operation.kind == Kind::read, out = !operation.data.empty();
    const size_t bytes = in ? uint64_t{operation.blocks} * block_size_ : operation.data.size();
    const int direction = in ? SCSI_XFER_READ : out ? SCSI_XFER_WRITE : SCSI_XFER_NONE;
    operation.task = scsi_create_task(static_cast<int>(cdb.size()), cdb.data(), direction, static_cast<int>(bytes));
    iscsi_data payload{operation.data.size(), operation.data.data()};
    if (iscsi_scsi_command_async(session_.context(), session_.lun(), operation.task, &Worker::on_done,
                                 out ? &payload : nullptr, &operation) != 0) {
      report(std::string("submit: ") + iscsi_get_error(session_.context()));
      return;
    }
    ++in_flight_;
  }

  static void on_done(iscsi_context*, int status, void*, void* argument) {
    auto& operation = *static_cast<Operation*>(argument);
    operation.worker->done(operation, status);
  }

  // Whether a host would send this command again, by what the target said.
  bool is_worth_repeating(const Operation& operation, int status) const {
    if (!options_.patient || failed) return false;
    if (status == SCSI_STATUS_BUSY || status == SCSI_STATUS_TASK_SET_FULL) return true;
    if (status != SCSI_STATUS_CHECK_CONDITION) return false;
    const scsi_sense& sense = operation.task->sense;
    constexpr int kBecomingReady = 0x0401;
    return sense.key == SCSI_SENSE_UNIT_ATTENTION ||
           (sense.key == SCSI_SENSE_NOT_READY && sense.ascq == kBecomingReady);
  }

  void repeat(Operation& operation, int status) {
    const bool wait = status != SCSI_STATUS_CHECK_CONDITION || operation.task->sense.key == SCSI_SENSE_NOT_READY;
    scsi_free_scsi_task(operation.task);
    operation.task = nullptr;
    ++totals_.repeated;
    if (wait) std::this_thread::sleep_for(kPatience);
    submit(operation);
  }

  void done(Operation& operation, int status) {
    --in_flight_;
    if (is_worth_repeating(operation, status)) return repeat(operation, status);
    totals_.longest = std::max(totals_.longest, Clock::now() - operation.begun);
    if (status != SCSI_STATUS_GOOD) {
      const scsi_sense& sense = operation.task->sense;
      report("operation " + std::to_string(static_cast<int>(operation.kind)) + " on block " +
             std::to_string(first_ + operation.first) + " + " + std::to_string(operation.blocks) + ": status " +
             std::to_string(status) + " sense " +
             sense_text(static_cast<uint8_t>(sense.key), static_cast<uint8_t>(sense.ascq >> 8),
                        static_cast<uint8_t>(sense.ascq)));
    } else {
      finish(operation);
    }
    mark(operation, 0);
    scsi_free_scsi_task(operation.task);
    operation.task = nullptr;
    if (!stopping_ && !failed) start(operation);
  }

  void finish(const Operation& operation) {
    ++totals_.operations;
    totals_.bytes += uint64_t{operation.blocks} * block_size_;
    switch (operation.kind) {
      case Kind::read:
        compare(operation.first, operation.blocks, operation.task->datain.data,
                static_cast<size_t>(std::max(operation.task->datain.size, 0)), "read");
        break;
      case Kind::write:
      case Kind::write_fua:
      case Kind::unmap:
        std::fill_n(generations_.begin() + static_cast<ptrdiff_t>(operation.first), operation.blocks,
                    operation.generation);
        break;
      case Kind::verify:
      case Kind::synchronize:
        break;
    }
  }

  void compare(uint64_t at, uint32_t blocks, const uint8_t* data, size_t bytes, const char* when) const {
    if (bytes != uint64_t{blocks} * block_size_) {
      report(std::string(when) + ": " + std::to_string(bytes) + " bytes came instead of " +
             std::to_string(uint64_t{blocks} * block_size_));
      return;
    }
    Bytes expected(block_size_);
    for (uint32_t i = 0; i < blocks; ++i) {
      const uint32_t generation = generations_[at + i];
      if (generation == kUnknown) continue;
      stamp(expected.data(), block_size_, first_ + at + i, generation);
      if (std::equal(expected.begin(), expected.end(), data + uint64_t{i} * block_size_)) continue;
      report(std::string(when) + ": MISMATCH in block " + std::to_string(first_ + at + i) + ", generation " +
             std::to_string(generation) + ", in a transfer of " + std::to_string(blocks) + " blocks from " +
             std::to_string(first_ + at));
      return;
    }
  }

  const Options& options_;
  LibiscsiSession session_;
  const uint32_t block_size_;
  const uint64_t first_;
  std::vector<uint32_t> generations_;  // per own block
  std::vector<uint8_t> users_;         // per own block: 1 while an operation uses it
  std::mt19937_64 random_;
  std::deque<Operation> operations_;
  uint32_t last_generation_ = kZeroed;
  unsigned in_flight_ = 0;
  bool stopping_ = false;
  bool stuck_ = false;
  Totals totals_;
};

bool parse(int argc, char** argv, Options& options) {
  const option known[] = {{"url", 1, nullptr, 'u'},     {"sessions", 1, nullptr, 'n'}, {"seconds", 1, nullptr, 's'},
                          {"qd", 1, nullptr, 'q'},      {"span", 1, nullptr, 'p'},     {"seed", 1, nullptr, 'r'},
                          {"patient", 0, nullptr, 'w'}, {nullptr, 0, nullptr, '\0'}};
  for (int c; (c = ::getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    switch (c) {
      case 'u':
        options.url = optarg;
        break;
      case 'n':
        options.sessions = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 's':
        options.seconds = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'q':
        options.depth = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'p':
        options.span = std::strtoull(optarg, nullptr, 10);
        break;
      case 'r':
        options.seed = std::strtoull(optarg, nullptr, 10);
        break;
      case 'w':
        options.patient = true;
        break;
      default:
        return false;
    }
  }
  return !options.url.empty() && options.sessions > 0 && options.depth > 0;
}

bool open_workers(const Options& options, std::vector<std::unique_ptr<Worker>>& workers) {
  uint64_t part = 0;
  uint32_t block_size = 0;
  for (unsigned i = 0; i < options.sessions; ++i) {
    auto session = LibiscsiSession::open(options.url, i + 1);
    if (!session) {
      report(session.error().message);
      return false;
    }
    session->command(test_unit_ready());
    if (i == 0) {
      const ScsiResult capacity = patiently(options, [&] { return session->command(read_capacity16(), 32); });
      if (!capacity.good() || capacity.data.size() < 12) {
        report("READ CAPACITY: " + capacity.text());
        return false;
      }
      block_size = get32(&capacity.data[8]);
      part = std::min(options.span / block_size, get64(capacity.data.data()) + 1) / options.sessions;
    }
    workers.push_back(std::make_unique<Worker>(options, std::move(*session), block_size, i * part, part, i));
  }
  return part > 0;
}

int run(const Options& options) {
  std::vector<std::unique_ptr<Worker>> workers;
  if (!open_workers(options, workers)) return 1;
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (const auto& worker : workers)
    threads.emplace_back([&] { worker->run(begin + std::chrono::seconds(options.seconds)); });
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  for (size_t i = 0; i < workers.size() && !failed; ++i) workers[i]->check_all_of(*workers[(i + 1) % workers.size()]);

  Totals sum;
  for (const auto& worker : workers) {
    sum.operations += worker->totals().operations;
    sum.bytes += worker->totals().bytes;
    sum.repeated += worker->totals().repeated;
    sum.longest = std::max(sum.longest, worker->totals().longest);
  }
  const auto longest_ms = std::chrono::duration_cast<std::chrono::milliseconds>(sum.longest).count();
  std::printf("sessions=%u qd=%u seconds=%.1f ops=%llu bytes=%llu repeated=%llu longest_ms=%lld errors=%d\n",
              options.sessions, options.depth, elapsed.count(), static_cast<unsigned long long>(sum.operations),
              static_cast<unsigned long long>(sum.bytes), static_cast<unsigned long long>(sum.repeated),
              static_cast<long long>(longest_ms), failed ? 1 : 0);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace zvolt::test

int main(int argc, char** argv) {
  zvolt::test::Options options;
  if (!zvolt::test::parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: zvolt-verify-loop --url iscsi://HOST:PORT/TARGET/LUN [--sessions 4] [--seconds 5] [--qd 8]\n"
                 "                         [--span BYTES] [--seed N] [--patient]\n");
    return 2;
  }
  return zvolt::test::run(options);
}
