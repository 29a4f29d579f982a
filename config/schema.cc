// See schema.h.
#include "config/schema.h"

#include <cstring>

#include "config/template.h"

namespace zvolt::config {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSecond = 1000;                 // milliseconds
constexpr uint64_t kMinBandwidth = kMiB;           // bytes/s: a command of 1 MiB would else last longer than hosts wait
constexpr uint64_t kMinIops = 10;                  // fewer, and a queue of 32 commands outlasts the hosts' time limits
constexpr uint64_t kMaxStore = uint64_t{1} << 62;  // bytes; offsets stay far from the sign bit of off_t

constexpr Key kJournalsKey = {.name = "journals",
                              .type = Type::map,
                              .doc = "Log devices by name; volumes refer to them with 'journal'.",
                              .table = &kJournalSchema,
                              .items = Items::maps};
constexpr Key kVolumesKey = {.name = "volumes",
                             .type = Type::map,
                             .doc = "Stores by name; targets refer to them.",
                             .table = &kVolumeSchema,
                             .items = Items::maps};
constexpr Key kTargetsKey = {
    .name = "targets", .type = Type::list, .doc = "iSCSI targets.", .table = &kTargetSchema, .items = Items::maps};
constexpr Key kIncludeKey = {
    .name = "include",
    .type = Type::list,
    .doc = "Further files with volumes and targets: paths relative to this file, also patterns such as vms/*.yaml.",
    .items = Items::texts};

constexpr Key kTop[] = {
    {.name = "listen",
     .type = Type::list,
     .doc = "Addresses to serve on: \"address:port\" or { address, group }.",
     .required = true,
     .table = &kListenSchema,
     .items = Items::maps_or_text},
    {.name = "state_dir",
     .type = Type::text,
     .doc = "Directory for what zvoltd must remember. Default /var/lib/zvolt."},
    {.name = "threads",
     .type = Type::number,
     .doc = "Shards, one thread each. Default auto: one per core.",
     .words = "auto",
     .min = 1,
     .max = 256},
    {.name = "memory",
     .type = Type::size,
     .doc = "Data buffers of all shards together. Default auto.",
     .words = "auto",
     .min = 16 * kMiB,
     .max = uint64_t{1} << 44},
    {.name = "admin", .type = Type::map, .doc = "The admin endpoint that zvoltctl talks to.", .table = &kAdminSchema},
    {.name = "log", .type = Type::map, .doc = "What is logged and how.", .table = &kLogSchema},
    {.name = "defaults",
     .type = Type::map,
     .doc = "Values for volumes that do not say otherwise.",
     .table = &kDefaultsSchema},
    kJournalsKey,
    kVolumesKey,
    kTargetsKey,
    kIncludeKey,
};

constexpr Key kIncluded[] = {kVolumesKey, kTargetsKey, kIncludeKey};

constexpr Key kListen[] = {
    {.name = "address",
     .type = Type::text,
     .doc = "\"address:port\"; the port is 3260 when left out.",
     .required = true},
    {.name = "group", .type = Type::number, .doc = "Target portal group tag. Default 1.", .min = 1, .max = 65535},
};

constexpr Key kAdmin[] = {
    {.name = "socket", .type = Type::text, .doc = "Path of the Unix socket. Default /run/zvolt/admin.sock."},
    {.name = "http",
     .type = Type::unknown,
     .doc = "TCP address of the admin endpoint.",
     .unsupported = "the admin endpoint answers on 'admin.socket' only"},
};

constexpr Key kLog[] = {
    {.name = "level",
     .type = Type::word,
     .doc = "Least severe level that is logged. Default info.",
     .words = "trace|debug|info|warning|error"},
    {.name = "json", .type = Type::boolean, .doc = "One JSON object per line instead of text. Default false."},
};

constexpr uint64_t kLeastJournal = 8 * kMiB;  // bytes; less is full before the first volblocks are written back

constexpr Key kJournal[] = {
    {.name = "path",
     .type = Type::text,
     .doc = "Device, partition or file that holds the log; an absolute path, best below /dev/disk/by-id.",
     .required = true},
    {.name = "provision",
     .type = Type::map,
     .doc = "Make the file when it is missing.",
     .table = &kJournalProvisionSchema},
    {.name = "memory",
     .type = Type::size,
     .doc = "Memory for data that is in the log and not in its store yet; also how much of the log is used at most. "
            "Default 256MiB.",
     .min = kLeastJournal,
     .max = uint64_t{1} << 40},
    {.name = "max_dirty_age",
     .type = Type::duration,
     .doc = "How long data stays out of its store at most, while that takes it. Default 2s.",
     .min = 10,
     .max = 600 * kSecond},
    {.name = "on_failure",
     .type = Type::word,
     .doc = "While the log cannot be used, its volumes write to their stores, or refuse writes. Default write_through.",
     .words = "write_through|read_only"},
    {.name = "lun_quota",
     .type = Type::number,
     .doc = "Percent of log and memory that one volume may hold while others want some. Default 50.",
     .min = 5,
     .max = 100},
    {.name = "faults",
     .type = Type::list,
     .doc = "Test stores: what goes wrong with the log, and when.",
     .table = &kFaultSchema,
     .items = Items::maps},
};

constexpr Key kJournalProvision[] = {
    {.name = "size",
     .type = Type::size,
     .doc = "Size of the file.",
     .min = kLeastJournal,
     .max = uint64_t{1} << 44,
     .required = true},
};

constexpr const char* kBlockSizeDoc = "Block size that hosts see. Default 512.";
constexpr const char* kPhysicalDoc = "Physical block size that hosts see. Default auto: the store's, at most 4096.";
constexpr const char* kSyncDoc = "When a write is acknowledged, as ZFS names it. Default standard.";

constexpr const char* kWaitDoc =
    "How long hosts are told to wait for a zvol or device that is not there (exported pool, late import) before it "
    "counts as lost. Default 5min.";
constexpr uint64_t kMaxWait = uint64_t{7} * 86'400 * kSecond;

constexpr Key kDefaults[] = {
    {.name = "block_size", .type = Type::word, .doc = kBlockSizeDoc, .words = "512|4096"},
    {.name = "physical_block_size", .type = Type::word, .doc = kPhysicalDoc, .words = "auto|512|4096|volblocksize"},
    {.name = "sync", .type = Type::word, .doc = kSyncDoc, .words = "standard|always|disabled"},
    {.name = "wait_for_device", .type = Type::duration, .doc = kWaitDoc, .max = kMaxWait},
};

constexpr Key kVolume[] = {
    {.name = "zvol", .type = Type::text, .doc = "A ZFS volume: pool/path."},
    {.name = "device", .type = Type::text, .doc = "A block device: an absolute path, best below /dev/disk/by-id."},
    {.name = "file", .type = Type::text, .doc = "A file: an absolute path."},
    {.name = "memory",
     .type = Type::size,
     .doc = "Memory of that size; its contents are gone after a restart.",
     .min = 4096,
     .max = kMaxStore},
    {.name = "null",
     .type = Type::size,
     .doc = "A store of that size that keeps nothing, for benchmarks.",
     .min = 4096,
     .max = kMaxStore},
    {.name = "provision",
     .type = Type::map,
     .doc = "Create the store when it is missing, and keep it at its size.",
     .table = &kProvisionSchema},
    {.name = "block_size", .type = Type::word, .doc = kBlockSizeDoc, .words = "512|4096"},
    {.name = "physical_block_size", .type = Type::word, .doc = kPhysicalDoc, .words = "auto|512|4096|volblocksize"},
    {.name = "sync", .type = Type::word, .doc = kSyncDoc, .words = "standard|always|disabled"},
    {.name = "read_only", .type = Type::boolean, .doc = "Refuse writes. Default false."},
    {.name = "force",
     .type = Type::boolean,
     .doc = "Open the store although something else uses it. Risks the data. Default false."},
    {.name = "uuid", .type = Type::text, .doc = "Identity of the LUN; made and kept by zvoltd when left out."},
    {.name = "faults",
     .type = Type::list,
     .doc = "Test stores: what goes wrong, and when.",
     .table = &kFaultSchema,
     .items = Items::maps},
    {.name = "journal",
     .type = Type::text,
     .doc = "Name of an entry of 'journals': writes go to that log first, and are acknowledged when they are there."},
    {.name = "limit",
     .type = Type::map,
     .doc = "Limits of this volume over all hosts, enforced by delay.",
     .table = &kLimitSchema},
    {.name = "wait_for_device", .type = Type::duration, .doc = kWaitDoc, .max = kMaxWait},
    {.name = "profile",
     .type = Type::unknown,
     .doc = "Settings for a kind of host.",
     .unsupported = "set 'block_size', 'physical_block_size' and 'sync' instead"},
    {.name = "count",
     .type = Type::number,
     .doc = "Make that many volumes (or LUNs) of this entry: name and store have a %d or %03d for the number.",
     .min = 1,
     .max = kMaxTemplateItems},
    {.name = "first",
     .type = Type::number,
     .doc = "Number of the first of 'count'. Default 1.",
     .max = uint64_t{1'000'000'000}},
    {.name = "on_remove",
     .type = Type::word,
     .doc = "What happens to the store of a volume that is removed from the configuration: it is kept.",
     .words = "keep"},
};

constexpr Key kProvision[] = {
    {.name = "size",
     .type = Type::size,
     .doc = "Size of the store. A smaller existing one grows to it; a larger one stays as it is.",
     .min = 4096,
     .max = kMaxStore},
    {.name = "volblocksize",
     .type = Type::size,
     .doc = "Block size of a new zvol, a power of two. Default: what ZFS chooses, 16KiB today.",
     .min = 512,
     .max = 16 * kMiB},
    {.name = "sparse",
     .type = Type::boolean,
     .doc = "Reserve no space in the pool for the zvol. Default false, as 'zfs create -V' does."},
    {.name = "properties",
     .type = Type::map,
     .doc = "Further ZFS properties of the zvol, such as compression: zstd.",
     .items = Items::texts},
    {.name = "clone_from", .type = Type::text, .doc = "Make the zvol as a clone of this snapshot: pool/path@snapshot."},
    {.name = "allow_shrink",
     .type = Type::boolean,
     .doc = "Let an edit to a smaller size cut the end off the store. Loses what is there. Default false."},
};

constexpr Key kLimit[] = {
    {.name = "iops",
     .type = Type::number,
     .doc = "Reads and writes per second.",
     .min = kMinIops,
     .max = uint64_t{1'000'000'000}},
    {.name = "bandwidth",
     .type = Type::rate,
     .doc = "Bytes per second that are read and written, such as 100MiB.",
     .min = kMinBandwidth,
     .max = uint64_t{1} << 44},
    {.name = "burst",
     .type = Type::duration,
     .doc = "So much of the limit may be used at once after idleness: with 10s, 500 IOPS are 5000 operations. "
            "Default 1s.",
     .max = 3600 * kSecond},
};

constexpr Key kFault[] = {
    {.name = "op",
     .type = Type::word,
     .doc = "Requests that the rule watches. Default any.",
     .words = "any|read|write|flush|write_zeroes|discard"},
    {.name = "action",
     .type = Type::word,
     .doc = "What happens to them.",
     .words = "delay|error|short|stall|lose_unflushed",
     .required = true},
    {.name = "offset",
     .type = Type::size,
     .doc = "Start of the range that the rule watches. Default 0.",
     .max = kMaxStore},
    {.name = "length",
     .type = Type::size,
     .doc = "Length of the range; 0, the default, is to the end.",
     .max = kMaxStore},
    {.name = "after", .type = Type::number, .doc = "Skip that many matching requests first."},
    {.name = "count", .type = Type::number, .doc = "Then act on that many; 0, the default, is for ever."},
    {.name = "bytes",
     .type = Type::size,
     .doc = "short: bytes that are done before the error. Default 0.",
     .max = kMaxStore},
    {.name = "delay_us", .type = Type::number, .doc = "delay: microseconds.", .max = uint64_t{600} * 1000 * 1000},
    {.name = "error", .type = Type::number, .doc = "error: errno. Default 5 (EIO).", .min = 1, .max = 133},
};

constexpr Key kTarget[] = {
    {.name = "name", .type = Type::text, .doc = "iSCSI name: iqn.YYYY-MM.domain:name, eui. or naa.", .required = true},
    {.name = "alias", .type = Type::text, .doc = "Description that initiators may show."},
    {.name = "groups",
     .type = Type::list,
     .doc = "Portal groups that offer the target. Default: all.",
     .items = Items::numbers},
    {.name = "auth",
     .type = Type::unknown,
     .doc = "CHAP.",
     .unsupported = "CHAP comes in a later version; restrict the target with 'initiators'"},
    {.name = "initiators",
     .type = Type::list,
     .doc = "Initiator names that may log in; a '*' at the end matches the rest.",
     .items = Items::texts},
    {.name = "allow_any", .type = Type::boolean, .doc = "Let every initiator in, also beyond loopback. Default false."},
    {.name = "luns",
     .type = Type::list,
     .doc = "Logical units.",
     .required = true,
     .table = &kLunSchema,
     .items = Items::maps},
    {.name = "profile",
     .type = Type::unknown,
     .doc = "Settings for a kind of host.",
     .unsupported = "set 'block_size', 'physical_block_size' and 'sync' of the volumes instead"},
    {.name = "limit",
     .type = Type::unknown,
     .doc = "Limits of IOPS and bandwidth.",
     .unsupported = "give the volumes a 'limit' instead"},
    {.name = "max_connections",
     .type = Type::unknown,
     .doc = "Connections per session.",
     .unsupported = "a session has one connection"},
    {.name = "alua", .type = Type::unknown, .doc = "Asymmetric access states.", .unsupported = "all paths are alike"},
};

constexpr Key kLun[] = {
    {.name = "lun", .type = Type::number, .doc = "Logical unit number.", .max = 16383, .required = true},
    {.name = "volume",
     .type = Type::text,
     .doc = "Name of an entry of 'volumes'; with 'count' a pattern such as vm-%03d."},
    {.name = "name", .type = Type::text, .doc = "Name of a volume that is described here."},
    {.name = "read_only", .type = Type::boolean, .doc = "Refuse writes through this mapping. Default false."},
};

}  // namespace

const Schema kTopSchema{"the configuration", kTop};
const Schema kIncludedSchema{"an included file", kIncluded, nullptr, &kTopSchema};
const Schema kListenSchema{"a listen address", kListen};
const Schema kAdminSchema{"'admin'", kAdmin};
const Schema kLogSchema{"'log'", kLog};
const Schema kDefaultsSchema{"'defaults'", kDefaults};
const Schema kJournalSchema{"a journal", kJournal};
const Schema kJournalProvisionSchema{"'provision' of a journal", kJournalProvision};
const Schema kVolumeSchema{"a volume", kVolume, nullptr, nullptr, "zvol|device|file|memory|null"};
const Schema kProvisionSchema{"'provision'", kProvision};
const Schema kLimitSchema{"'limit'", kLimit};
const Schema kFaultSchema{"a fault", kFault};
const Schema kTargetSchema{"a target", kTarget};
const Schema kLunSchema{"a LUN", kLun, &kVolumeSchema, nullptr, "volume|zvol|device|file|memory|null"};

const Key* find_key(const Schema& schema, const char* name) {
  for (const Key& key : schema.keys)
    if (std::strcmp(key.name, name) == 0) return &key;
  return schema.more == nullptr ? nullptr : find_key(*schema.more, name);
}

}  // namespace zvolt::config
