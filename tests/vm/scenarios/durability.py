"""Durability on a real ZIL: how many commits a durable write costs, what sync=disabled does, and power cuts."""

from vmlib import numbered
from vmlib.scenario import scenario

from .administration import becomes, past_attentions

MIB = 1 << 20
COMMITS = "awk '$1 == \"zil_commit_count\" { print $3 }' /proc/spl/kstat/zfs/zil"
SECONDS_OF_WRITES = 8


def commits(t, action):
    """ZIL commits during the action."""
    before = int(t.vm.sh(COMMITS))
    action()
    return int(t.vm.sh(COMMITS)) - before


@scenario()
def zil_commits(t):
    """One ZIL commit for a durable write and fewer for a burst; none for a write that nobody flushes; one for a flush."""
    t.create("tank/always", "64M")
    t.create("tank/standard", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/always, sync: always }", "{ lun: 1, zvol: tank/standard }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.equal("sync: always says no write cache", host.caching(0)[0], 0)
        t.equal("sync: standard says write cache", host.caching(1)[0], 1)
        for lun in (0, 1):  # the first write makes the ZIL
            t.sense("warm up", host.write(0, bytes(16384), lun, fua=True), "GOOD")

        def singles(lun, fua=False):
            return lambda: [t.sense("write", host.write(n * 16384, b"\x11" * 16384, lun, fua=fua), "GOOD") for n in range(16)]

        def burst():
            tags = [host.submit(0, host.write_cdb(n * 16384, 16384), b"\x22" * 16384) for n in range(64)]
            t.check("burst", all([host.wait(tag).good for tag in tags]))

        count = commits(t, singles(0))
        t.check("16 durable writes: one commit each", 16 <= count <= 18, count)
        count = commits(t, singles(1, fua=True))
        t.check("16 writes with FUA: one commit each, not three", 16 <= count <= 18, count)
        count = commits(t, burst)
        t.check("64 durable writes in a burst share commits", 1 <= count <= 64, count)
        t.note(f"64 durable writes of 16 KiB at once: {count} ZIL commits")
        count = commits(t, singles(1))
        t.check("16 writes that nobody flushes: none", count <= 1, count)
        count = commits(t, lambda: t.sense("flush", host.synchronize_cache(1), "GOOD"))
        t.check("a flush: one", 1 <= count <= 2, count)


@scenario()
def sync_disabled(t):
    """ZFS's sync=disabled: a LUN that promises durability does not serve on it, from the start and at run time."""
    t.create("tank/a", "64M")
    t.create("tank/b", "64M", "-s -o sync=disabled")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a, sync: always }", "{ lun: 1, zvol: tank/b, sync: always }",
                         "{ lun: 2, name: c, memory: 16MiB }"])
    with t.daemon.login(luns=(0, 2)) as host:
        t.sense("a good one is served", host.write(0, bytes(4096), 0), "GOOD")
        t.check("one on sync=disabled is not", not past_attentions(host, lambda: host.write(0, bytes(4096), 1)).good)
        t.check("and it is said", "sync=disabled" in t.daemon.ctl("status").output + t.daemon.ctl("luns").output + t.daemon.log())
        t.vm.sh("zfs set sync=standard tank/b")
        becomes(t, "it is served when that was changed", host, 1, "GOOD", 30)
        t.vm.sh("zfs set sync=disabled tank/a")
        t.eventually("a change at run time is noticed", lambda: not past_attentions(host, lambda: host.write(0, bytes(4096), 0)).good, 30)
        t.sense("other LUNs go on", host.write(0, bytes(4096), 2), "GOOD")
        t.vm.sh("zfs set sync=standard tank/a")
        becomes(t, "and back", host, 0, "GOOD", 30)


def start_writers(t, isid):
    """Two on a sync: always LUN, one that flushes on a standard LUN, one that never does."""
    plan = [(0, 0, True, 0), (0, 8192, True, 0), (1, 0, False, 50), (2, 0, False, 0)]
    writers = []
    for number, (lun, first, durable, flush_every) in enumerate(plan):
        session = t.daemon.login(isid=isid + number, luns=(lun,))
        writers.append(numbered.Writer(session, number, lun, first, 4096, durable, flush_every))
    return writers


@scenario(taints=True)
def power_cut(t):
    """kill -9 of the machine in the middle of writes, twice: nothing acknowledged as durable is lost, no block is torn."""
    luns = ["{ lun: 0, zvol: tank/always, sync: always }", "{ lun: 1, zvol: tank/standard }", "{ lun: 2, zvol: tank/never }"]
    for name in ("always", "standard", "never"):
        t.create(f"tank/{name}", "128M")
    t.daemon.start_with(luns)
    writers = start_writers(t, 1)
    for cut in range(2):
        # No transaction group by time: what only memory has is lost for certain, so that a missing flush shows.
        t.vm.sh("zpool sync tank; echo 600 > /sys/module/zfs/parameters/zfs_txg_timeout")
        numbered.run(writers, SECONDS_OF_WRITES)
        pending = sum(len(writer.in_flight) for writer in writers)
        t.vm.power_cut()
        for writer in writers:
            writer.session.close()
        t.note(f"cut {cut + 1}: {sum(w.writes for w in writers)} writes acknowledged, {pending} in flight, "
               f"{sum(w.flushes for w in writers)} flushes")
        t.vm.boot(fresh_disks=False)
        t.vm.sh("/lib/systemd/systemd-udevd --daemon; udevadm trigger --action=add --subsystem-match=block; udevadm settle -t 30; "
                "zpool import -f -d /dev/vda1 -d /dev/vdb1 tank; udevadm settle -t 30")
        t.check("the pool is healthy", "healthy" in t.vm.sh("zpool status -x tank"))
        t.daemon.start_with(luns)
        fresh = start_writers(t, 100 * (cut + 1))
        for writer, again in zip(writers, fresh):
            check_writer(t, writer, again)
        writers = fresh


def check_writer(t, writer, again):
    """After the cut, through the new session; the new writer goes on from what is there."""
    lost, torn, gone = writer.verify(again.session)
    kind = "sync: always" if writer.durable else "flushed" if writer.flush_every else "never flushed"
    t.check(f"writer {writer.number} ({kind}): wrote", writer.writes > 10, writer.writes)
    t.equal(f"writer {writer.number} ({kind}): durable blocks lost", lost, 0)
    t.equal(f"writer {writer.number} ({kind}): torn blocks", torn, 0)
    if writer.flush_every:
        t.check(f"writer {writer.number}: flushes were acknowledged", writer.flushes > 0)
    if not writer.durable and not writer.flush_every:
        # The control: were nothing lost here, the cut would prove nothing.
        t.check("of the writes that were never flushed some are gone", gone > 0)
        t.note(f"{gone} blocks of the writer that never flushes are gone, as they may be")
    again.submitted, again.acknowledged, again.flushed = writer.submitted, writer.acknowledged, writer.flushed
