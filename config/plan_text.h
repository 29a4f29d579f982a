// A plan in words and as JSON. Called by the admin API and zvoltctl. Pure functions, thread-safe.
#pragma once

#include <string>

#include "config/plan.h"

namespace zvolt::config {

// One line per step ("+ vm1: ...", "! vm2: refused ..."), the sessions each touches below it, then a summary line.
std::string plan_text(const Plan& plan);

// {"refused", "destructive", "nothing", "steps": [{"kind", "subject", "text", ..., "sessions": [...]}], "sessions": []}
std::string plan_json(const Plan& plan);

}  // namespace zvolt::config
