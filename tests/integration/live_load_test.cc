// Reconfigure under verified load: eight sessions write and read back their own part of their LUN while LUNs are added,
// removed and replaced under half of them. Nothing fails, nothing is lost, and unit attentions come to those sessions
// only whose map changed, one for each change in which a number came or went.
#include <atomic>
#include <thread>

#include "tests/integration/live_server.h"

namespace zvolt::test {
namespace {

constexpr int kWorkers = 8;
constexpr int kChanges = 30;
constexpr uint16_t kBlocks = 32;
constexpr uint32_t kPart = kVolumeBytes / 512 / kWorkers;  // blocks of each worker

constexpr uint64_t kBetween = 6;  // commands of every worker between two changes

struct Tally {
  std::atomic<uint64_t> commands{0};
  std::atomic<bool> ended{false};
  uint64_t announced = 0;
  std::string wrong;  // the first thing that should not have been
};

class Load : public LiveServer {
 protected:
  // One command, repeated after the one unit attention that is allowed.
  static bool run(Tally& tally, bool may_hear, const std::function<Outcome()>& command, Bytes* data = nullptr) {
    for (;;) {
      const Outcome outcome = command();
      ++tally.commands;
      tally.commands.notify_all();
      if (outcome.good()) {
        if (data != nullptr) *data = outcome.data;
        return true;
      }
      if (may_hear && outcome.sense() == "06/3f/0e") {
        ++tally.announced;
        continue;
      }
      tally.wrong = "command " + std::to_string(tally.commands.load()) + ": " + outcome.text();
      return false;
    }
  }

  static void work(RawClient& client, int number, bool may_hear, const std::atomic<bool>& stop, Tally& tally) {
    work_on(client, number, may_hear, stop, tally);
    tally.ended = true;
    ++tally.commands;  // or who waits for progress sleeps on
    tally.commands.notify_all();
  }

  // Until that many more commands have gone well, or the worker has found something.
  static void wait_for_progress(Tally& tally) {
    const uint64_t until = tally.commands + kBetween;
    for (uint64_t now = tally.commands; now < until && !tally.ended; now = tally.commands) tally.commands.wait(now);
  }

  static void work_on(RawClient& client, int number, bool may_hear, const std::atomic<bool>& stop, Tally& tally) {
    const uint32_t begin = static_cast<uint32_t>(number) * kPart;
    for (uint64_t round = 0; !stop || round < 2; ++round) {
      const uint32_t lba = begin + static_cast<uint32_t>(round * kBlocks % (kPart - kBlocks));
      const Bytes data = pattern(kBlocks * 512u, round * kWorkers + static_cast<uint64_t>(number));
      const size_t immediate = round % 2 == 0 ? data.size() : 0;  // every other one by R2T
      if (!run(tally, may_hear, [&] { return client.command_out(write10(lba, kBlocks), data, immediate); })) return;
      Bytes back;
      if (!run(
              tally, may_hear, [&] { return client.command_in(read10(lba, kBlocks), kBlocks * 512u); }, &back)) {
        return;
      }
      if (back != data) {
        tally.wrong = "round " + std::to_string(round) + " reads something else";
        return;
      }
    }
  }
};

TEST_F(Load, EightSessionsLoseNothingWhileLunsComeGoAndAreReplaced) {
  const Volume first = volume("first", 1), second = volume("second", 2);
  std::vector<Volume> spare;
  for (uint8_t i = 0; i < 4; ++i) spare.push_back(volume("spare" + std::to_string(i), static_cast<uint8_t>(10 + i)));
  start({node(kFirst, {{0, first.unit}}), node(kSecond, {{0, second.unit}})});

  std::atomic<bool> stop{false};
  uint64_t inventories = 0;  // changes that let numbers come or go: each is told once
  size_t numbers = 1;
  std::vector<RawClient> clients;
  std::vector<Tally> tallies(kWorkers);
  std::vector<std::thread> threads;
  clients.reserve(kWorkers);
  for (int i = 0; i < kWorkers; ++i) clients.push_back(session(i % 2 == 0 ? kFirst : kSecond));
  for (int i = 0; i < kWorkers; ++i) {
    const auto n = static_cast<size_t>(i);
    threads.emplace_back([&, i, n] { work(clients[n], i, i % 2 == 0, stop, tallies[n]); });
  }
  // A number comes, is given to another volume, another comes beside it, all go.
  for (int i = 0; i < kChanges; ++i) {
    std::vector<scsi::LunMap::Entry> entries = {{0, first.unit}};
    const auto pick = [&](int n) { return spare[static_cast<size_t>((i + n) % 4)].unit; };
    if (i % 4 != 3) entries.push_back({5, pick(0)});
    if (i % 4 == 2) entries.push_back({9, pick(1)});
    inventories += entries.size() != numbers ? 1 : 0;
    numbers = entries.size();
    EXPECT_EQ(change({node(kFirst, std::move(entries)), node(kSecond, {{0, second.unit}})}).sessions_changed, 4u);
    for (Tally& tally : tallies) wait_for_progress(tally);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kWorkers; ++i) {
    EXPECT_EQ(tallies[i].wrong, "") << "session " << i;
    EXPECT_EQ(tallies[i].announced, i % 2 == 0 ? inventories : 0);  // every worker ran commands after every change
    EXPECT_GE(tallies[i].commands, kChanges * kBetween);
  }
}

}  // namespace
}  // namespace zvolt::test
