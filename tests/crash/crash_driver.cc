// crash_driver: runs of the crash simulation. One seed again: --seed N. Many: --cuts, --seconds, --jobs, from --first
// or from a fresh seed, which is printed. Exit status 1 at the first violation, after it was made smaller.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/crash/driver.h"

namespace {

using namespace zvolt::crash;
using Clock = std::chrono::steady_clock;

struct Settings {
  uint64_t seed = 0;
  uint64_t first = 0;
  uint64_t cuts = 3000;
  uint64_t seconds = 0;
  unsigned jobs = 1;
  uint32_t without = 0;
  unsigned lives = 0;
  std::string mutant = "none";
  bool keep_going = false;
};

// What one worker tells its parent: in shared memory, written by it alone, read when it has ended.
struct Shared {
  Tally tally;
  uint64_t runs;
  uint64_t violations;
};

constexpr size_t kTallies = sizeof(Tally) / sizeof(uint64_t);
void add(Tally& to, const Tally& from) {
  auto* into = reinterpret_cast<uint64_t*>(&to);
  const auto* what = reinterpret_cast<const uint64_t*>(&from);
  for (size_t i = 0; i < kTallies; ++i) into[i] += what[i];
}

void print_tally(const Tally& t, uint64_t runs, double seconds) {
  const auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  printf(
      "%llu runs, %llu lives, %llu power cuts and %llu kills (in open %llu, attach %llu, blocking functions %llu), "
      "%.0f s, %.0f/s\n",
      n(runs), n(t.lives), n(t.cuts), n(t.kills), n(t.cuts_in_open), n(t.cuts_in_attach), n(t.cuts_in_admin), seconds,
      seconds > 0 ? static_cast<double>(t.cuts + t.kills) / seconds : 0.0);
  printf("  hosts: %llu requests, %llu reads judged, %llu flushes, %llu errors; %llu disk I/Os\n", n(t.requests),
         n(t.reads), n(t.flushes), n(t.errors), n(t.events));
  printf(
      "  journal: %llu commits, %llu superblocks, %llu waits for room, %llu busy, %llu copies forward, %llu records "
      "replayed, "
      "%llu torn tails, %llu log failures, %llu rounds failed at a store, %llu stores reopened\n",
      n(t.commits), n(t.superblocks), n(t.waited), n(t.busy), n(t.forwarded), n(t.replayed), n(t.torn),
      n(t.log_failures), n(t.store_errors), n(t.reopens));
  printf(
      "  administration: %llu attaches (%llu after leaving), %llu detaches, %llu snapshots, %llu drains, %llu "
      "time-outs, "
      "%llu closes, %llu discards, %llu lives without the journal\n",
      n(t.attaches), n(t.stale_voided), n(t.detaches), n(t.quiesces), n(t.drains), n(t.timeouts), n(t.closes),
      n(t.discards), n(t.gone_journals));
}

Mutant mutant_of(const std::string& name) {
  for (unsigned i = 0; i < kMutants; ++i) {
    if (name == mutant_name(static_cast<Mutant>(i))) return static_cast<Mutant>(i);
  }
  fprintf(stderr, "no mutant %s\n", name.c_str());
  exit(2);
}

// Fewer features and fewer lives that still fail.
void make_smaller(uint64_t seed, uint32_t without, Mutant mutant, Outcome failed, unsigned lives) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (unsigned bit = 0; bit < kFeatures; ++bit) {
      if ((failed.features >> bit & 1) == 0) continue;
      Outcome tried = run_seed(seed, without | 1U << bit, mutant, lives);
      if (tried.violation.empty()) continue;
      without |= 1U << bit;
      failed = std::move(tried);
      smaller = true;
    }
  }
  printf("smaller: --seed %llu --without %u%s%s\n  %s\n  %s\n", static_cast<unsigned long long>(seed), without,
         mutant == Mutant::none ? "" : " --mutant ", mutant == Mutant::none ? "" : mutant_name(mutant),
         failed.plan.c_str(), failed.violation.c_str());
  fflush(stdout);
}

bool run_one(uint64_t seed, const Settings& s, Shared& shared) {
  const Mutant mutant = mutant_of(s.mutant);
  Outcome outcome = run_seed(seed, s.without, mutant, s.lives);
  add(shared.tally, outcome.tally);
  ++shared.runs;
  if (outcome.violation.empty()) return true;
  ++shared.violations;
  printf("VIOLATION: crash_driver --seed %llu\n  %s\n  %s\n", static_cast<unsigned long long>(seed),
         outcome.plan.c_str(), outcome.violation.c_str());
  fflush(stdout);
  if (Power::trace) return false;  // one run, one story
  make_smaller(seed, s.without, mutant, std::move(outcome), s.lives);
  return false;
}

void work(unsigned job, const Settings& s, Shared& shared) {
  const auto end = Clock::now() + std::chrono::seconds(s.seconds);
  for (uint64_t seed = s.first + job;; seed += s.jobs) {
    if ((shared.tally.cuts + shared.tally.kills) * s.jobs >= s.cuts) return;
    if (s.seconds != 0 && Clock::now() >= end) return;
    if (!run_one(seed, s, shared) && !s.keep_going) return;
  }
}

int run_many(const Settings& s) {
  printf("crash_driver: seeds from %llu\n", static_cast<unsigned long long>(s.first));
  fflush(stdout);
  const auto begin = Clock::now();
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, s.jobs * sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) return 2;
  for (unsigned job = 1; job < s.jobs; ++job) {
    if (fork() != 0) continue;
    work(job, s, shared[job]);
    fflush(stdout);
    _exit(0);
  }
  work(0, s, shared[0]);
  bool crashed = false;
  for (unsigned job = 1; job < s.jobs; ++job) {
    int status = 0;
    wait(&status);
    crashed = crashed || status != 0;
  }
  Shared sum{};
  for (unsigned job = 0; job < s.jobs; ++job) {
    add(sum.tally, shared[job].tally);
    sum.runs += shared[job].runs;
    sum.violations += shared[job].violations;
  }
  print_tally(sum.tally, sum.runs, std::chrono::duration<double>(Clock::now() - begin).count());
  if (crashed) printf("a worker died\n");
  printf("%llu violations\n", static_cast<unsigned long long>(sum.violations));
  return sum.violations == 0 && !crashed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  std::random_device fresh;
  s.first = (uint64_t{fresh()} << 16) & 0xffffffffffff;
  CLI::App app("Power cuts of a simulated machine with a journal, against a model");
  auto* seed = app.add_option("--seed", s.seed, "one run, the one with this seed");
  app.add_option("--first", s.first, "first seed of many (default: a fresh one)");
  app.add_option("--cuts", s.cuts, "stop after this many power cuts and kills");
  app.add_option("--seconds", s.seconds, "stop after this long");
  app.add_option("--jobs", s.jobs, "processes")->check(CLI::Range(1, 64));
  app.add_option("--without", s.without, "mask of features to leave out");
  app.add_option("--lives", s.lives, "of a run, at most");
  app.add_option("--mutant", s.mutant, "a planted fault");
  app.add_flag("--trace", Power::trace, "tell what happens, on stderr");
  app.add_flag("--keep-going", s.keep_going, "do not stop at a violation");
  CLI11_PARSE(app, argc, argv);
  if (seed->count() == 0) return run_many(s);
  Shared shared{};
  const bool ok = run_one(s.seed, s, shared);
  print_tally(shared.tally, shared.runs, 0);
  return ok ? 0 : 1;
}
