// See fixture.h.
#include "tests/unit/scsi/fixture.h"

#include <algorithm>
#include <cstring>

#include "backing/aligned_buffer.h"
#include "scsi/bytes.h"

namespace zvolt::scsi::test {

namespace {
bool descriptor_format(const Sense& sense) {
  return (sense.bytes[0] & 0x7f) == 0x72;
}

// The descriptor of that type, or null.
const uint8_t* find_descriptor(const Sense& sense, uint8_t type) {
  for (size_t at = 8; at + 2 <= sense.length; at += size_t{2} + sense.bytes[at + 1]) {
    if (sense.bytes[at] == type) return sense.bytes.data() + at;
  }
  return nullptr;
}

const uint8_t* key_specific(const Sense& sense) {
  if (!descriptor_format(sense)) return sense.bytes.data() + 15;
  const uint8_t* descriptor = find_descriptor(sense, 0x02);
  return descriptor == nullptr ? nullptr : descriptor + 4;
}
}  // namespace

uint8_t Reply::key() const {
  return sense.bytes[descriptor_format(sense) ? 1 : 2] & 0x0f;
}
uint8_t Reply::asc() const {
  return sense.bytes[descriptor_format(sense) ? 2 : 12];
}
uint8_t Reply::ascq() const {
  return sense.bytes[descriptor_format(sense) ? 3 : 13];
}
bool Reply::has_information() const {
  return descriptor_format(sense) ? find_descriptor(sense, 0x00) != nullptr : (sense.bytes[0] & 0x80) != 0;
}
uint64_t Reply::information() const {
  return descriptor_format(sense) ? get64(find_descriptor(sense, 0x00) + 4) : get32(sense.bytes.data() + 3);
}
bool Reply::has_field_pointer() const {
  return key_specific(sense) != nullptr && (key_specific(sense)[0] & 0x80) != 0;
}
uint16_t Reply::field_pointer() const {
  return get16(key_specific(sense) + 1);
}
bool Reply::field_in_cdb() const {
  return (key_specific(sense)[0] & 0x40) != 0;
}

Reply Initiator::Send(const Bytes& cdb, const Bytes& data_out) {
  const std::unique_ptr<Task> task = Begin(cdb);
  return Finish(*task, data_out);
}

std::unique_ptr<Task> Initiator::Begin(const Bytes& cdb) {
  auto task = std::make_unique<Task>();
  task->lun = lun;
  std::copy(cdb.begin(), cdb.end(), task->cdb.begin());
  task->engine = &engine_;
  task->advanced = [](Task&) noexcept {};
  task->announced_data_out = announced;
  nexus_.start(*task);
  return task;
}

Reply Initiator::Finish(Task& task, const Bytes& data_out) {
  Bytes data_in;
  while (task.phase != Phase::complete) {
    switch (task.phase) {
      case Phase::data_out:
        task.data.assign(data_out.begin(), data_out.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(
                                                                  data_out.size(), task.transfer_length)));
        nexus_.data_out(task);
        break;
      case Phase::media_in:
      case Phase::media_out:
        TransferMedia(task, data_out, data_in);
        nexus_.finish(task);
        break;
      case Phase::pending:
        if (engine_.reap(SIZE_MAX) == 0) {
          ADD_FAILURE() << "the command waits for nothing";
          return {};
        }
        break;
      case Phase::complete:
        break;
    }
  }
  Reply reply{task.status, task.sense, std::move(data_in), task.transfer_length, task.op_class};
  if (task.status != Status::good) {
    reply.data.clear();  // what was read before a later piece failed
  } else if (reply.data.empty()) {
    reply.data = task.data;
  }
  return reply;
}

void Initiator::TransferMedia(Task& task, const Bytes& data_out, Bytes& data_in) {
  const bool in = task.phase == Phase::media_in;
  const uint64_t total = in ? task.transfer_length : std::min<uint64_t>(task.transfer_length, data_out.size());
  for (uint64_t at = 0; at < total; at += piece_size) {
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(piece_size, total - at));
    const backing::AlignedBuffer memory = backing::make_aligned(length);
    if (!in) std::memcpy(memory.get(), data_out.data() + at, length);
    MediaIo piece;
    piece.offset = at;
    piece.length = length;
    piece.data = memory.get();
    piece.done = [](MediaIo& done) noexcept { done.task = nullptr; };
    if (!nexus_.media_io(task, piece)) {
      while (piece.task != nullptr && engine_.reap(SIZE_MAX) != 0) {
      }
      EXPECT_EQ(piece.task, nullptr) << "the piece was never finished";
    }
    if (in) data_in.insert(data_in.end(), memory.get(), memory.get() + length);
  }
}

Bytes Cdb6(uint8_t opcode, uint8_t b1, uint8_t b2, uint8_t b3, uint8_t b4) {
  return {opcode, b1, b2, b3, b4, 0};
}

Bytes CdbLba6(uint8_t opcode, CdbFields fields) {
  Bytes cdb(6);
  put24(cdb.data() + 1, fields.lba & 0x1fffff);
  cdb[0] = opcode;
  cdb[4] = static_cast<uint8_t>(fields.length);
  return cdb;
}

