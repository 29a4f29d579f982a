// Server::reconfigure: LUN maps, targets and portals that change under sessions. Those a change concerns hear of it
// exactly once, the others see nothing, and a number that is given to another volume never lets an old write reach it.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/integration/live_server.h"

namespace zvolt::test {
namespace {

using iscsi::Opcode;
class Reconfigure : public LiveServer {
 protected:
  Volume a = volume("a", 0xa1), b = volume("b", 0xb2), c = volume("c", 0xc3);
};

TEST_F(Reconfigure, AnAddedLunIsAnnouncedOnlyWhereTheMapChanged) {
  start({node(kFirst, {{0, a.unit}}), node(kSecond, {{0, b.unit}})});
  RawClient first = session(kFirst), second = session(kSecond);
  const auto report = change({node(kFirst, {{0, a.unit}, {3, c.unit}}), node(kSecond, {{0, b.unit}})});
  EXPECT_EQ(report.generation, 2u);
  EXPECT_EQ(report.sessions_changed, 1u);
  EXPECT_EQ(report.sessions_leaving, 0u);
  EXPECT_EQ(attentions(first, 0), "06/3f/0e");
  EXPECT_EQ(attentions(first, 3), "06/29/00");
  EXPECT_EQ(attentions(second, 0), "");
  for (const auto& info : server_->sessions()) EXPECT_EQ(info.map_generation, info.target == kFirst ? 2u : 1u);
}

TEST_F(Reconfigure, TheSameConfigurationAgainIsSeenByNobody) {
  start({node(kFirst, {{0, a.unit}, {1, b.unit}})});
  RawClient client = session(kFirst, 2);
  EXPECT_EQ(change({node(kFirst, {{0, a.unit}, {1, b.unit}})}).sessions_changed, 0u);
  EXPECT_EQ(attentions(client, 0), "");
  EXPECT_EQ(attentions(client, 1), "");
}

TEST_F(Reconfigure, ARemovedLunIsGoneAndItsVolumeFree) {
  start({node(kFirst, {{0, a.unit}, {1, b.unit}})});
  RawClient client = session(kFirst, 2);
  change({node(kFirst, {{0, a.unit}})});
  EXPECT_EQ(b.unit.use_count(), 1) << "somebody still holds it";
  EXPECT_EQ(client.command_in(read10(0, 1), 512, 1).sense(), "05/25/00");
  EXPECT_EQ(attentions(client, 0), "06/3f/0e");
}

TEST_F(Reconfigure, ANewSessionGetsTheNewMap) {
  start({node(kFirst, {{0, a.unit}})});
  change({node(kFirst, {{0, b.unit}, {1, a.unit}})});
  RawClient client = session(kFirst, 2);
  EXPECT_TRUE(client.command_out(write10(0, 1), pattern(512, 1), 512, 1).good());
  EXPECT_EQ(medium(client, 1, 0, 1), pattern(512, 1));
  EXPECT_EQ(medium(client, 0, 0, 1), Bytes(512, 0));
}

// The write is in the old volume's store when its number is given away.
TEST_F(Reconfigure, AWriteInTheStoreEndsOnTheOldVolume) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  stall(a);
  const Bytes old_data = pattern(4096, 1), new_data = pattern(4096, 2);
  const uint32_t old_write = begin_write(client, 0, 0, old_data, old_data.size());
  settle(client);
  ASSERT_EQ(a.store->stalled(), 1u);
  change({node(kFirst, {{0, b.unit}})});
  EXPECT_EQ(attentions(client, 0), "06/3f/03 06/3f/0e");
  EXPECT_TRUE(client.command_out(write10(0, 8), new_data, 4096).good());
  go_on(a);
  EXPECT_TRUE(client.finish(old_write).good());
  EXPECT_EQ(medium(client, 0, 0, 8), new_data);
  change({node(kFirst, {{0, b.unit}, {1, a.unit}})});
  attentions(client, 1);
  EXPECT_EQ(medium(client, 1, 0, 8), old_data);
}

// The number is given away between the R2T and the data.
TEST_F(Reconfigure, DataThatComesAfterTheChangeGoesToTheOldVolume) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  const Bytes old_data = pattern(8192, 3);
  const uint32_t tag = begin_write(client, 0, 16, old_data, 0);
  Pdu r2t;
  ASSERT_EQ(client.receive(r2t), Arrived::pdu);
  ASSERT_EQ(r2t.opcode(), Opcode::r2t);
  change({node(kFirst, {{0, b.unit}})});
  const uint32_t transfer_tag = r2t.as<iscsi::R2T>().target_transfer_tag.value();
  ASSERT_TRUE(client.send_data_out(tag, transfer_tag, 0, old_data, 0, true));
  EXPECT_TRUE(client.finish(tag).good());
  EXPECT_EQ(attentions(client, 0), "06/3f/03 06/3f/0e");
  EXPECT_EQ(medium(client, 0, 16, 16), Bytes(8192, 0));
  change({node(kFirst, {{0, a.unit}})});
  attentions(client, 0);
  EXPECT_EQ(medium(client, 0, 16, 16), old_data);
}

