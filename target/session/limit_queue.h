// LimitQueue: the commands of one shard that their volume's rate limit makes wait (scsi/rate_limit.h), ordered by the
// time at which they may go on. One timer for all. A limit that changes meanwhile is noticed within
// limits::kLimitRecheck, and those who wait are booked anew. Shard thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "target/asio.h"

namespace zvolt::iscsi {

class Shard;
struct Command;

class LimitQueue {
 public:
  LimitQueue(Shard& shard, asio::io_context& context) : shard_(shard), timer_(context) {}

  // Calls Connection::resume() at command.limit_due.
  void add(Command& command);
  void forget(Command& command);

 private:
  void arm();
  void fire();
  void book_again(uint64_t now);

  Shard& shard_;
  Timer timer_;
  bool armed_ = false;
  std::vector<Command*> heap_;  // the earliest first; bounded by the sessions' commands
};

}  // namespace zvolt::iscsi
