"""The I/O engine on real zvols: ring and own threads, with zvol_use_blk_mq 0 and 1. Runs only when named; figures, and the one
check that every case ran. Under emulation only ratios within a run mean anything. Needs zvolt-engine-bench beside zvoltd."""

import base64
import collections
import os
import statistics
import subprocess

from vmlib.scenario import scenario

ROUNDS = 3
SECONDS = 1.5
PIECE = 60000  # bytes of base64 in one request to the agent; a multiple of 4


def put_program(t, path, destination):
    """Through the agent, compressed: it is not part of the RAM disk that the other scenarios use."""
    subprocess.run(["strip", "-o", os.path.join(t.vm.folder, "program"), path], check=True)
    packed = subprocess.run(["gzip", "-9c", os.path.join(t.vm.folder, "program")], stdout=subprocess.PIPE, check=True).stdout
    text = base64.b64encode(packed).decode()
    t.vm.sh("rm -f /tmp/packed")
    for at in range(0, len(text), PIECE):
        t.vm.sh(f"printf %s {text[at:at + PIECE]} | base64 -d >> /tmp/packed")
    t.vm.sh(f"gunzip -c /tmp/packed > {destination}; chmod 755 {destination}")


@scenario(optional=True)
def engines(t):
    """CPU per operation and IOPS of the ring and of own threads on a zvol, with and without zvol_use_blk_mq."""
    put_program(t, os.path.join(t.bin_dir, "zvolt-engine-bench"), "/tmp/bench")
    for mode in (0, 1):
        t.vm.sh(f"echo {mode} > /sys/module/zfs/parameters/zvol_use_blk_mq")
        name = f"tank/mq{mode}"
        t.create(name, "128M")
        device = t.device(name)
        t.vm.sh(f"dd if=/dev/zero of={device} bs=1M count=128 2>/dev/null; zpool sync tank")
        figures = collections.defaultdict(list)
        output = t.vm.sh(f"/tmp/bench {device} {ROUNDS} {SECONDS}", int(ROUNDS * SECONDS * 18 * 2 + 120))
        for line in output.splitlines()[1:]:
            engine, operation, size, *values = line.split()
            t.check(f"{line}", "ERROR" not in line)
            figures[(operation, int(size), engine)].append([float(value) for value in values[:3]])
        report(t, mode, figures)
    t.vm.sh("echo 0 > /sys/module/zfs/parameters/zvol_use_blk_mq")


def report(t, mode, figures):
    t.note(f"zvol_use_blk_mq={mode}: medians of {ROUNDS}: IOPS, CPU us per operation of the process and of the machine")
    for (operation, size, engine), rows in sorted(figures.items()):
        iops, process, machine = (statistics.median(column) for column in zip(*rows))
        t.note(f"{operation:<6}{size // 1024:>3} KiB {engine:<9}{iops:>8.0f} IOPS {process:>7.0f} {machine:>7.0f}")
