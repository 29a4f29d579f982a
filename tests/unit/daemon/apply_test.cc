// Plan and apply on a server in this process, with files and memory: what changes, what stays, and that what fails
// changes nothing.
#include "target/daemon/apply.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace zvolt::daemon {
namespace {

using Outcome = ApplyReport::Outcome;

class ApplyTest : public ::testing::Test {
 protected:
  ~ApplyTest() override {
    if (server_) server_->stop(std::chrono::milliseconds(0));
    if (set_) set_->on_arrival({});
  }

  std::string path(const std::string& name) const { return temp_.file(name); }
  // One target with these LUNs, in flow form.
  void write(const std::string& luns, const std::string& more = "") const {
    std::ofstream(path("zvolt.yaml")) << "listen: [\"127.0.0.1:0\"]\nstate_dir: " << path("state") << "\nthreads: 1\n"
                                      << "memory: 64MiB\n"
                                      << more << "targets: [ { name: \"iqn.2026-11.org.example:a\", luns: [ " << luns
                                      << " ] } ]\n";
  }
  std::string file_lun(int number, const std::string& name, const std::string& size = "1MiB") const {
    return "{ lun: " + std::to_string(number) + ", name: " + name + ", file: " + path(name + ".img") +
           ", provision: { size: " + size + " } }, ";
  }
  void start(const std::string& luns) {
    write(luns);
    auto loaded = config::load_file(path("zvolt.yaml"), {});
    ASSERT_TRUE(loaded.ok()) << loaded.problems[0].text();
    auto state = StateDir::open(path("state"));
    ASSERT_TRUE(state);
    state_ = std::make_unique<StateDir>(std::move(*state));
    set_ = std::make_unique<VolumeSet>(*state_, VolumeSetOptions{});
    auto composed = compose(loaded.config, *set_);
    ASSERT_TRUE(composed) << composed.error().message;
    server_ = std::make_unique<iscsi::Server>(server_options(composed->composition));
    const auto started = server_->start();
    ASSERT_TRUE(started) << started.error().message;
    control_ = std::make_unique<Control>(std::move(composed->composition), *set_, *server_, config::LoadOptions{});
  }
  ApplyReport applied(const std::string& luns, const std::string& more = "") {
    write(luns, more);
    return control_->apply({});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const OpenVolume& volume : control_->current()->volumes) out.push_back(volume.config.name);
    return out;
  }
  std::shared_ptr<scsi::LogicalUnit> unit(const std::string& name) const {
    const auto current = control_->current();
    const OpenVolume* volume = current->volume(name);
    return volume == nullptr ? nullptr : volume->unit;
  }
  bool is_locked(const std::string& name) const {
    const int fd = ::open(path(name).c_str(), O_RDWR | O_CLOEXEC);
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    ::close(fd);
    return locked;
  }

  const test::TempDir temp_;
  std::unique_ptr<StateDir> state_;
  std::unique_ptr<VolumeSet> set_;
  std::unique_ptr<iscsi::Server> server_;
  std::unique_ptr<Control> control_;
};

TEST_F(ApplyTest, SameFileAgainDoesNothing) {
  start(file_lun(0, "a"));
  const auto before = unit("a");
  const auto report = control_->apply({});
  EXPECT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_TRUE(report.plan.nothing());
  EXPECT_EQ(unit("a"), before);
}

TEST_F(ApplyTest, VolumeComesAndGoes) {
  start(file_lun(0, "a"));
  const auto a = unit("a");
  auto report = applied(file_lun(0, "a") + file_lun(1, "b"));
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(unit("a"), a) << "what stays is the same unit";
  EXPECT_EQ(std::filesystem::file_size(path("b.img")), 1u << 20);
  EXPECT_TRUE(is_locked("b.img"));
  report = applied(file_lun(0, "a"));
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_FALSE(is_locked("b.img")) << "closed when apply says so";
  EXPECT_TRUE(std::filesystem::exists(path("b.img"))) << "never removed";
}

TEST_F(ApplyTest, PlanChangesNothing) {
  start(file_lun(0, "a"));
  std::ifstream in(path("state/identity.json"));
  const std::string before(std::istreambuf_iterator<char>(in), {});
  write(file_lun(0, "a", "2MiB") + file_lun(1, "b"));
  const auto report = control_->plan({});
  EXPECT_EQ(report.outcome, Outcome::planned) << report.error;
  EXPECT_FALSE(report.plan.nothing());
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(path("b.img")));
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), 1u << 20);
  std::ifstream again(path("state/identity.json"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), before);
}

