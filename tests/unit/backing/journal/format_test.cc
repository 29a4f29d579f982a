// The format: what is encoded is decoded, and nothing else is.
#include "backing/journal/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "backing/journal/crc32c.h"

namespace zvolt::backing::journal {
namespace {

constexpr uint64_t kDevice = kRingStart + (uint64_t{1} << 20);

Superblock superblock() {
  Superblock sb;
  sb.uuid = {1, 2, 3};
  sb.generation = 7;
  sb.epoch = 3;
  sb.epoch_first_sequence = 100;
  sb.ring_bytes = uint64_t{1} << 20;
  sb.sector = kSmallSector;
  sb.tail = {90, 4096, 0xabcd};
  sb.watermark = 99;
  sb.span = 65536;
  return sb;
}

struct Block {
  GroupHeader header;
  std::vector<Descriptor> records;
  std::vector<uint8_t> bytes;
};

Block group(uint32_t count, uint32_t sector) {
  Block block;
  uint64_t payloads = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Descriptor record;
    record.sequence = 50 + i;
    record.lun = {9, static_cast<uint8_t>(i)};
    record.offset = 1000 * i;
    record.length = 100 + i;
    record.kind = i % 3 == 2 ? RecordKind::discard : RecordKind::write;
    record.payload_crc = i;
    record.flags = i % 2 == 0 ? 0 : kForwarded;
    payloads += payload_bytes(record, sector);
    block.records.push_back(record);
  }
  block.header.header_bytes = static_cast<uint32_t>(header_block_bytes(count, sector));
  block.header.uuid = {1, 2, 3};
  block.header.epoch = 3;
  block.header.first_sequence = 50;
  block.header.watermark = 49;
  block.header.count = count;
  block.header.chain = 0x1234;
  block.header.group_bytes = block.header.header_bytes + payloads;
  block.header.position = 8192;
  block.bytes.resize(block.header.header_bytes);
  encode_group(block.header, block.records, block.bytes);
  return block;
}

TEST(JournalFormat, Crc32cIsCastagnoli) {
  const std::string text = "123456789";
  const auto* data = reinterpret_cast<const uint8_t*>(text.data());
  EXPECT_EQ(crc32c(data, 9), 0xe3069283U);
  EXPECT_EQ(crc32c(data + 4, 5, crc32c(data, 4)), 0xe3069283U);
}

TEST(JournalFormat, SuperblockComesBack) {
  std::array<uint8_t, kSuperblockBytes> bytes;
  encode_superblock(superblock(), bytes);
  const auto decoded = decode_superblock(bytes, kDevice);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, superblock());
}

TEST(JournalFormat, SuperblockWithAnyBitFlippedIsRefused) {
  std::array<uint8_t, kSuperblockBytes> bytes;
  encode_superblock(superblock(), bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    EXPECT_FALSE(decode_superblock(bytes, kDevice).ok()) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
  }
}

TEST(JournalFormat, SuperblockOfALongerDeviceIsRefused) {
  std::array<uint8_t, kSuperblockBytes> bytes;
  encode_superblock(superblock(), bytes);
  EXPECT_FALSE(decode_superblock(bytes, kDevice - 1).ok());
}

TEST(JournalFormat, GroupsComeBack) {
  for (const uint32_t sector : {kSmallSector, kLargeSector}) {
    for (const uint32_t count : {1U, 6U, 7U, 62U, kMostRecords}) {
      const Block block = group(count, sector);
      const auto decoded = decode_group(block.bytes, sector, uint64_t{64} << 20);
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      EXPECT_EQ(decoded->header, block.header);
      EXPECT_EQ(decoded->records, block.records);
    }
  }
}

TEST(JournalFormat, GroupHeaderWithAnyBitFlippedIsRefused) {
  Block block = group(9, kSmallSector);
  for (size_t bit = 0; bit < block.bytes.size() * 8; ++bit) {
    block.bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    EXPECT_FALSE(decode_group(block.bytes, kSmallSector, uint64_t{1} << 20).ok()) << "bit " << bit;
    block.bytes[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
  }
}

TEST(JournalFormat, RecordsThatCannotBeAreRefusedDespiteARightChecksum) {
  const auto refused = [](const std::function<void(Descriptor&)>& spoil) {
    Block block = group(1, kSmallSector);
    spoil(block.records[0]);
    encode_group(block.header, block.records, block.bytes);
    return !decode_group(block.bytes, kSmallSector, uint64_t{1} << 20).ok();
  };
  EXPECT_FALSE(refused([](Descriptor&) {}));
  EXPECT_TRUE(refused([](Descriptor& r) { r.kind = static_cast<RecordKind>(0); }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.kind = static_cast<RecordKind>(99); }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.kind = RecordKind::pointer; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.kind = RecordKind::barrier; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.length = 0; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.length = kMostPayload + 1; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.length = 513; }));  // does not fill the group
  EXPECT_TRUE(refused([](Descriptor& r) { r.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.sequence = 51; }));
  EXPECT_TRUE(refused([](Descriptor& r) { r.flags = 2; }));
}

TEST(JournalFormat, RandomBytesAreNoGroup) {
  std::mt19937_64 random(4);
  std::vector<uint8_t> bytes(4096);
  for (int i = 0; i < 2000; ++i) {
    for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
    memcpy(bytes.data(), "ZVOLTJGR", 8);
    EXPECT_FALSE(decode_group(bytes, kSmallSector, uint64_t{1} << 20).ok());
  }
}

TEST(JournalFormat, PayloadChecksumIsOfItsEpoch) {
  const std::vector<uint8_t> data(512, 7);
  EXPECT_NE(payload_crc(1, data.data(), data.size()), payload_crc(2, data.data(), data.size()));
}

}  // namespace
}  // namespace zvolt::backing::journal
