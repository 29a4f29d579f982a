// The command handlers that the command table names, by the file they live in. Each gets a UnitCall whose CDB is
// decoded and whose common checks are done (control byte, unit attention, write protection), and settles the task.
#pragma once

#include "scsi/unit_call.h"

namespace zvolt::scsi {

// inquiry.cc, inquiry_vpd.cc
void inquiry(const UnitCall& call);
void inquiry_vpd(const UnitCall& call, uint8_t page);

// unit_commands.cc: about the unit and its nexus
void test_unit_ready(const UnitCall& call);
void request_sense(const UnitCall& call);
void start_stop_unit(const UnitCall& call);
void report_luns(const UnitCall& call);
void read_capacity_10(const UnitCall& call);
void read_capacity_16(const UnitCall& call);

// mode.cc
void mode_sense_6(const UnitCall& call);
void mode_sense_10(const UnitCall& call);

// media.cc: READ, WRITE, SYNCHRONIZE CACHE of any length
void read_media(const UnitCall& call);
void write_media(const UnitCall& call);
void synchronize_cache(const UnitCall& call);

// lba_status.cc
void get_lba_status(const UnitCall& call);

// verify.cc
void verify_medium(const UnitCall& call);
void verify_pattern(const UnitCall& call);  // data-out of BYTCHK=3

// unmap.cc
void unmap(const UnitCall& call);
void unmap_list(const UnitCall& call);

// write_same.cc
void write_same(const UnitCall& call);
void write_same_data(const UnitCall& call);

// report_opcodes.cc
void report_supported_operation_codes(const UnitCall& call);

}  // namespace zvolt::scsi
