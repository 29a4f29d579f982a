// See schema.h.
#include "config/schema.h"

#include <cstring>

namespace zvolt::config {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMaxStore = uint64_t{1} << 62;  // bytes; offsets stay far from the sign bit of off_t

constexpr Key kTop[] = {
    {.name = "listen",
     .type = Type::list,
     .doc = "Addresses to serve on: \"address:port\" or { address, group }.",
     .required = true},
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
    {.name = "admin", .type = Type::map, .doc = "The admin endpoint that zvoltctl talks to."},
    {.name = "log", .type = Type::map, .doc = "What is logged and how."},
    {.name = "defaults", .type = Type::map, .doc = "Values for volumes that do not say otherwise."},
    {.name = "journals",
     .type = Type::unknown,
     .doc = "Log devices.",
     .unsupported = "synchronous writes go to the store itself; the journal comes in a later version"},
    {.name = "volumes", .type = Type::map, .doc = "Stores by name; targets refer to them."},
    {.name = "targets", .type = Type::list, .doc = "iSCSI targets."},
    {.name = "include",
     .type = Type::unknown,
     .doc = "Further files.",
     .unsupported = "write everything into one file"},
};

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

constexpr const char* kBlockSizeDoc = "Block size that hosts see. Default 512.";
constexpr const char* kPhysicalDoc = "Physical block size that hosts see. Default auto: the store's, at most 4096.";
constexpr const char* kSyncDoc = "When a write is acknowledged, as ZFS names it. Default standard.";

constexpr Key kDefaults[] = {
    {.name = "block_size", .type = Type::word, .doc = kBlockSizeDoc, .words = "512|4096"},
    {.name = "physical_block_size", .type = Type::word, .doc = kPhysicalDoc, .words = "auto|512|4096|volblocksize"},
    {.name = "sync", .type = Type::word, .doc = kSyncDoc, .words = "standard|always|disabled"},
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
    {.name = "provision", .type = Type::map, .doc = "Create the store when it is missing."},
    {.name = "block_size", .type = Type::word, .doc = kBlockSizeDoc, .words = "512|4096"},
    {.name = "physical_block_size", .type = Type::word, .doc = kPhysicalDoc, .words = "auto|512|4096|volblocksize"},
    {.name = "sync", .type = Type::word, .doc = kSyncDoc, .words = "standard|always|disabled"},
    {.name = "read_only", .type = Type::boolean, .doc = "Refuse writes. Default false."},
    {.name = "force",
     .type = Type::boolean,
     .doc = "Open the store although something else uses it. Risks the data. Default false."},
    {.name = "uuid", .type = Type::text, .doc = "Identity of the LUN; made and kept by zvoltd when left out."},
    {.name = "faults", .type = Type::list, .doc = "Test stores: what goes wrong, and when."},
    {.name = "journal",
     .type = Type::unknown,
     .doc = "Log device of this volume.",
     .unsupported = "synchronous writes go to the store itself; the journal comes in a later version"},
    {.name = "limit",
     .type = Type::unknown,
     .doc = "Limits of IOPS and bandwidth.",
     .unsupported = "volumes are not limited"},
    {.name = "profile",
     .type = Type::unknown,
     .doc = "Settings for a kind of host.",
     .unsupported = "set 'block_size', 'physical_block_size' and 'sync' instead"},
    {.name = "count",
     .type = Type::unknown,
     .doc = "Many volumes from one entry.",
     .unsupported = "write one entry per volume"},
    {.name = "on_remove",
     .type = Type::unknown,
     .doc = "What happens to the store of a removed volume.",
     .unsupported = "a store is always kept"},
};

constexpr Key kProvision[] = {
    {.name = "size",
     .type = Type::size,
     .doc = "Size of a new file, which is sparse. An existing file keeps its size.",
     .min = 4096,
     .max = kMaxStore,
     .required = true},
    {.name = "volblocksize",
     .type = Type::unknown,
     .doc = "Block size of a new zvol.",
     .unsupported = "zvols are not created yet"},
    {.name = "sparse",
     .type = Type::unknown,
     .doc = "Reserve no space for a new zvol.",
     .unsupported = "zvols are not created yet, and files are always sparse"},
    {.name = "properties",
     .type = Type::unknown,
     .doc = "ZFS properties of a new zvol.",
     .unsupported = "zvols are not created yet"},
    {.name = "clone_from",
     .type = Type::unknown,
     .doc = "Snapshot to clone.",
     .unsupported = "zvols are not created yet"},
    {.name = "allow_shrink",
     .type = Type::unknown,
     .doc = "Allow a smaller size.",
     .unsupported = "an existing store keeps its size"},
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
    {.name = "groups", .type = Type::list, .doc = "Portal groups that offer the target. Default: all."},
    {.name = "auth",
     .type = Type::unknown,
     .doc = "CHAP.",
     .unsupported = "CHAP comes in a later version; restrict the target with 'initiators'"},
    {.name = "initiators",
     .type = Type::list,
     .doc = "Initiator names that may log in; a '*' at the end matches the rest."},
    {.name = "allow_any", .type = Type::boolean, .doc = "Let every initiator in, also beyond loopback. Default false."},
    {.name = "luns", .type = Type::list, .doc = "Logical units.", .required = true},
    {.name = "profile",
     .type = Type::unknown,
     .doc = "Settings for a kind of host.",
     .unsupported = "set 'block_size', 'physical_block_size' and 'sync' of the volumes instead"},
    {.name = "limit",
     .type = Type::unknown,
     .doc = "Limits of IOPS and bandwidth.",
     .unsupported = "targets are not limited"},
    {.name = "max_connections",
     .type = Type::unknown,
     .doc = "Connections per session.",
     .unsupported = "a session has one connection"},
    {.name = "alua", .type = Type::unknown, .doc = "Asymmetric access states.", .unsupported = "all paths are alike"},
};

constexpr Key kLun[] = {
    {.name = "lun", .type = Type::number, .doc = "Logical unit number.", .max = 16383, .required = true},
    {.name = "volume", .type = Type::text, .doc = "Name of an entry of 'volumes'."},
    {.name = "name", .type = Type::text, .doc = "Name of a volume that is described here."},
    {.name = "read_only", .type = Type::boolean, .doc = "Refuse writes through this mapping. Default false."},
};

}  // namespace

const Schema kTopSchema{"the configuration", kTop};
const Schema kListenSchema{"a listen address", kListen};
const Schema kAdminSchema{"'admin'", kAdmin};
const Schema kLogSchema{"'log'", kLog};
const Schema kDefaultsSchema{"'defaults'", kDefaults};
const Schema kVolumeSchema{"a volume", kVolume};
const Schema kProvisionSchema{"'provision'", kProvision};
const Schema kFaultSchema{"a fault", kFault};
const Schema kTargetSchema{"a target", kTarget};
const Schema kLunSchema{"a LUN", kLun, &kVolumeSchema};

const Key* find_key(const Schema& schema, const char* name) {
  for (const Key& key : schema.keys)
    if (std::strcmp(key.name, name) == 0) return &key;
  return schema.more == nullptr ? nullptr : find_key(*schema.more, name);
}

}  // namespace zvolt::config
