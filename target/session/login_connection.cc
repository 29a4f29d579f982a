// See login_connection.h.
#include "target/session/login_connection.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <utility>

#include "target/session/connection.h"

namespace zvolt::iscsi {

namespace {

using Await = asio::awaitable<void, Executor>;
constexpr asio::use_awaitable_t<Executor> kAwait{};

class LoginConnection : public std::enable_shared_from_this<LoginConnection> {
 public:
  LoginConnection(Shard& shard, TcpSocket socket, uint16_t portal_group, LoginContext& context)
      : shard_(shard),
        socket_(std::move(socket)),
        group_(portal_group),
        context_(context),
        timer_(shard.context()),
        table_(context.targets.current()),
        negotiator_(*table_, LoginLimits{}, portal_group) {
    ErrorCode ec;
    const auto peer = socket_.remote_endpoint(ec);
    if (!ec) peer_ = format_address(peer.address().to_string(), peer.port());
    const auto local = socket_.local_endpoint(ec);
    if (!ec) local_ = local.address().to_string();
    context_.logins.fetch_add(1, std::memory_order_relaxed);
  }
  ~LoginConnection() { context_.logins.fetch_sub(1, std::memory_order_relaxed); }

  void start() {
    timer_.expires_after(limits::kLoginTimeout);
    timer_.async_wait([weak = weak_from_this()](ErrorCode ec) {
      if (ec) return;
      if (auto self = weak.lock()) self->timed_out();
    });
    asio::co_spawn(
        shard_.context().get_executor(), [self = shared_from_this()]() -> Await { return self->run(self); },
        asio::detached);
  }

 private:
  // `keep` is a parameter so that the coroutine's frame holds the object.
  Await run(std::shared_ptr<LoginConnection> keep) {
    for (;;) {
      const Received received = co_await receive();
      if (received == Received::nothing) break;
      // A segment that is too long is not read: the answer to it ends the login.
      LoginStep step = received == Received::pdu ? negotiator_.receive(bhs_, text_)
                                                 : negotiator_.refuse(LoginStatus::initiator_error);
      if (received == Received::too_long) step.close = true;
      if (step.drop) {
        spdlog::info("{}: not a login (opcode {:#04x}), dropped", peer_, bhs_.opcode_byte);
        break;
      }
      if (!begun_) {
        begun_ = true;
        stat_sn_ = negotiator_.initial_exp_stat_sn();
      }
      if (step.ready && hand_over(step)) co_return;
      const bool sent = co_await send(step);
      if (!sent || step.close) break;
    }
    timer_.cancel();
    co_await finish();
    (void)keep;
  }

  enum class Received : uint8_t { nothing, pdu, too_long };

  // One PDU: header, then what it announces, within the limits of a login. What does not begin with a Login Request is
  // not listened to any longer than its header.
  asio::awaitable<Received, Executor> receive() {
    ErrorCode ec;
    co_await asio::async_read(socket_, asio::buffer(&bhs_, kBhsLength), asio::redirect_error(kAwait, ec));
    if (ec) {
      spdlog::debug("{}: left during login: {}", peer_, ec.message());
      co_return Received::nothing;
    }
    if (!begun_ && bhs_.opcode() != Opcode::login_request) {
      spdlog::info("{}: not a login (opcode {:#04x}), dropped", peer_, bhs_.opcode_byte);
      co_return Received::nothing;
    }
    if (bhs_.data_bytes() > LoginNegotiator::kMaxLoginSegment) {
      spdlog::info("{}: login data segment of {} bytes refused", peer_, bhs_.data_bytes());
      co_return begun_ ? Received::too_long : Received::nothing;
    }
    text_.resize(bhs_.ahs_bytes() + bhs_.padded_data_bytes());
    if (!text_.empty()) {
      co_await asio::async_read(socket_, asio::buffer(text_), asio::redirect_error(kAwait, ec));
      if (ec) co_return Received::nothing;
    }
    text_.erase(text_.begin(), text_.begin() + bhs_.ahs_bytes());
    text_.resize(bhs_.data_bytes());
    co_return Received::pdu;
  }

