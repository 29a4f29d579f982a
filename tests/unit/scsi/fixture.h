// ScsiTest: one unit over a TestStore, one nexus, and verbs that send commands as a transport does: pieces, residuals,
// parameter data, pending phases. The unit attention of a new nexus is taken away by SetUp().
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "scsi/it_nexus.h"
#include "scsi/logical_unit.h"
#include "tests/unit/scsi/test_store.h"

namespace zvolt::scsi::test {

using Bytes = std::vector<uint8_t>;

struct Reply {
  Status status = Status::good;
  Sense sense;
  Bytes data;                    // data-in: media or small
  uint64_t transfer_length = 0;  // what the CDB asked to move
  OpClass op_class = OpClass::other;

  uint8_t key() const;
  uint8_t asc() const;
  uint8_t ascq() const;
  bool has_information() const;
  uint64_t information() const;
  bool has_field_pointer() const;
  uint16_t field_pointer() const;
  bool field_in_cdb() const;
};

// One command from start to completion; the transport's side. step() may be called until done() when phases are
// pending.
class Initiator {
 public:
  Initiator(ItNexus& nexus, TestEngine& engine) : nexus_(nexus), engine_(engine) {}

  uint64_t lun = 0;
  uint32_t piece_size = 256 * 1024;  // bytes in which media moves
  uint64_t announced = Task::kUnknownLength;

  // Runs the engine's turns until the command is complete.
  Reply Send(const Bytes& cdb, const Bytes& data_out = {});
  // Only starts it: for commands that are to wait. Finish() goes on.
  std::unique_ptr<Task> Begin(const Bytes& cdb);
  Reply Finish(Task& task, const Bytes& data_out = {});

 private:
  void TransferMedia(Task& task, const Bytes& data_out, Bytes& data_in);
  ItNexus& nexus_;
  TestEngine& engine_;
};

// CDB builders: every field that tests vary, big-endian, zero elsewhere.
struct CdbFields {
  uint64_t lba = 0;
  uint64_t length = 0;  // blocks, allocation length, parameter list length
  uint8_t flags = 0;    // byte 1
};
Bytes Cdb6(uint8_t opcode, uint8_t b1 = 0, uint8_t b2 = 0, uint8_t b3 = 0, uint8_t b4 = 0);
Bytes CdbLba6(uint8_t opcode, CdbFields fields);
Bytes CdbLba10(uint8_t opcode, CdbFields fields);
Bytes CdbLba12(uint8_t opcode, CdbFields fields);
Bytes CdbLba16(uint8_t opcode, CdbFields fields);

struct UnmapDescriptor {
  uint64_t lba;
  uint32_t blocks;
};
Bytes UnmapList(const std::vector<UnmapDescriptor>& descriptors);

std::shared_ptr<LogicalUnit> MakeUnit(std::shared_ptr<TestStore> store, UnitOptions options);
UnitOptions DefaultOptions();
std::shared_ptr<const LunMap> MakeMap(std::initializer_list<LunMap::Entry> entries);
NexusNames Names(const std::string& initiator = "iqn.2026-11.org.example:host-a");

class ScsiTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlock = 512;

  void SetUp() override { Build({}, {}); }
  // Replaces store, unit and nexus. For tests that need another size, geometry or option.
  void Build(std::function<void(backing::Geometry&)> geometry, std::function<void(UnitOptions&)> options,
             uint64_t size = TestStore::kDefaultSize, bool read_only_mapping = false);

