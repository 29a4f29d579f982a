// Power cuts at random moments, also during replay, against a model: what was acknowledged as durable is there, per
// block nothing older comes after something newer, and what was read once after a restart stays. Seeded; the seed is
// printed when a run fails. (tests/crash drives the same for hours, with more kinds of faults.)
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kLunBytes = uint64_t{128} << 10;
constexpr uint64_t kBlocks = kLunBytes / kBlock;
constexpr size_t kMostInFlight = 6;

// Each write has a version; each of its blocks holds that version and its own number, all over. Zeros are version 0 or
// of a write_zeroes or discard: those versions are known by the model.
struct Block {
  struct Write {
    uint64_t version;
    bool zeros;
  };
  std::vector<Write> writes{{0, true}};  // possible contents, oldest first
  size_t durable = 0;                    // index: nothing before it may be seen
  size_t completed = 0;                  // index: what a read must see
};

struct Running {
  explicit Running(size_t number, IoKind kind, uint64_t offset, uint64_t length)
      : lun(number), op(kind, offset, length) {}
  size_t lun;
  Op op;
  uint64_t version = 0;
  uint64_t covered_begin = 0;  // blocks that change: of a discard only whole granules do
  uint64_t covered_end = 0;
  std::vector<size_t> at_flush;  // flush: index of each block when it was submitted
};

class Driver {
 public:
  explicit Driver(uint64_t seed)
      : random_(seed), world_(uint64_t{128} << 10, seed % 2 == 0 ? kSmallSector : kLargeSector, &random_) {
    world_.options.memory_bytes = uint64_t{256} << 10;
    world_.options.max_dirty_age = std::chrono::milliseconds(seed % 3 == 0 ? 0 : 50);
    for (int i = 0; i < 2; ++i) {
      world_.add_store(kLunBytes, 4096);
      model_.emplace_back(kBlocks);
    }
  }

  void life(int steps) {
    const std::string fault = world_.open();
    ASSERT_EQ(fault, "");
    ASSERT_NO_FATAL_FAILURE(check_all());
    for (int i = 0; i < steps; ++i) {
      step();
      ASSERT_NO_FATAL_FAILURE(reap());
    }
    if (below(random_, 4) == 0) {
      world_.kill();
    } else {
      world_.cut_power(random_);
    }
    forget_running();
  }
  // Opens, and loses power after a few turns: replay is under way.
  void interrupted_replay() {
    ASSERT_EQ(world_.open(), "");
    for (uint64_t i = below(random_, 60); i > 0; --i) world_.journal->turn();
    world_.cut_power(random_);
  }

 private:
  void step() {
    world_.now_ns += below(random_, 5'000'000);
    const uint64_t what = below(random_, 10);
    if (what < 4 && running_.size() < kMostInFlight) return start();
    if (what < 7) return world_.shard_turn();
    world_.journal->turn();
  }

