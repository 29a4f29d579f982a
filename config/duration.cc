// See duration.h.
#include "config/duration.h"

namespace zvolt::config {
namespace {

struct TimeUnit {
  std::string_view name;
  uint64_t ms;
};
// Largest first; of two names of one unit the first is written.
constexpr TimeUnit kTimeUnits[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000},
                                   {"m", 60'000},     {"s", 1000},      {"ms", 1}};

}  // namespace

std::optional<uint64_t> parse_duration(std::string_view text) {
  constexpr size_t kMaxDigits = 12;  // keeps the product within 64 bits
  size_t digits = 0;
  uint64_t n = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits == kMaxDigits) return std::nullopt;
    n = n * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  if (digits == 0) return std::nullopt;
  std::string_view unit = text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (digits == text.size()) return __builtin_mul_overflow(n, uint64_t{1000}, &n) ? std::nullopt : std::optional(n);
  for (const TimeUnit& known : kTimeUnits)
    if (unit == known.name) return __builtin_mul_overflow(n, known.ms, &n) ? std::nullopt : std::optional(n);
  return std::nullopt;
}

std::string format_duration(uint64_t ms) {
  if (ms == 0) return "0s";
  for (const TimeUnit& unit : kTimeUnits)
    if (ms % unit.ms == 0) return std::to_string(ms / unit.ms) + std::string(unit.name);
  return std::to_string(ms) + "ms";
}

}  // namespace zvolt::config
