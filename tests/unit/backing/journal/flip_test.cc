// One wrong bit anywhere in a small journal: never a crash, never wrong data. The last group is dropped and reported;
// damage to anything before it is refused, with what is lost.
#include "sim.h"

namespace zvolt::backing::journal {
namespace {

constexpr uint64_t kUsedRing = 8192;  // bytes of the ring that are flipped: all groups, and some of what follows

// Four groups of one write each, the data never written back: 0x11, 0x22, 0x33 at their own places, then 0x44 over
// 0x11.
class Flip : public testing::Test {
 protected:
  void SetUp() override {
    world_.add_store();
    ASSERT_EQ(world_.open(), "");
    const uint64_t offsets[] = {0, 4096, 8192, 0};
    for (int i = 0; i < 4; ++i) {
      Op op(IoKind::write, offsets[i], 512, static_cast<uint8_t>(0x11 * (i + 1)));
      op.request.fua = true;
      world_.submit(0, op);
      for (int turn = 0; turn < 10 && !op.completed; ++turn) world_.shard_turn();
      ASSERT_TRUE(op.completed);
    }
    groups_ = world_.journal->statistics().bytes_committed;
    world_.kill();
    log_ = world_.log->durable();
    store_ = world_.stores[0]->durable();
  }

  enum class Outcome { whole, last_dropped, refused, wrong };

  Outcome outcome_of(uint64_t byte, uint8_t mask) {
    world_.log->durable() = world_.log->bytes() = log_;
    world_.stores[0]->durable() = world_.stores[0]->bytes() = store_;
    world_.log->bytes()[byte] ^= mask;
    world_.reports.clear();
    const std::string refusal = world_.open();
    if (!refusal.empty()) return Outcome::refused;
    const bool middle = world_.reads(0, 4096, 512, 0x22) && world_.reads(0, 8192, 512, 0x33);
    const bool newest = world_.reads(0, 0, 512, 0x44);
    const bool older = world_.reads(0, 0, 512, 0x11);
    const bool told = world_.journal->replayed().torn && !world_.reports.empty();
    world_.drop();
    if (!middle || (!newest && !older)) return Outcome::wrong;
    if (older && !told) return Outcome::wrong;
    return newest ? Outcome::whole : Outcome::last_dropped;
  }

  World world_{uint64_t{64} << 10, kSmallSector};
  std::vector<uint8_t> log_;
  std::vector<uint8_t> store_;
  uint64_t groups_ = 0;
};

TEST_F(Flip, AnyBitOfTheRingIsDroppedAtTheEndAndRefusedBefore) {
  ASSERT_EQ(groups_, 4 * 1024U);
  ASSERT_LE(groups_, kUsedRing);
  for (uint64_t at = 0; at < kUsedRing; ++at) {
    const Outcome expected = at < 3 * 1024 ? Outcome::refused : at < groups_ ? Outcome::last_dropped : Outcome::whole;
    const auto mask = static_cast<uint8_t>(1U << (at * 5 + at / 512) % 8);
    ASSERT_EQ(outcome_of(kRingStart + at, mask), expected) << "ring byte " << at << " bit mask " << int(mask);
  }
}

TEST_F(Flip, EveryBitOfAHeaderIsFound) {
  for (uint64_t bit = 0; bit < 512 * 8; ++bit) {
    const auto mask = static_cast<uint8_t>(1U << bit % 8);
    ASSERT_EQ(outcome_of(kRingStart + 3 * 1024 + bit / 8, mask), Outcome::last_dropped) << "bit " << bit;
    ASSERT_EQ(outcome_of(kRingStart + 1024 + bit / 8, mask), Outcome::refused) << "bit " << bit;
  }
}

TEST_F(Flip, AnyBitOfOneSuperblockLeavesTheOtherInCharge) {
  for (const uint64_t slot : {uint64_t{0}, kSlotStride}) {
    for (uint64_t at = 0; at < kSuperblockBytes; ++at) {
      ASSERT_EQ(outcome_of(slot + at, static_cast<uint8_t>(1U << at % 8)), Outcome::whole) << slot << " byte " << at;
    }
  }
}

}  // namespace
}  // namespace zvolt::backing::journal