  bool busy(size_t lun, uint64_t begin, uint64_t end) const {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& each) {
      const IoRequest& r = each->op.request;
      return each->lun == lun && r.kind != IoKind::flush && r.offset < end && begin < r.offset + r.length;
    });
  }

  void start() {
    const size_t lun = below(random_, model_.size());
    const uint64_t first = below(random_, kBlocks);
    const uint64_t count = 1 + below(random_, std::min<uint64_t>(kBlocks - first, below(random_, 6) == 0 ? 64 : 12));
    const uint64_t what = below(random_, 20);
    const IoKind kind = what < 11   ? IoKind::write
                        : what < 12 ? IoKind::write_zeroes
                        : what < 14 ? IoKind::discard
                        : what < 17 ? IoKind::read
                                    : IoKind::flush;
    if (kind != IoKind::flush && busy(lun, first * kBlock, (first + count) * kBlock)) return;
    running_.push_back(std::make_unique<Running>(lun, kind, first * kBlock, count * kBlock));
    Running& run = *running_.back();
    prepare(run, first, count);
    world_.submit(lun, run.op);
  }

  void prepare(Running& run, uint64_t first, uint64_t count) {
    IoRequest& request = run.op.request;
    if (request.kind == IoKind::flush) {
      request.offset = request.length = 0;
      for (const Block& block : model_[run.lun]) run.at_flush.push_back(block.completed);
      return;
    }
    if (request.kind == IoKind::read) return;
    request.fua = below(random_, 2) == 0;
    run.version = ++versions_;
    run.covered_begin = first;
    run.covered_end = first + count;
    if (request.kind == IoKind::discard) {
      run.covered_begin = (first + 7) / 8 * 8;
      run.covered_end = std::max((first + count) / 8 * 8, run.covered_begin);
    }
    for (uint64_t i = run.covered_begin; i < run.covered_end; ++i) {
      model_[run.lun][i].writes.push_back({run.version, request.kind != IoKind::write});
      if (request.kind == IoKind::write) fill(run.op.memory.data() + (i - first) * kBlock, run.version, i);
    }
  }

  static void fill(uint8_t* at, uint64_t version, uint64_t block) {
    for (uint64_t i = 0; i < kBlock; i += 16) {
      memcpy(at + i, &version, 8);
      memcpy(at + i + 8, &block, 8);
    }
  }

  void reap() {
    for (size_t i = 0; i < running_.size();) {
      Running& run = *running_[i];
      if (!run.op.completed) {
        ++i;
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(completed(run));
      running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void completed(Running& run) {
    const IoRequest& request = run.op.request;
    ASSERT_EQ(request.error, 0) << "kind " << int(request.kind);
    auto& blocks = model_[run.lun];
    if (request.kind == IoKind::read) {
      for (uint64_t i = 0; i < request.length / kBlock; ++i) {
        Block& block = blocks[request.offset / kBlock + i];
        const uint8_t* data = run.op.memory.data() + i * kBlock;
        ASSERT_TRUE(is(data, block.writes.back(), request.offset / kBlock + i))
            << "a read did not see the last write: lun " << run.lun << " block " << request.offset / kBlock + i;
      }
    } else if (request.kind == IoKind::flush) {
      for (uint64_t i = 0; i < kBlocks; ++i) blocks[i].durable = std::max(blocks[i].durable, run.at_flush[i]);
    } else {
      for (uint64_t i = run.covered_begin; i < run.covered_end; ++i) {
        blocks[i].completed = blocks[i].writes.size() - 1;
        if (request.fua) blocks[i].durable = blocks[i].completed;
      }
    }
  }

  static bool is(const uint8_t* data, const Block::Write& write, uint64_t block) {
    uint8_t expected[kBlock] = {};
    if (!write.zeros) fill(expected, write.version, block);
    return memcmp(data, expected, kBlock) == 0;
  }

  // After a restart: each block is what it may be, and that is what it is from now on.
  void check_all() {
    for (size_t lun = 0; lun < model_.size(); ++lun) {
      Op all(IoKind::read, 0, kLunBytes);
      ASSERT_EQ(world_.run_op(lun, all), 0);
      for (uint64_t i = 0; i < kBlocks; ++i) {
        Block& block = model_[lun][i];
        const uint8_t* data = all.memory.data() + i * kBlock;
        size_t found = block.writes.size();
        for (size_t w = block.writes.size(); w-- > block.durable && found == block.writes.size();) {
          if (is(data, block.writes[w], i)) found = w;
        }
        uint64_t seen = 0;
        memcpy(&seen, data, 8);
        ASSERT_NE(found, block.writes.size())
            << "lun " << lun << " block " << i << " holds version " << seen << ", but "
            << block.writes[block.durable].version << " was acknowledged as durable";
        block.writes = {block.writes[found]};
        block.durable = block.completed = 0;
      }
    }
  }

  void forget_running() { running_.clear(); }

  Random random_;
  World world_;
  std::vector<std::vector<Block>> model_;
  std::vector<std::unique_ptr<Running>> running_;
  uint64_t versions_ = 0;
};

TEST(JournalCrash, AcknowledgedWritesSurviveAndNothingOldComesBack) {
  const char* given = getenv("ZVOLT_CRASH_SEED");
  const char* rounds = getenv("ZVOLT_CRASH_ROUNDS");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : 1;
  const uint64_t count = rounds != nullptr ? strtoull(rounds, nullptr, 10) : 40;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("ZVOLT_CRASH_SEED=" + std::to_string(seed) + " ZVOLT_CRASH_ROUNDS=1");
    Driver driver(seed);
    Random lengths(seed);
    for (int life = 0; life < 8; ++life) {
      driver.life(static_cast<int>(50 + below(lengths, 1500)));
      for (uint64_t i = below(lengths, 3); i > 0 && !HasFatalFailure(); --i) driver.interrupted_replay();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace zvolt::backing::journal
