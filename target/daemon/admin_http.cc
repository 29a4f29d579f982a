// See admin_http.h.
#include "target/daemon/admin_http.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <filesystem>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "target/asio.h"

namespace zvolt::daemon {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using Unix = asio::local::stream_protocol;
using Stream = beast::basic_stream<Unix, Executor>;

constexpr size_t kMaxConnections = 64;  // at once; then the longest idle one makes room
constexpr size_t kMaxAnswering = 32;    // of those with a request that is being answered
static_assert(kMaxAnswering < kMaxConnections);
constexpr uint32_t kMaxHeader = 8 * 1024;                      // bytes of a request's head
constexpr uint64_t kMaxBody = 64 * 1024;                       // bytes; nothing of ours needs a body
constexpr auto kTimeout = std::chrono::seconds(10);            // for one request, and between two
constexpr auto kAcceptPause = std::chrono::milliseconds(200);  // after EMFILE and the like
constexpr int kBacklog = 64;

class Connection;

// The way back to the endpoint's thread for who answers on another one: closed by stop().
struct Gate {
  template <typename Work>
  void post(Work work) {
    std::scoped_lock lock(mutex);
    if (context != nullptr) asio::post(*context, std::move(work));
  }
  std::mutex mutex;
  asio::io_context* context = nullptr;
};

struct Shared {
  AdminHttp::Handler handler;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::list<Connection*> idle;                      // the peer's turn, to send or to read; the longest idle first
  std::set<std::shared_ptr<Connection>> answering;  // the handler has the request
  size_t connections = 0;                           // all
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Unix::socket&& socket, Executor executor, std::shared_ptr<Shared> shared)
      : stream_(executor), shared_(std::move(shared)), place_(shared_->idle.end()) {
    ErrorCode ec;
    const int fd = socket.release(ec);
    if (!ec) stream_.socket().assign(Unix(), fd, ec);
    ++shared_->connections;
  }
  ~Connection() {
    leave_idle();
    --shared_->connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    parser_->body_limit(kMaxBody);
    enter_idle();
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](ErrorCode ec, size_t) { self->on_read(ec); });
  }
  // Another one needs the place: ends by itself with the error of the read that is pending.
  void make_room() {
    leave_idle();
    ErrorCode ignored;
    stream_.socket().close(ignored);
  }

 private:
  void enter_idle() {
    leave_idle();
    place_ = shared_->idle.insert(shared_->idle.end(), this);
  }
  void leave_idle() {
    if (place_ != shared_->idle.end()) shared_->idle.erase(place_);
    place_ = shared_->idle.end();
  }
  void on_read(ErrorCode ec) {
    leave_idle();
    if (ec == http::error::header_limit) return reply({431, R"({"error":"the request's head is too large"})"}, false);
    if (ec == http::error::body_limit) return reply({413, R"({"error":"the request's body is too large"})"}, false);
    const bool malformed = ec && ec.category() == http::make_error_code(http::error::bad_method).category() &&
                           ec != http::error::end_of_stream && ec != http::error::partial_message;
    if (malformed) return reply({400, R"({"error":"not an HTTP request"})"}, false);
    if (ec) return;
    const auto& request = parser_->get();
    if (shared_->answering.size() >= kMaxAnswering)
      return reply({503, R"({"error":"too many requests at once; try again"})"}, request.keep_alive());
    shared_->answering.insert(shared_from_this());
    stream_.expires_never();
    shared_->handler({std::string(request.method_string()), std::string(request.target())}, answer_later());
  }

  // What the handler calls when it knows. Posted, whatever the thread; `answering` keeps the connection, not the
  // handler, so that it never ends on another thread.
  AdminHttp::Answer answer_later() {
    const bool keep_alive = parser_->get().keep_alive();
    return [weak = weak_from_this(), gate = shared_->gate, keep_alive](AdminReply answer) {
      gate->post([weak, keep_alive, answer = std::move(answer)] {
        const auto self = weak.lock();
        if (self && self->shared_->answering.erase(self) == 1) self->reply(answer, keep_alive);
      });
    };
  }

  void reply(const AdminReply& answer, bool keep_alive) {
    response_ = {};
    response_.result(answer.status);
    response_.set(http::field::content_type, "application/json");
    response_.set(http::field::cache_control, "no-store");
    response_.keep_alive(keep_alive);
    response_.body() = answer.body;
    response_.prepare_payload();
    enter_idle();
    stream_.expires_after(kTimeout);
    http::async_write(stream_, response_, [self = shared_from_this(), keep_alive](ErrorCode ec, size_t) {
      if (!ec && keep_alive) self->read();
    });
  }

  Stream stream_;
  beast::flat_buffer buffer_{kMaxHeader + kMaxBody};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::shared_ptr<Shared> shared_;
  std::list<Connection*>::iterator place_;  // in `idle`, or its end
};

// Creates the socket's directory, and removes a socket that its daemon left behind.
Result<void> prepare_path(const std::string& path, const std::string& what) {
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
  if (ec) return Error{ec.value(), "cannot create the directory of the " + what + ": " + ec.message()};
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) return Error{EEXIST, "the " + what + " exists and is no socket"};
  asio::io_context context(1);
  Unix::socket probe(context);
  ErrorCode failed;
  probe.connect(Unix::endpoint(path), failed);
  if (!failed) return Error{EADDRINUSE, "another zvoltd answers on the " + what};
  if (failed != asio::error::connection_refused)
    return Error{failed.value(), "cannot tell whether the " + what + " is in use: " + failed.message()};
  if (::unlink(path.c_str()) != 0) return Error{errno, "cannot replace the stale " + what};
  return {};
}

}  // namespace

struct AdminHttp::Impl {
  asio::io_context context{1};
  Unix::acceptor acceptor{context};
  Timer retry{context};
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::string path;
  std::thread thread;
  bool accepting = false;

  void accept() {
    if (accepting || !acceptor.is_open()) return;
    accepting = true;
    acceptor.async_accept([this](ErrorCode ec, Unix::socket socket) {
      accepting = false;
      if (ec == asio::error::operation_aborted) return;
      if (ec) return accept_later();
      // There is always one: fewer are answering than there are places.
      if (shared->connections >= kMaxConnections && !shared->idle.empty()) shared->idle.front()->make_room();
      std::make_shared<Connection>(std::move(socket), context.get_executor(), shared)->read();
      accept();
    });
  }

  void accept_later() {
    retry.expires_after(kAcceptPause);
    retry.async_wait([this](ErrorCode ec) {
      if (!ec) accept();
    });
  }
};

AdminHttp::AdminHttp() : impl_(std::make_unique<Impl>()) {}

AdminHttp::~AdminHttp() {
  stop();
}

Result<void> AdminHttp::bind(const std::string& path) {
  const std::string what = "admin socket " + path + " (key 'admin.socket')";
  const auto prepared = prepare_path(path, what);
  if (!prepared) return prepared;
  ErrorCode ec;
  impl_->acceptor.open(Unix(), ec);
  // The mode must be right from the first moment on, so the mask and not chmod. No other thread makes files yet.
  const mode_t before = ::umask(0177);
  if (!ec) impl_->acceptor.bind(Unix::endpoint(path), ec);
  ::umask(before);
  if (!ec) impl_->path = path;
  if (!ec) impl_->acceptor.listen(kBacklog, ec);
  if (ec) return Error{ec.value(), "cannot bind the " + what + ": " + ec.message()};
  return {};
}

void AdminHttp::start(Handler handler) {
  impl_->shared->handler = std::move(handler);
  impl_->shared->gate->context = &impl_->context;
  impl_->accept();
  impl_->thread = std::thread([impl = impl_.get()] {
    pthread_setname_np(pthread_self(), "admin");
    impl->context.run();
  });
}

void AdminHttp::stop() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  {
    std::scoped_lock lock(impl_->shared->gate->mutex);
    impl_->shared->gate->context = nullptr;
  }
  std::exchange(impl_->shared->answering, {}).clear();  // the others end with the context
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  if (!impl_->path.empty()) ::unlink(impl_->path.c_str());
  impl_->path.clear();
}

}  // namespace zvolt::daemon