Bytes CdbLba10(uint8_t opcode, CdbFields fields) {
  Bytes cdb(10);
  cdb[0] = opcode;
  cdb[1] = fields.flags;
  put32(cdb.data() + 2, fields.lba);
  put16(cdb.data() + 7, fields.length);
  return cdb;
}

Bytes CdbLba12(uint8_t opcode, CdbFields fields) {
  Bytes cdb(12);
  cdb[0] = opcode;
  cdb[1] = fields.flags;
  put32(cdb.data() + 2, fields.lba);
  put32(cdb.data() + 6, fields.length);
  return cdb;
}

Bytes CdbLba16(uint8_t opcode, CdbFields fields) {
  Bytes cdb(16);
  cdb[0] = opcode;
  cdb[1] = fields.flags;
  put64(cdb.data() + 2, fields.lba);
  put32(cdb.data() + 10, fields.length);
  return cdb;
}

Bytes UnmapList(const std::vector<UnmapDescriptor>& descriptors) {
  Bytes list(8 + 16 * descriptors.size());
  put16(list.data(), list.size() - 2);
  put16(list.data() + 2, list.size() - 8);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    put64(list.data() + 8 + 16 * i, descriptors[i].lba);
    put32(list.data() + 16 + 16 * i, descriptors[i].blocks);
  }
  return list;
}

UnitOptions DefaultOptions() {
  UnitOptions options;
  options.name = "vol";
  for (uint8_t i = 0; i < 16; ++i) options.uuid[i] = static_cast<uint8_t>(0x10 + i);
  return options;
}

std::shared_ptr<LogicalUnit> MakeUnit(std::shared_ptr<TestStore> store, UnitOptions options) {
  auto made = LogicalUnit::create(std::move(options), std::move(store));
  EXPECT_TRUE(made.ok());
  return made.value();
}

std::shared_ptr<const LunMap> MakeMap(std::initializer_list<LunMap::Entry> entries) {
  return std::make_shared<const LunMap>(LunMap{entries});
}

NexusNames Names(const std::string& initiator) {
  return {initiator, initiator + ",i,0x00023d000001", "iqn.2026-11.org.example:disks",
          "iqn.2026-11.org.example:disks,t,0x0001", 1};
}

void ScsiTest::Build(std::function<void(backing::Geometry&)> geometry, std::function<void(UnitOptions&)> options,
                     uint64_t size, bool read_only_mapping) {
  backing::Geometry chosen = TestStore::default_geometry();
  if (geometry) geometry(chosen);
  UnitOptions unit_options = DefaultOptions();
  if (options) options(unit_options);
  nexus.reset();
  store = std::make_shared<TestStore>(size, chosen);
  unit = MakeUnit(store, unit_options);
  nexus = std::make_unique<ItNexus>(Names(), MakeMap({{0, unit, read_only_mapping}}));
  host = std::make_unique<Initiator>(*nexus, engine);
  ExpectSense(TestUnitReady(), 6, 0x29, 0x00);
}

Reply ScsiTest::ReportLuns(uint8_t select, uint32_t allocation) {
  Bytes cdb = CdbLba12(0xa0, {0, allocation, 0});
  cdb[2] = select;
  return Send(cdb);
}

Reply ScsiTest::ReadCapacity16(uint32_t allocation) {
  return Send(CdbLba16(0x9e, {0, allocation, 0x10}));
}

Reply ScsiTest::ReportOpcodes(uint8_t options, uint8_t opcode, uint16_t action, uint32_t allocation) {
  Bytes cdb = CdbLba12(0xa3, {0, allocation, 0x0c});
  cdb[2] = options;
  cdb[3] = opcode;
  put16(cdb.data() + 4, action);
  return Send(cdb);
}

Bytes ScsiTest::Pattern(size_t blocks, uint8_t seed) const {
  Bytes out(blocks * unit->block_size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(seed + i * 7 + i / unit->block_size() * 13 + 1);
  }
  return out;
}

void ExpectGood(const Reply& reply) {
  EXPECT_EQ(reply.status, Status::good) << std::hex << "sense " << int{reply.key()} << '/' << int{reply.asc()} << '/'
                                        << int{reply.ascq()};
}

void ExpectSense(const Reply& reply, uint8_t key, uint8_t asc, uint8_t ascq) {
  ASSERT_EQ(reply.status, Status::check_condition);
  ASSERT_GT(reply.sense.length, 0);
  EXPECT_EQ(reply.key(), key);
  EXPECT_EQ(reply.asc(), asc);
  EXPECT_EQ(reply.ascq(), ascq);
  EXPECT_TRUE(reply.data.empty());
}

void ExpectInvalidField(const Reply& reply, uint16_t byte) {
  ExpectSense(reply, 5, 0x24, 0x00);
  ASSERT_TRUE(reply.has_field_pointer());
  EXPECT_TRUE(reply.field_in_cdb());
  EXPECT_EQ(reply.field_pointer(), byte);
}

}  // namespace zvolt::scsi::test
