// See template.h.
#include "config/template.h"

namespace zvolt::config {
namespace {

// A %d or %0Nd: where it is and how wide.
struct Field {
  size_t at = 0;
  size_t length = 0;
  unsigned width = 0;
};

std::optional<Field> field_at(const std::string& text, size_t percent) {
  size_t at = percent + 1;
  unsigned width = 0;
  if (at + 1 < text.size() && text[at] == '0' && text[at + 1] >= '1' && text[at + 1] <= '9') {
    width = static_cast<unsigned>(text[at + 1] - '0');
    at += 2;
  }
  if (at >= text.size() || text[at] != 'd') return std::nullopt;
  return Field{percent, at + 1 - percent, width};
}

}  // namespace

bool has_percent(const std::string& text) {
  return text.find('%') != std::string::npos;
}

std::string check_pattern(const std::string& text) {
  const size_t percent = text.find('%');
  if (percent == std::string::npos) return "it needs a place for the number: %d, or %03d for 001";
  const auto field = field_at(text, percent);
  if (!field) return "the place of the number is written %d, or %01d to %09d; nothing else may follow a '%'";
  if (text.find('%', percent + 1) != std::string::npos) return "it has more than one '%'";
  return {};
}

std::string expand(const std::string& text, uint64_t number) {
  const size_t percent = text.find('%');
  if (percent == std::string::npos) return text;
  const auto field = field_at(text, percent);
  if (!field) return text;
  std::string digits = std::to_string(number);
  if (digits.size() < field->width) digits.insert(0, field->width - digits.size(), '0');
  return text.substr(0, field->at) + digits + text.substr(field->at + field->length);
}

}  // namespace zvolt::config
