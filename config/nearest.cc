// See nearest.h.
#include "config/nearest.h"

#include <algorithm>

namespace zvolt::config {

// Damerau-Levenshtein (optimal string alignment) with three rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongestWord = 64;  // longer ones are no typing errors, and the distance is quadratic
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace zvolt::config