TEST_F(Reconfigure, AnIdentityChangesWithTheVolume) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  const Bytes before = client.command_in(inquiry(255, true, 0x83), 255).data;
  change({node(kFirst, {{0, b.unit}})});
  EXPECT_NE(client.command_in(inquiry(255, true, 0x83), 255).data, before);
}

// One volume, opened once, as another unit: nothing new gets past what the old one still has in the store.
TEST_F(Reconfigure, AnotherUnitOverTheSameStoreWaitsForTheOldOnes) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst), other = session(kFirst);
  stall(a);
  const uint32_t old_write = begin_write(client, 0, 0, pattern(4096, 1), 4096);
  settle(client);
  ASSERT_EQ(a.store->stalled(), 1u);
  change({node(kFirst, {{0, unit_over("a", a.store, 0xa9)}})});
  attentions(other, 0);
  a.store->set_rules({});
  const uint32_t new_write = begin_write(other, 0, 0, pattern(4096, 2), 4096);
  Pdu nothing;
  EXPECT_EQ(other.receive(nothing, kSilenceLimit), Arrived::nothing);
  a.store->release();
  EXPECT_TRUE(client.finish(old_write).good());
  EXPECT_TRUE(other.finish(new_write).good());
  EXPECT_EQ(medium(other, 0, 0, 8), pattern(4096, 2));
}

TEST_F(Reconfigure, AStalledStoreDelaysNeitherTheChangeNorOthers) {
  start({node(kFirst, {{0, a.unit}, {1, b.unit}})}, 1);
  RawClient client = session(kFirst, 2), other = session(kFirst, 2);
  stall(a);
  std::vector<uint32_t> stuck;
  for (uint32_t i = 0; i < 8; ++i) stuck.push_back(begin_write(client, 0, i * 8, pattern(4096, i), 4096));
  settle(client);
  ASSERT_EQ(a.store->stalled(), 8u);
  change({node(kFirst, {{1, b.unit}, {2, c.unit}})});  // returns, though nothing has gone on
  EXPECT_EQ(a.store->stalled(), 8u);
  EXPECT_EQ(attentions(other, 1), "06/3f/0e");
  EXPECT_TRUE(other.command_out(write10(0, 8), pattern(4096, 9), 4096, 1).good());
  EXPECT_EQ(attentions(client, 2), "06/29/00");
  EXPECT_EQ(attentions(client, 0), "05/25/00");
  go_on(a);
  for (size_t i = 0; i < stuck.size();) {
    Pdu answer;
    ASSERT_EQ(client.receive(answer), Arrived::pdu);
    ASSERT_EQ(answer.opcode(), Opcode::scsi_response);
    EXPECT_EQ(answer.as<iscsi::ScsiResponse>().status, 0);
    ++i;
  }
  EXPECT_EQ(attentions(client, 1), "06/3f/0e");
}

// The session ends while commands of a removed LUN are in the store.
TEST_F(Reconfigure, ASessionThatEndsWithOldCommandsLeavesNothingBehind) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  stall(a);
  begin_write(client, 0, 0, pattern(4096, 1), 4096);
  settle(client);
  change({node(kFirst, {{0, b.unit}})});
  client.reset();
  RawClient next = session(kFirst);
  EXPECT_TRUE(next.command_out(write10(0, 8), pattern(4096, 2), 4096).good());
  go_on(a);
  EXPECT_EQ(server_->stop(std::chrono::seconds(10)), 0u);
  EXPECT_EQ(a.unit.use_count(), 1);
}

TEST_F(Reconfigure, StatisticsOfAVolumeSurvive) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  medium(client, 0, 0, 1);
  change({node(kFirst, {{0, b.unit}, {5, a.unit}})});
  attentions(client, 5);
  medium(client, 5, 0, 1);
  settle(client);  // a command is counted once its answer was sent
  for (const auto& stats : server_->lun_stats()) {
    if (stats->name() != "a") continue;
    EXPECT_EQ(stats->summary(scsi::OpClass::read).stages[0].count(), 2u);
    EXPECT_EQ(stats->in_flight(), 0u);
  }
}