  asio::awaitable<bool, Executor> send(LoginStep& step) {
    if (step.close)
      spdlog::info("{}: login of '{}' refused, status {:#06x}", peer_, negotiator_.parameters().initiator_name,
                   static_cast<unsigned>(step.status));
    auto& pdu = as<LoginResponse>(step.header);
    pdu.stat_sn = stat_sn_++;
    pdu.exp_cmd_sn = negotiator_.initial_cmd_sn();
    pdu.max_cmd_sn = negotiator_.initial_cmd_sn();
    std::vector<uint8_t> wire(kBhsLength + step.header.padded_data_bytes());
    std::memcpy(wire.data(), &step.header, kBhsLength);
    std::copy(step.text.begin(), step.text.end(), wire.begin() + kBhsLength);
    ErrorCode ec;
    co_await asio::async_write(socket_, asio::buffer(wire), asio::redirect_error(kAwait, ec));
    co_return !ec;
  }

  // FIN first, then wait (bounded by a short timer) for the peer's, so that a reset does not take our last PDU from it.
  Await finish() {
    shutdown(socket_.native_handle(), SHUT_WR);
    timer_.expires_after(limits::kLingerTimeout);
    timer_.async_wait([weak = weak_from_this()](ErrorCode ec) {
      if (ec) return;
      if (auto self = weak.lock()) self->close();
    });
    ErrorCode ec;
    for (size_t discarded = 0; !ec && discarded < limits::kReceiveBudget;) {
      discarded += co_await socket_.async_read_some(asio::buffer(&bhs_, kBhsLength), asio::redirect_error(kAwait, ec));
    }
    timer_.cancel();
    close();
  }

  void timed_out() {
    spdlog::info("{}: no login within {} s, dropped", peer_, limits::kLoginTimeout.count());
    close();
  }

  void close() {
    ErrorCode ignored;
    socket_.close(ignored);
  }

  // The login is granted: the socket goes to its session's shard. False: refused, and `step` says so.
  bool hand_over(LoginStep& step) {
    const SessionParameters& p = negotiator_.parameters();
    SessionRegistry::Admission admission = context_.registry.admit(p, group_, negotiator_.requested_tsih(), peer_);
    if (admission.status != LoginStatus::success) {
      step = negotiator_.refuse(admission.status);
      return false;
    }
    ErrorCode ec;
    const auto protocol = socket_.local_endpoint(ec).protocol();
    const int fd = socket_.release(ec);
    if (ec) {
      context_.registry.ended(admission.tsih);
      step = negotiator_.refuse(LoginStatus::target_error);
      return false;
    }
    timer_.cancel();
    Shard& shard = *admission.shard;
    asio::post(shard.context(), [self = shared_from_this(), admission, protocol, fd, step = std::move(step)]() mutable {
      self->begin_session(admission, protocol, fd, std::move(step));
    });
    return true;
  }

