"""Block size awareness (what hosts are told) and exact unmapping, on zvols of several volblocksizes."""

from vmlib.scenario import scenario

VOLBLOCKS = (8192, 16384, 32768, 65536, 131072)
FILL = 0xA5

# How a zvol presents itself (OpenZFS 2.3, Linux 6.1). A zfs that differs fails here first, and tells why others fail.
PRESENTATION = {
    "logical_block_size": lambda v: 512, "physical_block_size": lambda v: v, "minimum_io_size": lambda v: v,
    "optimal_io_size": lambda v: 32 << 20, "discard_granularity": lambda v: v, "discard_max_bytes": lambda v: v * 16384,
    "write_zeroes_max_bytes": lambda v: 0, "discard_zeroes_data": lambda v: 0, "rotational": lambda v: 0, "fua": lambda v: 1,
}


@scenario()
def zvol_geometry(t):
    """A zvol presents itself as zvolt expects: block sizes, discard granularity and limits in sysfs."""
    for volblock in (512, 4096, *VOLBLOCKS):
        name = f"tank/g{volblock}"
        t.create(name, "64M", f"-s -o volblocksize={volblock}")
        device = t.device(name).split("/")[-1]
        values = t.vm.sh(f"cd /sys/block/{device}/queue; cat {' '.join(PRESENTATION)}").split()
        for (attribute, wanted), got in zip(PRESENTATION.items(), values):
            t.equal(f"{attribute} at volblocksize {volblock}", int(got), wanted(volblock))
        t.equal("write cache", t.vm.sh(f"cat /sys/block/{device}/queue/write_cache"), "write back")


@scenario()
def reporting(t):
    """What hosts see (READ CAPACITY, B0, B2) for volblocksize 8K to 128K x block_size 512 and 4096, clamped and not."""
    luns = []
    for block in (512, 4096):
        for volblock in VOLBLOCKS:
            t.create(f"tank/r{block}-{volblock}", "64M", f"-s -o volblocksize={volblock}")
            luns.append((block, volblock, "auto"))
    t.create("tank/rv", "64M", "-s -o volblocksize=16K")
    luns.append((512, 16384, "volblocksize"))
    lines = [f"{{ lun: {n}, zvol: tank/{'rv' if physical != 'auto' else f'r{block}-{volblock}'}, block_size: {block}, "
             f"physical_block_size: {physical} }}" for n, (block, volblock, physical) in enumerate(luns)]
    t.daemon.start_with(lines)
    t.note("vbs    block  exponent  B0: granularity  optimal  unmap granularity  max unmap")
    with t.daemon.login(luns=range(len(luns))) as host:
        for lun, (block, volblock, physical) in enumerate(luns):
            compare_reporting(t, host, lun, block, volblock, physical)


def compare_reporting(t, host, lun, block, volblock, physical):
    where = f"volblocksize {volblock}, block_size {block}, physical {physical}"
    capacity, limits, thin = host.read_capacity(lun), host.block_limits(lun), host.provisioning(lun)
    exposed = min(4096, volblock) if physical == "auto" else volblock
    t.equal(f"capacity, {where}", capacity["blocks"] * capacity["block"], 64 << 20)
    t.equal(f"block size, {where}", capacity["block"], block)
    t.equal(f"physical blocks, {where}", block << capacity["physical_exponent"], exposed)
    t.equal(f"lowest aligned block, {where}", capacity["lowest_aligned"], 0)
    t.equal(f"LBPME and LBPRZ, {where}", (capacity["lbpme"], capacity["lbprz"]), (1, 1))
    t.equal(f"optimal transfer length granularity, {where}", limits["granularity"] * block, volblock)
    t.equal(f"optimal transfer length is whole volblocks, {where}", limits["optimal_transfer"] * block % volblock, 0)
    t.check(f"optimal transfer length about 1 MiB, {where}", 512 << 10 <= limits["optimal_transfer"] * block <= 2 << 20, limits)
    t.equal(f"unmap granularity, {where}", limits["unmap_granularity"] * block, volblock)
    t.equal(f"unmap alignment is valid and 0, {where}", (limits["alignment_valid"], limits["unmap_alignment"]), (1, 0))
    t.check(f"unmap count is bounded, {where}", 0 < limits["max_unmap"] <= 1 << 20, limits)
    t.equal(f"UNMAP, WRITE SAME with UNMAP, thin, {where}", (thin["lbpu"], thin["lbpws"], thin["type"]), (1, 1, 2))
    t.note(f"{volblock:<7}{block:<7}{capacity['physical_exponent']:<10}{limits['granularity']:<17}{limits['optimal_transfer']:<9}"
           f"{limits['unmap_granularity']:<19}{limits['max_unmap']}")


