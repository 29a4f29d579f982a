// Journals as JSON for the admin endpoint: /api/journals, and the part of /api/luns that is a volume's. Any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "target/daemon/journals.h"

namespace zvolt::daemon {

nlohmann::json journals_json(const Journals& journals, const std::vector<OpenVolume>& volumes);
// Null: the volume has no journal.
nlohmann::json journal_of_volume_json(const OpenVolume& volume);

}  // namespace zvolt::daemon
