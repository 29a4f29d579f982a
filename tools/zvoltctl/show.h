// JSON replies of the admin endpoint as text for people. Pure functions; a reply of an unexpected shape gives empty
// cells.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace zvolt::control {

std::string show_status(const nlohmann::json& reply);
std::string show_luns(const nlohmann::json& reply);
std::string show_sessions(const nlohmann::json& reply);
std::string show_stats(const nlohmann::json& reply);

}  // namespace zvolt::control
