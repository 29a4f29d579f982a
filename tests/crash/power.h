// Power: when the power of the simulated machine goes. Every I/O and every save of state counts; at the chosen one the
// next turn of any engine ends the life: the disks settle (off), then PowerCut is thrown out of whatever was running,
// open(), attach() and other blocking functions included. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace zvolt::crash {

struct PowerCut {};
// Something happened that must not. Found in callbacks too, which cannot throw: see Power::fail.
struct Violation {
  std::string text;
};

class Power {
 public:
  std::function<void()> off;  // settles the disks

  void cut_after(uint64_t events) { countdown_ = events + 1, due_ = false; }
  void never_cut() { countdown_ = 0, due_ = false; }
  void tick() {
    ++events_;
    if (countdown_ != 0 && --countdown_ == 0) due_ = true;
  }
  // Between two steps, where nothing of the journal holds a lock.
  void check() {
    if (!violation_.empty()) throw Violation{violation_};
    if (due_) cut();
  }
  [[noreturn]] void cut() {
    never_cut();
    off();
    throw PowerCut{};
  }
  bool due() const { return due_; }
  uint64_t events() const { return events_; }

  static inline bool trace = false;  // tell on stderr what happens
  static void tell(const std::string& text) { fprintf(stderr, "%s\n", text.c_str()); }

  void fail(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }
  const std::string& violation() const { return violation_; }

 private:
  uint64_t countdown_ = 0;
  uint64_t events_ = 0;
  bool due_ = false;
  std::string violation_;
};

}  // namespace zvolt::crash