class Leaving : public Reconfigure {
 protected:
  // What a session sees whose target is not its own any more.
  static void expect_logout_request(RawClient& client) {
    Pdu pdu;
    ASSERT_EQ(client.receive(pdu), Arrived::pdu);
    ASSERT_EQ(pdu.opcode(), Opcode::async_message);
    const auto& message = pdu.as<iscsi::AsyncMessage>();
    EXPECT_EQ(message.event, 1);
    EXPECT_EQ(message.parameter3.value(), 1);
    EXPECT_EQ(message.tag.value(), iscsi::kReservedTag);
    EXPECT_EQ(message.flags, iscsi::kFinal);
  }
};

TEST_F(Leaving, SessionsOfARemovedTargetAreAskedToLogOut) {
  start({node(kFirst, {{0, a.unit}}), node(kSecond, {{0, b.unit}})});
  RawClient first = session(kFirst), second = session(kSecond);
  EXPECT_EQ(change({node(kSecond, {{0, b.unit}})}).sessions_leaving, 1u);
  EXPECT_EQ(a.unit.use_count(), 1);
  expect_logout_request(first);
  EXPECT_EQ(first.command_in(read10(0, 1), 512).sense(), "05/25/00");
  EXPECT_TRUE(first.stat_sn_in_order());
  EXPECT_TRUE(first.logout());
  EXPECT_EQ(attentions(second, 0), "");
  RawClient again = connected();
  EXPECT_EQ(try_login(again, kFirst).status, 0x0203);
}

TEST_F(Leaving, WhoDoesNotLogOutIsCutOff) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  change({});
  expect_logout_request(client);
  EXPECT_TRUE(client.closed_by_peer());
  EXPECT_TRUE(server_->sessions().empty());
}

TEST_F(Leaving, AnInitiatorThatMayNoLongerLogInGoes) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  EXPECT_EQ(change({node(kFirst, {{0, a.unit}}, {"iqn.2026-11.org.example:somebody-else"})}).sessions_leaving, 1u);
  expect_logout_request(client);
  RawClient again = connected();
  EXPECT_EQ(try_login(again, kFirst).status, 0x0202);
}

class Portals : public Reconfigure {
 protected:
  Result<iscsi::ChangeReport> listen(std::vector<iscsi::PortalOptions> portals) {
    return server_->reconfigure({{node(kFirst, {{0, a.unit}})}, std::move(portals)});
  }
  static bool answers(uint16_t port) {
    RawClient client;
    return client.connect(port);
  }
};

TEST_F(Portals, ANewOneListensAnOldOneGoesSessionsStay) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  const uint16_t before = server_->ports().at(0);
  ASSERT_TRUE(listen({{"127.0.0.1", 0, 1}, {"127.0.0.2", 0, 2}}));
  const auto both = server_->ports();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], before);
  ASSERT_TRUE(listen({{"127.0.0.2", 0, 2}}));
  EXPECT_EQ(server_->ports(), std::vector<uint16_t>{both[1]});
  EXPECT_FALSE(answers(before));
  EXPECT_EQ(attentions(client, 0), "");
}

TEST_F(Portals, OneThatCannotBeBoundChangesNothing) {
  start({node(kFirst, {{0, a.unit}})});
  RawClient client = session(kFirst);
  const int busy = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(busy, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(busy, 1), 0);
  ASSERT_EQ(::getsockname(busy, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto ports = server_->ports();
  const auto failed =
      server_->reconfigure({{node(kFirst, {{0, b.unit}})}, {{"127.0.0.1", ntohs(address.sin_port), 1}}});
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EADDRINUSE);
  EXPECT_EQ(server_->ports(), ports);
  EXPECT_EQ(attentions(client, 0), "");
  session(kFirst);
  ::close(busy);
}

TEST_F(Portals, AWildcardMayTakeTheAddressOfOneThatGoesAndGiveItBack) {
  start({node(kFirst, {{0, a.unit}})});
  const uint16_t port = server_->ports().at(0);
  ASSERT_TRUE(listen({{"0.0.0.0", port, 1}}));
  EXPECT_TRUE(answers(port));
  EXPECT_FALSE(listen({{"127.0.0.1", port, 1}, {"192.0.2.1", port, 1}}));  // not an address of this machine
  EXPECT_TRUE(answers(port));
  session(kFirst);
}

TEST_F(Portals, AServerThatDoesNotRunSaysSo) {
  start({node(kFirst, {{0, a.unit}})});
  server_->stop(std::chrono::seconds(1));
  EXPECT_FALSE(listen(portals_));
}

}  // namespace
}  // namespace zvolt::test
