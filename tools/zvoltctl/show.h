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
std::string show_journals(const nlohmann::json& reply);
std::string show_plan(const nlohmann::json& reply);    // what would change, and what is wrong with the file
std::string show_apply(const nlohmann::json& reply);   // what was done and what was not
std::string show_volume(const nlohmann::json& reply);  // offline, online, resize, flush, discard

}  // namespace zvolt::control
