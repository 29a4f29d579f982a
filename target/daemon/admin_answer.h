// What the handlers of the admin endpoint have in common: the query of a request, and an answer in JSON. Used by
// admin_api.cc and admin_orders.cc. Pure, no threading rule.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "target/daemon/apply.h"

namespace zvolt::daemon {

using Query = std::map<std::string, std::string>;
Query parse_query(std::string_view text);  // "lun=a%2Fb&size=3"

// What a handler says: JSON, or what is wrong with the request.
struct Answer {
  unsigned status = 200;
  nlohmann::json body;
};
Answer volume_answer(const VolumeReport& report);
std::string value_of(const Query& query, const std::string& key);  // empty when it is not there
Answer refuse(unsigned status, const std::string& why);

// Orders; each may block. See README.md for what they take and answer.
Answer plan_order(Control& control, const Query& query);
Answer apply_order(Control& control, const Query& query);
Answer offline_order(Control& control, const Query& query);
Answer online_order(Control& control, const Query& query);
Answer resize_order(Control& control, const Query& query);
Answer flush_order(Control& control, const Query& query);
Answer discard_order(Control& control, const Query& query);
// admin_freeze.cc
Answer freeze_order(Control& control, const Query& query);
Answer thaw_order(Control& control, const Query& query);
void end_freezes();  // the daemon ends: writes go on, and no freeze uses the Control any more

}  // namespace zvolt::daemon
