// LiveServer: a Server in the test's own process, with memory stores that can be made to stall, and raw sessions to it:
// for tests that change the configuration while it serves and look into both sides.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backing/fault_store.h"
#include "backing/stores.h"
#include "scsi/logical_unit.h"
#include "target/server.h"
#include "tests/support/raw_client.h"

namespace zvolt::test {

inline const std::string kFirst = "iqn.2026-11.org.example:first";
inline const std::string kSecond = "iqn.2026-11.org.example:second";
inline constexpr uint64_t kVolumeBytes = uint64_t{4} << 20;

struct Volume {
  std::shared_ptr<backing::FaultStore> store;
  std::shared_ptr<scsi::LogicalUnit> unit;
};

// Another unit over a store, as after a change of the block size.
inline std::shared_ptr<scsi::LogicalUnit> unit_over(const std::string& name,
                                                    const std::shared_ptr<backing::BlockStore>& store,
                                                    uint8_t identity) {
  scsi::UnitOptions options;
  options.name = name;
  options.uuid.fill(identity);
  auto unit = scsi::LogicalUnit::create(options, store);
  EXPECT_TRUE(unit) << unit.error().message;
  return *unit;
}

inline Volume volume(const std::string& name, uint8_t identity, uint64_t bytes = kVolumeBytes) {
  auto memory = backing::make_memory(bytes);
  EXPECT_TRUE(memory);
  auto store = std::make_shared<backing::FaultStore>(*memory, std::vector<backing::FaultRule>{});
  return {store, unit_over(name, store, identity)};
}

inline void stall(const Volume& volume) {
  backing::FaultRule rule;
  rule.fault = backing::Fault::stall;
  volume.store->set_rules({rule});
}

inline void go_on(const Volume& volume) {
  volume.store->set_rules({});
  volume.store->release();
}

inline iscsi::TargetNode node(const std::string& name, std::vector<scsi::LunMap::Entry> entries,
                              std::vector<std::string> initiators = {}) {
  auto map = std::make_shared<scsi::LunMap>();
  map->entries = std::move(entries);
  return {name, "", {}, std::move(initiators), std::move(map)};
}

class LiveServer : public ::testing::Test {
 protected:
  void start(std::vector<iscsi::TargetNode> targets, unsigned shards = 2) {
    iscsi::ServerOptions options;
    options.shards = shards;
    options.memory_bytes = uint64_t{256} << 20;
    options.portals = portals_;
    options.targets = std::move(targets);
    options.logout_time = std::chrono::seconds(1);
    server_ = std::make_unique<iscsi::Server>(std::move(options));
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  void TearDown() override {
    if (server_ != nullptr) {
      EXPECT_EQ(server_->stop(std::chrono::seconds(10)), 0u);
    }
  }

  iscsi::ChangeReport change(std::vector<iscsi::TargetNode> targets) {
    const auto report = server_->reconfigure({std::move(targets), portals_});
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : iscsi::ChangeReport{};
  }

  RawClient connected() {
    RawClient client;
    EXPECT_TRUE(client.connect(server_->ports().at(0)));
    return client;
  }
  LoginResult try_login(RawClient& client, const std::string& target, const Keys& keys = {}) {
    LoginOptions options;
    options.target = target;
    options.isid = 0x800000000000 + ++isid_;
    options.keys = keys;
    return client.login(options);
  }
  // In full feature phase, the power-on attention of LUNs [0, luns) taken.
  RawClient session(const std::string& target, uint16_t luns = 1, const Keys& keys = {}) {
    RawClient client = connected();
    const LoginResult result = try_login(client, target, keys);
    EXPECT_TRUE(result.ok()) << std::hex << result.status;
    for (uint16_t lun = 0; lun < luns; ++lun) EXPECT_EQ(attentions(client, lun), "06/29/00");
    return client;
  }

  // TEST UNIT READY until it is good, or fails for another reason than a unit attention: "06/3f/03 06/3f/0e".
  static std::string attentions(RawClient& client, uint16_t lun) {
    std::string out;
    for (;;) {
      const Outcome outcome = client.command_none(test_unit_ready(), lun);
      if (outcome.good()) return out;
      out += (out.empty() ? "" : " ") + outcome.sense();
      if (outcome.sense().substr(0, 2) != "06") return out;
    }
  }

  static uint32_t begin_write(RawClient& client, uint16_t lun, uint32_t lba, const Bytes& data, size_t immediate) {
    return client.send_command(write10(lba, static_cast<uint16_t>(data.size() / 512)),
                               {.flags = iscsi::kFinal | iscsi::ScsiCommand::kWrite,
                                .edtl = static_cast<uint32_t>(data.size()),
                                .immediate_data = Bytes(data.begin(), data.begin() + static_cast<ptrdiff_t>(immediate)),
                                .lun = lun});
  }
  static uint32_t begin_read(RawClient& client, uint16_t lun, uint32_t lba, uint16_t blocks) {
    return client.send_command(
        read10(lba, blocks),
        {.flags = iscsi::kFinal | iscsi::ScsiCommand::kRead, .edtl = blocks * 512u, .immediate_data = {}, .lun = lun});
  }
  static Bytes medium(RawClient& client, uint16_t lun, uint32_t lba, uint16_t blocks) {
    return client.command_in(read10(lba, blocks), blocks * 512u, lun).data;
  }
  // The session's commands before this were taken in when it returns.
  static void settle(RawClient& client) { EXPECT_EQ(client.ping({}).arrived, Arrived::pdu); }

  std::vector<iscsi::PortalOptions> portals_ = {{"127.0.0.1", 0, 1}};
  std::unique_ptr<iscsi::Server> server_;
  uint64_t isid_ = 0;
};

}  // namespace zvolt::test
