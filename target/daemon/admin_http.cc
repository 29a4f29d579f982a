// See admin_http.h.
#include "target/daemon/admin_http.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <filesystem>
#include <thread>

#include "target/asio.h"

namespace zvolt::daemon {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using Unix = asio::local::stream_protocol;
using Stream = beast::basic_stream<Unix, Executor>;

constexpr size_t kMaxConnections = 32;                         // at once; further ones wait in the backlog
constexpr uint32_t kMaxHeader = 8 * 1024;                      // bytes of a request's head
constexpr uint64_t kMaxBody = 64 * 1024;                       // bytes; nothing of ours needs a body
constexpr auto kTimeout = std::chrono::seconds(10);            // for one request, and between two
constexpr auto kAcceptPause = std::chrono::milliseconds(200);  // after EMFILE and the like
constexpr int kBacklog = 64;

struct Shared {
  AdminHttp::Handler handler;
  size_t connections = 0;
  std::function<void()> closed;  // a place became free
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Unix::socket&& socket, Executor executor, std::shared_ptr<Shared> shared)
      : stream_(executor), shared_(std::move(shared)) {
    ErrorCode ec;
    const int fd = socket.release(ec);
    if (!ec) stream_.socket().assign(Unix(), fd, ec);
    ++shared_->connections;
  }
  ~Connection() {
    --shared_->connections;
    if (shared_->closed) shared_->closed();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    parser_->body_limit(kMaxBody);
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](ErrorCode ec, size_t) { self->on_read(ec); });
  }

 private:
  void on_read(ErrorCode ec) {
    if (ec == http::error::header_limit) return reply({431, R"({"error":"the request's head is too large"})"}, false);
    if (ec == http::error::body_limit) return reply({413, R"({"error":"the request's body is too large"})"}, false);
    const bool malformed = ec && ec.category() == http::make_error_code(http::error::bad_method).category() &&
                           ec != http::error::end_of_stream && ec != http::error::partial_message;
    if (malformed) return reply({400, R"({"error":"not an HTTP request"})"}, false);
    if (ec) return;
    const auto& request = parser_->get();
    const AdminReply answer = shared_->handler({std::string(request.method_string()), std::string(request.target())});
    reply(answer, request.keep_alive());
  }

  void reply(const AdminReply& answer, bool keep_alive) {
    response_ = {};
    response_.result(answer.status);
    response_.set(http::field::content_type, "application/json");
    response_.set(http::field::cache_control, "no-store");
    response_.keep_alive(keep_alive);
    response_.body() = answer.body;
    response_.prepare_payload();
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
    if (accepting || !acceptor.is_open() || shared->connections >= kMaxConnections) return;
    accepting = true;
    acceptor.async_accept([this](ErrorCode ec, Unix::socket socket) {
      accepting = false;
      if (ec == asio::error::operation_aborted) return;
      if (ec) return accept_later();
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
  impl_->shared->closed = [impl = impl_.get()] { impl->accept(); };
  impl_->accept();
  impl_->thread = std::thread([impl = impl_.get()] {
    pthread_setname_np(pthread_self(), "admin");
    impl->context.run();
  });
}

void AdminHttp::stop() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->shared->closed = nullptr;  // connections end with the context, after the acceptor
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  if (!impl_->path.empty()) ::unlink(impl_->path.c_str());
  impl_->path.clear();
}

}  // namespace zvolt::daemon