  // On the session's shard.
  void begin_session(const SessionRegistry::Admission& admission, asio::ip::tcp protocol, int fd, LoginStep step) {
    Shard& shard = *admission.shard;
    // The old session first: its memory may be what the new one needs.
    const SessionRegistry::TakeOver take_over = context_.registry.take_over(admission.tsih);
    for (const auto& old : take_over.replaced) old->terminate("reinstated by " + peer_);
    TcpSocket socket(shard.context());
    ErrorCode ec;
    socket.assign(protocol, fd, ec);
    if (ec || take_over.superseded) {
      spdlog::info("{}: login given up: {}", peer_, ec ? ec.message() : "a later one of the same initiator port");
      if (ec) ::close(fd);
      context_.registry.ended(admission.tsih);
      return;
    }
    // What is in force now, on this shard: the configuration may have changed since the login began, and whoever
    // changes it comes to this shard only after that.
    const std::shared_ptr<const TargetTable> table = context_.targets.current();
    const SessionParameters& p = negotiator_.parameters();
    const LoginStatus allowed =
        p.discovery ? LoginStatus::success : table->check_target(p.target_name, p.initiator_name, group_);
    if (allowed != LoginStatus::success) {
      spdlog::info("{}: login refused: {} has just gone", peer_, p.target_name);
      refuse_on_shard(std::move(socket), admission.tsih, allowed);
      return;
    }
    auto session = make_session(admission, *table);
    uint32_t stat_sn = stat_sn_;
    if (!session->reserve_window()) {
      spdlog::warn("{}: no memory for a command window left (raise `memory:`), login refused", peer_);
      refuse_on_shard(std::move(socket), admission.tsih, LoginStatus::out_of_resources);
      return;
    }
    session->exp_cmd_sn = negotiator_.initial_cmd_sn();
    auto connection =
        std::make_shared<Connection>(std::move(socket), std::move(session), context_.registry, peer_, stat_sn);
    shard.add(connection);
    context_.registry.began(admission.tsih, connection, table->generation());
    connection->begin(std::move(step));
  }

  std::unique_ptr<Session> make_session(const SessionRegistry::Admission& admission, const TargetTable& table) {
    const SessionParameters& p = negotiator_.parameters();
    char isid[16];
    std::snprintf(isid, sizeof isid, "0x%02x%02x%02x%02x%02x%02x", p.isid[0], p.isid[1], p.isid[2], p.isid[3],
                  p.isid[4], p.isid[5]);
    char group[8];
    std::snprintf(group, sizeof group, "0x%04x", group_);
    scsi::NexusNames names{p.initiator_name, p.initiator_name + ",i," + isid, p.target_name,
                           p.target_name + ",t," + group, group_};
    const TargetNode* target = p.discovery ? nullptr : table.find(p.target_name);
    auto discover = [&targets = context_.targets, initiator = p.initiator_name, local = local_] {
      return targets.current()->discover(initiator, local);
    };
    return std::make_unique<Session>(p, admission.tsih, *admission.shard, std::move(names),
                                     target == nullptr ? std::make_shared<scsi::LunMap>() : target->luns,
                                     target == nullptr ? std::vector<UnitStats>{} : table.unit_stats(*target),
                                     std::move(discover));
  }

  void refuse_on_shard(TcpSocket socket, uint16_t tsih, LoginStatus status) {
    context_.registry.ended(tsih);
    LoginStep step = negotiator_.refuse(status);
    auto& pdu = as<LoginResponse>(step.header);
    pdu.stat_sn = stat_sn_;
    pdu.exp_cmd_sn = pdu.max_cmd_sn = negotiator_.initial_cmd_sn();
    // A fresh socket buffer takes 48 bytes at once; if not, the close says it.
    const ssize_t sent = send_now(socket, step.header);
    if (sent != static_cast<ssize_t>(kBhsLength)) spdlog::debug("{}: refusal not sent", peer_);
    shutdown(socket.native_handle(), SHUT_WR);
  }

  static ssize_t send_now(TcpSocket& socket, const BasicHeaderSegment& header) {
    return ::send(socket.native_handle(), &header, kBhsLength, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  Shard& shard_;
  TcpSocket socket_;
  uint16_t group_;
  LoginContext& context_;
  Timer timer_;
  std::shared_ptr<const TargetTable> table_;  // what this login negotiates about
  LoginNegotiator negotiator_;
  std::string peer_ = "?", local_;
  BasicHeaderSegment bhs_{};
  std::vector<uint8_t> text_;
  uint32_t stat_sn_ = 0;
  bool begun_ = false;
};

}  // namespace

void start_login(Shard& shard, TcpSocket socket, uint16_t portal_group, LoginContext& context) {
  std::make_shared<LoginConnection>(shard, std::move(socket), portal_group, context)->start();
}

}  // namespace zvolt::iscsi
