// The nearest of a few valid words to one that was mistyped. Pure function, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zvolt::config {

// Empty when nothing is near: more than a third of the letters would have to change (at least one may).
std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// Edit distance with insert, delete, replace and swap of neighbours.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace zvolt::config
