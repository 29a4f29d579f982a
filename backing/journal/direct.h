// Requests of a LUN that has left its journal: on to its store, counted, so that a hold (quiesce) can wait for them.
// Internal to backing/journal; on shards.
#pragma once

#include "backing/journal/core.h"

namespace zvolt::backing::journal {

// A write, write_zeroes or discard in mode direct. Waits while the LUN is held.
Submitted submit_direct(Core& core, Lun& lun, BlockStore& store, IoRequest& request, IoEngine& engine);

}  // namespace zvolt::backing::journal
