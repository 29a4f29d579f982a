// Plain tables for people: columns as wide as their widest cell, numbers to the right. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zvolt::control {

class Table {
 public:
  // Titles; one that starts with '>' is a column of numbers.
  explicit Table(std::vector<std::string> titles);
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the first holds the titles
};

std::string bytes_text(uint64_t bytes);    // "1.5 GiB"
std::string microseconds_text(double us);  // "85", "1.2 ms", "3.4 s"

}  // namespace zvolt::control
