// The transfer of a media range in pieces: READ, WRITE, and VERIFY of data that the host sends. media_range() is the
// one place where LBA and length of any command are checked. Shard thread only; no lock, no allocation for READ and
// WRITE. SBC-3 4.5 (LBAs), 5.8-5.11, 5.32-5.35.
#pragma once

#include "scsi/task.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

// The LBA and the number of blocks are on the unit, no command starts at its end or beyond, even for 0 blocks.
// False: the task has been refused with 05/21/00.
bool media_range(const UnitCall& call, uint64_t lba, uint64_t blocks);

// At most `most` blocks. False: refused with 05/24/00 and a pointer to the length field.
bool length_allowed(const UnitCall& call, uint64_t blocks, uint64_t most);
// The position of the length field of an LBA command, for field pointers.
uint16_t length_field_at(const UnitCall& call);

// True: the range is held (hold_range), the task waits, and its handler will run again.
bool held_back(const UnitCall& call, uint64_t lba, uint64_t blocks);

// Sets media_offset and transfer_length.
void set_media(const UnitCall& call, uint64_t lba, uint64_t blocks);

bool start_media_io(Task& task, MediaIo& io);
void finish_media(Task& task);
// The last step of every command that changed the medium: flushes where the unit's durability contract asks for it.
void finish_write(Task& task);

}  // namespace zvolt::scsi