  Reply Send(const Bytes& cdb, const Bytes& data_out = {}) { return host->Send(cdb, data_out); }
  Reply TestUnitReady() { return Send(Cdb6(0x00)); }
  Reply StandardInquiry(uint16_t allocation = 255) {
    return Send(Cdb6(0x12, 0, 0, static_cast<uint8_t>(allocation >> 8), static_cast<uint8_t>(allocation)));
  }
  Reply Vpd(uint8_t page, uint16_t allocation = 255) {
    return Send(Cdb6(0x12, 1, page, static_cast<uint8_t>(allocation >> 8), static_cast<uint8_t>(allocation)));
  }
  Reply Read10(uint64_t lba, uint64_t blocks, uint8_t flags = 0) { return Send(CdbLba10(0x28, {lba, blocks, flags})); }
  Reply Read16(uint64_t lba, uint64_t blocks, uint8_t flags = 0) { return Send(CdbLba16(0x88, {lba, blocks, flags})); }
  Reply Write10(uint64_t lba, const Bytes& data, uint8_t flags = 0) {
    return Send(CdbLba10(0x2a, {lba, data.size() / unit->block_size(), flags}), data);
  }
  Reply Write16(uint64_t lba, const Bytes& data, uint8_t flags = 0) {
    return Send(CdbLba16(0x8a, {lba, data.size() / unit->block_size(), flags}), data);
  }
  Reply SynchronizeCache10(uint64_t lba = 0, uint64_t blocks = 0, uint8_t flags = 0) {
    return Send(CdbLba10(0x35, {lba, blocks, flags}));
  }
  Reply Verify10(uint64_t lba, uint64_t blocks, uint8_t flags, const Bytes& data = {}) {
    return Send(CdbLba10(0x2f, {lba, blocks, flags}), data);
  }
  Reply Verify16(uint64_t lba, uint64_t blocks, uint8_t flags, const Bytes& data = {}) {
    return Send(CdbLba16(0x8f, {lba, blocks, flags}), data);
  }
  Reply WriteSame10(uint64_t lba, uint64_t blocks, uint8_t flags, const Bytes& data) {
    return Send(CdbLba10(0x41, {lba, blocks, flags}), data);
  }
  Reply WriteSame16(uint64_t lba, uint64_t blocks, uint8_t flags, const Bytes& data) {
    return Send(CdbLba16(0x93, {lba, blocks, flags}), data);
  }
  Reply SendUnmapList(const Bytes& list, uint8_t flags = 0) {
    return Send(
        {0x42, flags, 0, 0, 0, 0, 0, static_cast<uint8_t>(list.size() >> 8), static_cast<uint8_t>(list.size()), 0},
        list);
  }
  Reply SendUnmap(const std::vector<UnmapDescriptor>& descriptors) { return SendUnmapList(UnmapList(descriptors)); }
  Reply ModeSense6(uint8_t page, uint8_t flags = 0, uint8_t allocation = 255, uint8_t subpage = 0) {
    return Send(Cdb6(0x1a, flags, page, subpage, allocation));
  }
  Reply ModeSense10(uint8_t page, uint8_t flags = 0, uint16_t allocation = 65535) {
    return Send(
        {0x5a, flags, page, 0, 0, 0, 0, static_cast<uint8_t>(allocation >> 8), static_cast<uint8_t>(allocation), 0});
  }
  Reply ReportLuns(uint8_t select = 0, uint32_t allocation = 4096);
  Reply ReadCapacity16(uint32_t allocation = 32);
  Reply ReportOpcodes(uint8_t options, uint8_t opcode = 0, uint16_t action = 0, uint32_t allocation = 65535);

  Bytes Pattern(size_t blocks, uint8_t seed = 1) const;  // no block like another
  Bytes Stored(uint64_t lba, uint64_t blocks) const {
    return store->bytes(lba * unit->block_size(), blocks * unit->block_size());
  }
  Bytes Repeated(uint8_t value, uint64_t blocks) const { return Bytes(blocks * unit->block_size(), value); }

  std::shared_ptr<TestStore> store;
  std::shared_ptr<LogicalUnit> unit;
  TestEngine engine;
  std::unique_ptr<ItNexus> nexus;
  std::unique_ptr<Initiator> host;
};

void ExpectGood(const Reply& reply);
void ExpectSense(const Reply& reply, uint8_t key, uint8_t asc, uint8_t ascq);
// 05/24/00 with a field pointer to that byte of the CDB.
void ExpectInvalidField(const Reply& reply, uint16_t byte);

}  // namespace zvolt::scsi::test