@scenario()
def unmap(t):
    """UNMAP and WRITE SAME are exact to the block, where BLKDISCARD leaves partly covered volblocks; the space comes back."""
    for volblock in (16384, 65536, 131072):
        name = f"tank/u{volblock}"
        t.create(name, "64M", f"-s -o volblocksize={volblock}")
    t.daemon.start_with([f"{{ lun: {n}, zvol: tank/u{v} }}" for n, v in enumerate((16384, 65536, 131072))])
    with t.daemon.login(luns=(0, 1, 2)) as host:
        for lun, volblock in enumerate((16384, 65536, 131072)):
            exact_ranges(t, host, lun, volblock)
            space(t, host, lun, f"tank/u{volblock}")
    with t.daemon.login(isid=2) as host:
        state = host.lba_status(0)
        t.check("GET LBA STATUS says mapped: a zvol does not tell", bool(state) and all(mapped for _, _, mapped in state), state)


def exact_ranges(t, host, lun, volblock):
    """Ranges around volblock borders; the model is a byte array."""
    span = 8 * volblock
    model = bytearray([FILL]) * span
    t.sense("fill", fill(host, lun, 0, bytes(model)), "GOOD")
    ranges = [(512, 512), (volblock - 512, 1024), (2 * volblock, volblock), (3 * volblock + 1536, 2 * volblock),
              (6 * volblock - 512, 512), (6 * volblock, 512)]
    for offset, length in ranges:
        t.sense(f"UNMAP {offset}+{length} at volblocksize {volblock}", host.unmap([(offset, length)], lun), "GOOD")
        model[offset:offset + length] = bytes(length)
    t.check(f"exactly those ranges read zero, volblocksize {volblock}", read_all(host, lun, span) == bytes(model))

    t.sense("fill again", fill(host, lun, 0, bytes([FILL]) * span), "GOOD")
    t.sense("UNMAP of all ranges in one command", host.unmap(ranges, lun), "GOOD")
    t.check("and together", read_all(host, lun, span) == bytes(model))
    offset, length = volblock + 512, 3 * volblock
    t.sense("WRITE SAME with UNMAP", host.write_same(offset, length, bytes(512), lun, unmap=True), "GOOD")
    model[offset:offset + length] = bytes(length)
    block = bytes(range(256)) * 2
    t.sense("WRITE SAME of a pattern", host.write_same(offset + 512, 2048, block, lun), "GOOD")
    model[offset + 512:offset + 2560] = block * 4
    t.check("WRITE SAME is exact", read_all(host, lun, span) == bytes(model))


def space(t, host, lun, name):
    t.vm.sh("zpool sync tank")
    before = t.number(name, "referenced")
    t.sense("fill 24 MiB", fill(host, lun, 8 << 20, bytes([FILL]) * (24 << 20)), "GOOD")
    t.vm.sh("zpool sync tank")
    full = t.number(name, "referenced")
    t.check(f"{name}: 24 MiB are used", full - before > 23 << 20, f"{before} to {full}")
    t.sense("UNMAP 24 MiB but a block at both ends", host.unmap([((8 << 20) + 512, (24 << 20) - 1024)], lun), "GOOD")
    t.vm.sh("zpool sync tank; sleep 1; zpool sync tank")
    left = t.number(name, "referenced")
    t.check(f"{name}: the space comes back", left - before < 1 << 20, f"referenced {before}, full {full}, after UNMAP {left}")
    t.check(f"{name}: both ends are kept", host.read(8 << 20, 512, lun).data == bytes([FILL]) * 512
            and host.read((32 << 20) - 512, 512, lun).data == bytes([FILL]) * 512)


def fill(host, lun, offset, data, step=1 << 20):
    result = None
    for at in range(0, len(data), step):
        result = host.write(offset + at, data[at:at + step], lun)
        if not result.good:
            break
    return result


def read_all(host, lun, length, step=1 << 20):
    return b"".join(host.read(at, min(step, length - at), lun).data for at in range(0, length, step))


@scenario()
def small_store_blocks(t):
    """A 512-byte write into a 128K volblock changes that block alone, also beside writes of its neighbours."""
    t.create("tank/s", "64M", "-s -o volblocksize=128K")
    t.daemon.start_with(["{ lun: 0, zvol: tank/s }"])
    model = bytearray(256 << 10)
    with t.daemon.login() as host:
        tags = []
        for n in range(0, len(model), 3 * 512):
            block = bytes([n // 512 % 251 + 1]) * 512
            model[n:n + 512] = block[:len(model) - n]
            tags.append(host.submit(0, host.write_cdb(n, 512), block))
            if len(tags) == 16:
                t.check("writes", all([host.wait(tag).good for tag in tags]))
                tags = []
        t.check("writes", all([host.wait(tag).good for tag in tags]))
        t.check("each block as written", read_all(host, 0, len(model)) == bytes(model))