TEST_F(ApplyTest, FileWithAnErrorChangesNothing) {
  start(file_lun(0, "a"));
  const auto report = applied(file_lun(0, "a") + file_lun(1, "b") + "{ lun: 1, memory: 1MiB, name: c }");
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_FALSE(report.problems.empty());
  EXPECT_NE(report.error.find("nothing was changed"), std::string::npos) << report.error;
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(path("b.img")));
}

TEST_F(ApplyTest, VolumeThatDoesNotOpenChangesNothingElse) {
  start(file_lun(0, "a"));
  std::ofstream(path("bad.img"));  // empty: no LUN
  const auto report = applied(file_lun(1, "b") + "{ lun: 2, name: bad, file: " + path("bad.img") + " }");
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_NE(report.error.find("bad.img"), std::string::npos) << report.error;
  EXPECT_EQ(names(), std::vector<std::string>{"a"}) << "not even what could have been done";
  EXPECT_FALSE(std::filesystem::exists(path("b.img"))) << "made for this and untouched: removed";
  EXPECT_TRUE(std::filesystem::exists(path("bad.img")));
}

TEST_F(ApplyTest, PortThatIsTakenChangesNothing) {
  start(file_lun(0, "a"));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::ofstream(path("other.yaml")) << "listen: [\"127.0.0.1:0\", \"127.0.0.1:" << ntohs(address.sin_port)
                                    << "\"]\nstate_dir: " << path("state") << "\nthreads: 1\nmemory: 64MiB\n"
                                    << "targets: [ { name: \"iqn.2026-11.org.example:a\", luns: [ " << file_lun(0, "a")
                                    << file_lun(1, "b") << " ] } ]\n";
  const auto report = control_->apply(path("other.yaml"));
  ::close(fd);
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_NE(report.error.find("in use"), std::string::npos) << report.error;
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(path("b.img")));
}

TEST_F(ApplyTest, FileGrows) {
  start(file_lun(0, "a"));
  const auto report = applied(file_lun(0, "a", "3MiB"));
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(unit("a")->blocks(), (3u << 20) / 512);
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), 3u << 20);
}

TEST_F(ApplyTest, ShrinkingIsRefusedUnlessAllowed) {
  start(file_lun(0, "a", "3MiB"));
  auto report = applied(file_lun(0, "a", "1MiB"));
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_NE(report.error.find("allow_shrink"), std::string::npos) << report.error;
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), 3u << 20);
  report = applied(file_lun(0, "a", "1MiB, allow_shrink: true"));
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), 1u << 20);
  EXPECT_EQ(unit("a")->blocks(), (1u << 20) / 512);
}

TEST_F(ApplyTest, FailedGrowthIsNamedAndPlannedAgain) {
  start(file_lun(0, "a"));
  // Another file in its place: the open one cannot be reached by its name any more.
  std::filesystem::rename(path("a.img"), path("moved.img"));
  std::filesystem::create_directory(path("a.img"));
  const auto report = applied(file_lun(0, "a", "3MiB") + file_lun(1, "b"));
  EXPECT_EQ(report.outcome, Outcome::partial);
  ASSERT_EQ(report.failed.size(), 1u);
  EXPECT_NE(report.failed[0].find("failed: "), std::string::npos) << report.failed[0];
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b"})) << "the rest is done";
  EXPECT_FALSE(control_->plan({}).plan.nothing()) << "and is shown again";
}

TEST_F(ApplyTest, LiveChangesKeepTheUnit) {
  start("{ lun: 0, name: m, memory: 1MiB }");
  const auto before = unit("m");
  const auto report = applied("{ lun: 0, name: m, memory: 1MiB, sync: always, read_only: true }");
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(unit("m"), before);
  EXPECT_EQ(before->sync(), scsi::SyncMode::always);
  EXPECT_TRUE(before->read_only());
}

TEST_F(ApplyTest, OtherBlockSizeIsAnotherUnitOverTheSameStore) {
  start(file_lun(0, "a"));
  const auto before = unit("a");
  const auto report =
      applied("{ lun: 0, name: a, file: " + path("a.img") + ", provision: { size: 1MiB }, block_size: 4096 }");
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_NE(unit("a"), before);
  EXPECT_EQ(unit("a")->block_size(), 4096u);
  EXPECT_EQ(&unit("a")->store(), &before->store());
  EXPECT_EQ(unit("a")->options().uuid, before->options().uuid) << "it is the same disk";
}

