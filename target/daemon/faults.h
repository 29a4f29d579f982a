// Test stores: `faults:` of the configuration as a FaultStore around the real one. Called by the composition root; the
// loader accepts the key with zvoltd --test-stores only.
#pragma once

#include <memory>
#include <vector>

#include "backing/fault_store.h"
#include "config/model.h"

namespace zvolt::daemon {

Result<std::shared_ptr<backing::FaultStore>> with_faults(std::shared_ptr<backing::BlockStore> store,
                                                         const std::vector<config::FaultRule>& rules);

// Rules in place of those that it has.
Result<void> change_faults(backing::FaultStore& store, const std::vector<config::FaultRule>& rules);

}  // namespace zvolt::daemon
