// See logging.h.
#include "target/daemon/logging.h"

#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace zvolt::daemon {
namespace {

constexpr size_t kQueuedLines = 8192;  // about 2 MiB; a burst of warnings fits, a broken pipe does not fill memory

// Control characters in a text line would let a peer's name forge log lines.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

class PrintableFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableFlag>(); }
};

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    using std::chrono::duration_cast;
    const auto since = message.time.time_since_epoch();
    const auto seconds = duration_cast<std::chrono::seconds>(since);
    const auto micros = duration_cast<std::chrono::microseconds>(since - seconds).count();
    const std::time_t time = seconds.count();
    std::tm utc{};
    gmtime_r(&time, &utc);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(out), R"({{"time":"{}.{:06}Z","level":"{}","thread":{},"message":"{}"}})", stamp,
                   micros, std::string_view(level.data(), level.size()), message.thread_id,
                   json_escaped({message.payload.data(), message.payload.size()}));
    out.push_back('\n');
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

std::unique_ptr<spdlog::formatter> make_formatter(bool json) {
  if (json) return std::make_unique<JsonFormatter>();
  auto text = std::make_unique<spdlog::pattern_formatter>();
  text->add_flag<PrintableFlag>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %*");
  return text;
}

}  // namespace

std::string json_escaped(std::string_view text) {
  const std::string quoted =
      nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

void start_logging(const std::string& level, bool json) {
  spdlog::init_thread_pool(kQueuedLines, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::async_logger>("zvoltd", std::move(sink), spdlog::thread_pool(),
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->set_formatter(make_formatter(json));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
}

void stop_logging() {
  spdlog::shutdown();
}

}  // namespace zvolt::daemon