TEST_F(ApplyTest, RenameInTheFileKeepsTheUnit) {
  start(file_lun(0, "a"));
  const auto before = unit("a");
  const auto report = applied("{ lun: 0, name: new, file: " + path("a.img") + ", provision: { size: 1MiB } }");
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(unit("new"), before);
  EXPECT_EQ(unit("a"), nullptr);
}

TEST_F(ApplyTest, NameThatGetsAnotherFileIsAnotherDisk) {
  start(file_lun(0, "a"));
  const auto before = unit("a");
  const auto report = applied("{ lun: 0, name: a, file: " + path("other.img") + ", provision: { size: 2MiB } }");
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_NE(unit("a"), before);
  EXPECT_NE(unit("a")->options().uuid, before->options().uuid);
  EXPECT_EQ(before->state(), scsi::UnitState::removed);
}

TEST_F(ApplyTest, ReadOnlyStoreDoesNotBecomeWritableWhileItIsOpen) {
  std::ofstream(path("a.img")) << std::string(1 << 20, 'x');
  start("{ lun: 0, name: a, file: " + path("a.img") + ", read_only: true }");
  const auto report = applied("{ lun: 0, name: a, file: " + path("a.img") + " }");
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_NE(report.error.find("opened for reading only"), std::string::npos) << report.error;
  EXPECT_TRUE(unit("a")->read_only());
}

TEST_F(ApplyTest, MissingDeviceWaitsAndAFileDoesNot) {
  start(file_lun(0, "a"));
  auto report = applied(file_lun(0, "a") + "{ lun: 1, name: d, device: " + path("no-device") + " }");
  ASSERT_EQ(report.outcome, Outcome::done) << report.error;
  EXPECT_EQ(unit("d")->state(), scsi::UnitState::becoming_ready);
  report = applied(file_lun(0, "a") + "{ lun: 1, name: f, file: " + path("no-file") + " }");
  EXPECT_EQ(report.outcome, Outcome::refused);
  EXPECT_NE(report.error.find("no-file"), std::string::npos) << report.error;
  EXPECT_NE(unit("d"), nullptr);
}

TEST_F(ApplyTest, EndingDaemonTakesNoChange) {
  start(file_lun(0, "a"));
  control_->stop();
  EXPECT_EQ(applied(file_lun(0, "a") + file_lun(1, "b")).outcome, Outcome::refused);
  EXPECT_FALSE(std::filesystem::exists(path("b.img")));
}

TEST_F(ApplyTest, OfflineAndOnlineByNameAndByMapping) {
  start("{ lun: 3, name: m, memory: 1MiB }");
  EXPECT_EQ(control_->set_offline("m", true).error, "");
  EXPECT_EQ(unit("m")->state(), scsi::UnitState::offline);
  EXPECT_EQ(control_->set_offline("iqn.2026-11.org.example:a/3", false).error, "");
  EXPECT_EQ(unit("m")->state(), scsi::UnitState::ready);
  EXPECT_EQ(control_->set_offline("iqn.2026-11.org.example:a/4", false).status, 404u);
  EXPECT_EQ(control_->set_offline("nobody", true).status, 404u);
}

TEST_F(ApplyTest, ResizeGrowsAndLooksAgain) {
  start(file_lun(0, "a"));
  EXPECT_EQ(control_->resize("a", 2 << 20).error, "");
  EXPECT_EQ(unit("a")->blocks(), (2u << 20) / 512);
  EXPECT_EQ(control_->resize("a", 1 << 20).status, 409u) << "never smaller";
  std::filesystem::resize_file(path("a.img"), 4 << 20);
  EXPECT_EQ(control_->resize("a", 0).error, "");
  EXPECT_EQ(unit("a")->blocks(), (4u << 20) / 512);
}

TEST_F(ApplyTest, StartChangesNothingThatExists) {
  std::ofstream(path("a.img")) << std::string(1 << 20, 'x');
  start(file_lun(0, "a", "2MiB"));
  control_->tell_differences();
  EXPECT_EQ(unit("a")->blocks(), (1u << 20) / 512);
  EXPECT_EQ(control_->apply({}).outcome, Outcome::done);
  EXPECT_EQ(unit("a")->blocks(), (2u << 20) / 512) << "but apply does";
}

}  // namespace
}  // namespace zvolt::daemon
