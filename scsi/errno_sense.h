// The one table from a store's errno to what a host is told. Called when a media transfer, a flush or a long command
// ends. No state; SPC-4 annex F (sense codes), SBC-3 4.18.
#pragma once

#include <cstdint>

#include "scsi/sense.h"

namespace zvolt::scsi {

enum class StoreOperation : uint8_t { read, write, flush };

struct ErrnoAnswer {
  Status status = Status::check_condition;  // busy: no sense
  SenseCode code;
  bool information = false;  // INFORMATION carries the LBA of the failure
};

ErrnoAnswer errno_answer(int error, StoreOperation operation);

}  // namespace zvolt::scsi
