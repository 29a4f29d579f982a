// See write_load.h.
#include "tests/bench/write_load.h"

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "tests/support/cdb.h"
#include "tests/support/libiscsi_session.h"

namespace zvolt::test {
namespace {

using Clock = std::chrono::steady_clock;

// User and system time that a process has used, in microseconds. 0 when it is gone.
double cpu_us(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(text.substr(after_name + 2));
  constexpr int kBeforeUtime = 11;  // proc(5): utime is field 14, the third is the first here
  std::string skipped;
  for (int i = 0; i < kBeforeUtime; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) * 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Writer {
 public:
  Writer(const WriteLoad& load, LibiscsiSession session)
      : load_(load), session_(std::move(session)), data_(pattern(load.bytes, 1)) {}

  Result<void> run() {
    operations_.resize(load_.depth);
    until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(load_.seconds));
    for (Operation& each : operations_) start(each);
    iscsi_context* context = session_.context();
    while (in_flight_ > 0 && problem_.empty()) {
      pollfd events{iscsi_get_fd(context), static_cast<short>(iscsi_which_events(context)), 0};
      if (::poll(&events, 1, 10'000) <= 0 || iscsi_service(context, events.revents) != 0)
        problem_ = std::string("connection: ") + iscsi_get_error(context);
    }
    if (!problem_.empty()) return Error{EIO, problem_};
    return {};
  }
  std::vector<double>& latencies_us() { return latencies_us_; }

 private:
  struct Operation {
    Writer* writer = nullptr;
    scsi_task* task = nullptr;
    Clock::time_point begun{};
  };

  uint64_t pick() {
    const uint64_t places = load_.span / load_.bytes;
    if (load_.sequential) return next_++ % places;
    return std::uniform_int_distribution<uint64_t>(0, places - 1)(random_);
  }
  void start(Operation& operation) {
    operation.writer = this;
    constexpr uint32_t kBlock = 512;
    Cdb cdb = write16(pick() * load_.bytes / kBlock, load_.bytes / kBlock, load_.flags);
    operation.task =
        scsi_create_task(static_cast<int>(cdb.size()), cdb.data(), SCSI_XFER_WRITE, static_cast<int>(load_.bytes));
    operation.begun = Clock::now();
    iscsi_data payload{data_.size(), data_.data()};
    if (iscsi_scsi_command_async(session_.context(), session_.lun(), operation.task, &Writer::on_done, &payload,
                                 &operation) != 0)
      problem_ = iscsi_get_error(session_.context());
    else
      ++in_flight_;
  }
  static void on_done(iscsi_context*, int status, void*, void* argument) {
    auto& operation = *static_cast<Operation*>(argument);
    operation.writer->done(operation, status);
  }
  void done(Operation& operation, int status) {
    --in_flight_;
    const auto now = Clock::now();
    latencies_us_.push_back(std::chrono::duration<double, std::micro>(now - operation.begun).count());
    if (status != SCSI_STATUS_GOOD) problem_ = "a write ended with status " + std::to_string(status);
    scsi_free_scsi_task(operation.task);
    if (now < until_ && problem_.empty()) start(operation);
  }

  const WriteLoad& load_;
  LibiscsiSession session_;
  Bytes data_;
  std::deque<Operation> operations_;
  std::mt19937_64 random_{1};
  uint64_t next_ = 0;
  Clock::time_point until_{};
  unsigned in_flight_ = 0;
  std::vector<double> latencies_us_;
  std::string problem_;
};

double percentile(std::vector<double>& values, double part) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Result<WriteRates> run_writes(const WriteLoad& load) {
  auto session = LibiscsiSession::open(load.url);
  if (!session) return session.error();
  session->command(test_unit_ready());  // takes the unit attention of a new nexus
  Writer writer(load, std::move(*session));
  const double cpu_before = cpu_us(load.target);
  const auto begin = Clock::now();
  const auto ran = writer.run();
  if (!ran) return ran.error();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = cpu_us(load.target) - cpu_before;
  auto& latencies = writer.latencies_us();
  WriteRates rates;
  rates.operations = latencies.size();
  rates.per_second = static_cast<double>(latencies.size()) / seconds;
  rates.p50_us = percentile(latencies, 0.5);
  rates.p99_us = percentile(latencies, 0.99);
  rates.target_cpu_us = cpu / static_cast<double>(latencies.size());
  return rates;
}

}  // namespace zvolt::test
