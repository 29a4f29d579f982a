// A libiscsi session for tests: logged in as long as the object lives, every SCSI command as one call with its status,
// sense and data. Automatic reconnection is off: a dropped connection is a failure that a test must see. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backing/result.h"
#include "tests/support/cdb.h"

struct iscsi_context;

namespace zvolt::test {

struct ScsiResult {
  int status = -1;    // SAM status; -1: no answer (transport_error says why)
  std::string sense;  // "05/21/00", "" without
  Bytes data;
  std::string transport_error;
  uint64_t residual = 0;
  bool overflow = false, underflow = false;

  bool good() const { return status == 0; }
  std::string text() const { return "status " + std::to_string(status) + " sense " + sense + " " + transport_error; }
};

class LibiscsiSession {
 public:
  LibiscsiSession() = default;
  ~LibiscsiSession();
  LibiscsiSession(LibiscsiSession&& other) noexcept;
  LibiscsiSession& operator=(LibiscsiSession&& other) noexcept;

  // url: iscsi://HOST:PORT/TARGET/LUN. Two sessions of one initiator name need different `isid`s.
  static Result<LibiscsiSession> open(const std::string& url, uint32_t isid = 1,
                                      const std::string& initiator = "iqn.2026-11.org.example:libiscsi");

  ScsiResult command(const Cdb& cdb, uint32_t read_bytes = 0);
  ScsiResult command_out(const Cdb& cdb, const Bytes& data);
  ScsiResult command_lun(int lun, const Cdb& cdb, uint32_t read_bytes = 0);

  // READ(16) and WRITE(16) at byte offsets that are multiples of `block_size`.
  ScsiResult read(uint64_t offset, uint32_t bytes);
  ScsiResult write(uint64_t offset, const Bytes& data, uint8_t flags = 0);
  void set_block_size(uint32_t bytes) { block_size_ = bytes; }

  bool logout();
  iscsi_context* context() const { return context_; }
  int lun() const { return lun_; }

 private:
  ScsiResult run(int lun, const Cdb& cdb, bool out, Bytes* data, uint32_t bytes);

  iscsi_context* context_ = nullptr;
  int lun_ = 0;
  uint32_t block_size_ = 512;
};

struct DiscoveredTarget {
  std::string name;
  std::vector<std::string> portals;  // "127.0.0.1:3260,1"
};

// SendTargets=All in a discovery session.
Result<std::vector<DiscoveredTarget>> discover(const std::string& portal);

}  // namespace zvolt::test
