// kill -9 under load: log and stores lose what was not flushed, as at a power cut. Every write that was acknowledged as
// durable (FUA, or before a SYNCHRONIZE CACHE that was) must be there afterwards, nothing older, and nothing that was
// never written. ZVOLT_KILL_ROUNDS=200 for the long run.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/integration/journalled_daemon.h"

namespace zvolt::test {
namespace {

constexpr uint32_t kBlock = 4096;
constexpr uint32_t kBlocks = 64;  // of each writer: few, so that they are overwritten often
constexpr int kDefaultRounds = 8;

// One writer's part of a LUN: what may stand there after a cut.
class Writer {
 public:
  Writer(int lun, uint32_t number) : lun_(lun), first_(number * kBlocks), isid_(number + 1) {
    random_.seed(number * 7919 + 17);
  }

  // Until the connection is lost. `url`: of its LUN.
  void run(const std::string& url, std::atomic<uint64_t>& done) {
    auto opened = LibiscsiSession::open(url, isid_);
    if (!opened) return;
    LibiscsiSession session = std::move(*opened);
    session.command(test_unit_ready());
    while (step(session)) ++done;
  }

  // What is there now; the first fault in words. From then on that is what is durable.
  std::string check(LibiscsiSession& session) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const ScsiResult result = session.read(offset(block), kBlock);
      if (!result.good()) return "cannot be read: " + result.text();
      const uint64_t found = generation_of(result.data);
      const std::string where = "lun " + std::to_string(lun_) + " block " + std::to_string(first_ + block) + ": ";
      if (result.data != content(block, found)) return where + "neither old nor new";
      if (found < durable_[block])
        return where + "generation " + std::to_string(found) + " although " + std::to_string(durable_[block]) +
               " was acknowledged as durable";
      if (found > written_[block]) return where + "a generation that was never written";
      durable_[block] = completed_[block] = written_[block] = found;
    }
    return {};
  }
  int lun() const { return lun_; }
  uint32_t isid() const { return isid_; }
  uint64_t durable_writes() const { return durable_writes_; }

 private:
  uint64_t offset(uint32_t block) const { return uint64_t{first_ + block} * kBlock; }
  Bytes content(uint32_t block, uint64_t generation) const {
    if (generation == 0) return Bytes(kBlock);
    Bytes out = pattern(kBlock, offset(block) << 16 ^ generation);
    std::memcpy(out.data(), &generation, sizeof generation);
    return out;
  }
  static uint64_t generation_of(const Bytes& data) {
    uint64_t out = 0;
    std::memcpy(&out, data.data(), sizeof out);
    return out;
  }

  bool step(LibiscsiSession& session) {
    if (random_() % 16 == 0) {
      if (!session.command(synchronize_cache16()).good()) return false;
      for (uint32_t i = 0; i < kBlocks; ++i) durable_[i] = completed_[i];
      return true;
    }
    const auto block = static_cast<uint32_t>(random_() % kBlocks);
    const bool fua = random_() % 2 == 0;
    const uint64_t generation = ++written_[block];
    if (!session.write(offset(block), content(block, generation), fua ? kFua : uint8_t{0}).good()) return false;
    completed_[block] = generation;
    if (fua) {
      durable_[block] = generation;
      ++durable_writes_;
    }
    return true;
  }

  const int lun_;
  const uint32_t first_, isid_;
  std::minstd_rand random_;
  uint64_t durable_writes_ = 0;
  std::array<uint64_t, kBlocks> durable_{}, completed_{}, written_{};  // generations
};

class JournalKill : public JournalledDaemon {};

int rounds() {
  const char* text = std::getenv("ZVOLT_KILL_ROUNDS");
  return text == nullptr ? kDefaultRounds : std::max(1, std::atoi(text));
}

TEST_F(JournalKill, NothingAcknowledgedIsLost) {
  set_journal(std::string(", max_dirty_age: 50ms") + kLosesUnflushed);
  daemon_.config().luns = {journalled_lun(0, "a", kLosesUnflushed),
                           journalled_lun(1, "b", std::string(", sync: always") + kLosesUnflushed)};
  std::vector<Writer> writers;
  for (uint32_t i = 0; i < 4; ++i) writers.emplace_back(static_cast<int>(i % 2), i);
  std::minstd_rand random(static_cast<unsigned>(::getpid()));
  for (int round = 0; round < rounds(); ++round) {
    start();
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
    for (Writer& writer : writers) {
      LibiscsiSession session = opened(writer.lun(), writer.isid());
      const std::string fault = writer.check(session);
      ASSERT_EQ(fault, "") << "round " << round;
    }
    std::atomic<uint64_t> done{0};
    std::vector<std::thread> threads;
    threads.reserve(writers.size());
    for (Writer& writer : writers)
      threads.emplace_back([&, url = daemon_.url(writer.lun())] { writer.run(url, done); });
    const uint64_t until = 20 + random() % 400;
    const bool busy = eventually([&] { return done >= until; });
    daemon_.kill();
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(busy) << "round " << round << ": only " << done << " operations";
  }
  start();
  uint64_t durable = 0;
  for (Writer& writer : writers) {
    LibiscsiSession session = opened(writer.lun(), writer.isid());
    EXPECT_EQ(writer.check(session), "");
    durable += writer.durable_writes();
  }
  EXPECT_GT(durable, 0u);
  EXPECT_EQ(daemon_.terminate(), 0);
}

}  // namespace
}  // namespace zvolt::test
