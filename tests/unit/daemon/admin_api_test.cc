// What the admin endpoint says of a composed daemon whose server does not run.
#include "target/daemon/admin_api.h"

#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "config/loader.h"
#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

using nlohmann::json;

constexpr const char* kYaml = R"(listen: [127.0.0.1]
targets:
  - name: iqn.2026-11.org.example:a
    luns:
      - { lun: 3, name: m, memory: 1MiB, block_size: 4096, sync: disabled }
      - { lun: 1, name: "n/x", null: 1MiB, read_only: true }
)";

class AdminApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto loaded = config::load_text(kYaml, "test.yaml");
    ASSERT_TRUE(loaded.ok());
    auto state = StateDir::open(temp_.file("state"));
    ASSERT_TRUE(state);
    state_ = std::make_unique<StateDir>(std::move(*state));
    set_ = std::make_unique<VolumeSet>(*state_, VolumeSetOptions{});
    auto composed = compose(loaded.config, *set_);
    ASSERT_TRUE(composed) << composed.error().message;
    options_ = server_options(composed->composition);
    options_.portals[0].port = 0;
    options_.memory_bytes = 64 << 20;
    server_ = std::make_unique<iscsi::Server>(options_);
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
    control_ = std::make_unique<Control>(std::move(composed->composition), *set_, *server_, config::LoadOptions{});
    api_ = std::make_unique<AdminApi>(*control_, *server_, worker_);
  }
  ~AdminApiTest() override {
    worker_.stop(std::chrono::seconds(30));
    if (server_) server_->stop(std::chrono::milliseconds(0));
  }
  json get(const std::string& target, unsigned status = 200, const std::string& method = "GET") {
    std::promise<AdminReply> promise;
    api_->handle({method, target}, [&](AdminReply answer) { promise.set_value(std::move(answer)); });
    const AdminReply reply = promise.get_future().get();
    EXPECT_EQ(reply.status, status) << reply.body;
    return json::parse(reply.body);
  }

  const test::TempDir temp_;
  std::unique_ptr<StateDir> state_;
  std::unique_ptr<VolumeSet> set_;
  iscsi::ServerOptions options_;
  std::unique_ptr<iscsi::Server> server_;
  std::unique_ptr<Control> control_;
  Worker worker_;
  std::unique_ptr<AdminApi> api_;
};

TEST_F(AdminApiTest, CompositionSortsLunsAndCarriesOptions) {
  ASSERT_EQ(options_.targets.size(), 1u);
  const auto& entries = options_.targets[0].luns->entries;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].number, 1);
  EXPECT_TRUE(entries[0].unit->read_only());
  EXPECT_EQ(entries[1].number, 3);
  EXPECT_EQ(entries[1].unit->block_size(), 4096u);
  EXPECT_EQ(entries[1].unit->options().sync, scsi::SyncMode::disabled);
  EXPECT_GE(options_.shards, 1u);
}

TEST_F(AdminApiTest, Status) {
  const json status = get("/api/status");
  EXPECT_EQ(status["targets"][0]["name"], "iqn.2026-11.org.example:a");
  EXPECT_EQ(status["sessions"], 0);
  ASSERT_EQ(status["warnings"].size(), 1u);
  EXPECT_NE(status["warnings"][0].get<std::string>().find("sync: disabled"), std::string::npos);
}

TEST_F(AdminApiTest, Luns) {
  const json luns = get("/api/luns");
  ASSERT_EQ(luns.size(), 2u);
  EXPECT_EQ(luns[0]["volume"], "m");
  EXPECT_EQ(luns[0]["blocks"], 256);
  EXPECT_EQ(luns[0]["mappings"][0]["lun"], 3);
  EXPECT_EQ(luns[1]["kind"], "null");
  EXPECT_EQ(luns[0]["uuid"].get<std::string>().size(), 36u);
}

TEST_F(AdminApiTest, LunsTellWhyTheyAreNotServed) {
  EXPECT_EQ(get("/api/luns")[0]["state"], "serving");
  EXPECT_EQ(get("/api/offline?lun=m", 200, "POST")["volume"], "m");
  const json lun = get("/api/luns")[0];
  EXPECT_EQ(lun["state"], "offline");
  EXPECT_EQ(lun["presence"], "offline");
  EXPECT_EQ(lun["reason"], "taken offline by the operator");
  EXPECT_TRUE(lun.contains("waiting_since"));
  const json status = get("/api/status");
  EXPECT_EQ(status["luns"], 2);
  EXPECT_EQ(status["luns_served"], 1);
  get("/api/online?lun=m", 200, "POST");
  EXPECT_EQ(get("/api/luns")[0]["state"], "serving");
}

TEST_F(AdminApiTest, OrdersSayWhatIsWrongWithThem) {
  EXPECT_EQ(get("/api/offline", 400, "POST")["error"], "which? give ?lun=NAME");
  EXPECT_EQ(get("/api/offline?lun=nobody", 404, "POST")["error"], "volume nobody: there is no volume or LUN 'nobody'");
  EXPECT_EQ(get("/api/resize?lun=m&size=x", 400, "POST")["error"], "'x' is no size in bytes");
  const json plan = get("/api/plan?file=" + temp_.file("none.yaml"));
  EXPECT_EQ(plan["outcome"], "refused");
  EXPECT_EQ(plan["ok"], false);
  EXPECT_EQ(plan["errors"].size(), 1u);
}

TEST_F(AdminApiTest, StatsOfOneLunByItsEncodedName) {
  EXPECT_EQ(get("/api/stats").size(), 2u);
  const json one = get("/api/stats?lun=n%2Fx");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["lun"], "n/x");
  EXPECT_EQ(one[0]["classes"]["read"]["count"], 0);
  EXPECT_EQ(one[0]["classes"]["write"]["stages"]["store"]["p99_us"], 0.0);
  EXPECT_EQ(get("/api/stats?lun=nobody", 404)["error"], "there is no LUN 'nobody'");
  EXPECT_EQ(get("/api/stats?lun=%zz%", 404)["error"], "there is no LUN '%zz%'");
}

TEST_F(AdminApiTest, UnknownPathsAndMethods) {
  EXPECT_EQ(get("/api/secret", 404)["error"], "there is no /api/secret");
  EXPECT_EQ(get("/api/status", 405, "POST")["error"], "that path does not answer to POST");
  EXPECT_EQ(get("/api/faults/release", 404, "POST")["error"], "there is no such test store");
}

}  // namespace
}  // namespace zvolt::daemon
