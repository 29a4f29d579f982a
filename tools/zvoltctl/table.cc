// See table.h.
#include "tools/zvoltctl/table.h"

#include <algorithm>
#include <cstdio>

namespace zvolt::control {
namespace {

// Columns on the screen, not bytes: continuation bytes of UTF-8 take none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

Table::Table(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    right_.push_back(!title.empty() && title[0] == '>');
    if (right_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

std::string Table::text() const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      const std::string fill(widths[i] - width_of(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? fill + row[i] : row[i] + fill;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return formatted(unit == 0 || whole ? "%.0f " : "%.1f ", value) + kUnits[unit];
}

std::string microseconds_text(double us) {
  if (us < 1000) return formatted(us < 10 ? "%.1f us" : "%.0f us", us);
  if (us < 1'000'000) return formatted("%.1f ms", us / 1000);
  return formatted("%.1f s", us / 1'000'000);
}

}  // namespace zvolt::control
