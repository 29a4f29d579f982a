// See client.h.
#include "tools/zvoltctl/client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

namespace zvolt::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Unix = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

constexpr uint64_t kMaxBody = uint64_t{256} << 20;  // bytes; statistics of thousands of LUNs

// Connect, write, read: each step starts the next; an error ends the chain.
class Exchange {
 public:
  Exchange(asio::io_context& context, const std::string& method, const std::string& target) : stream_(context) {
    request_.method_string(method);
    request_.target(target);
    request_.set(http::field::host, "zvoltd");
    request_.keep_alive(false);
    request_.prepare_payload();
    parser_.body_limit(kMaxBody);
  }

  void start(const std::string& path, std::chrono::seconds limit) {
    stream_.expires_after(limit);
    stream_.async_connect(Unix::endpoint(path), [this](ErrorCode ec) {
      if (ec) return fail("cannot connect", ec);
      http::async_write(stream_, request_, [this](ErrorCode failed, size_t) {
        if (failed) return fail("cannot send", failed);
        http::async_read(stream_, buffer_, parser_, [this](ErrorCode unread, size_t) {
          if (unread) fail("no answer", unread);
        });
      });
    });
  }

  Response take() {
    if (!error_.empty()) return {0, {}, error_};
    auto response = parser_.release();
    return {response.result_int(), std::move(response.body()), {}};
  }

 private:
  void fail(const char* what, ErrorCode ec) { error_ = std::string(what) + ": " + ec.message(); }

  beast::basic_stream<Unix> stream_;
  http::request<http::empty_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::flat_buffer buffer_;
  std::string error_;
};

}  // namespace

Response request(const std::string& socket_path, const std::string& method, const std::string& target,
                 std::chrono::seconds limit) {
  constexpr size_t kMaxSocketPath = 107;  // sockaddr_un without the final zero
  if (socket_path.empty() || socket_path.size() > kMaxSocketPath) return {0, {}, "the path has 1 to 107 bytes"};
  asio::io_context context(1);
  Exchange exchange(context, method, target);
  exchange.start(socket_path, limit);
  context.run();
  return exchange.take();
}

std::string url_encoded(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace zvolt::control
