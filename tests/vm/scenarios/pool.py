"""What happens to the pool under served zvols: full, quota, exported, imported late, suspended."""

import time

from vmlib.scenario import scenario

from .administration import NOTICE_LIMIT_S, becomes, past_attentions

MIB = 1 << 20
# A small pool on a device-mapper table that can be swapped for one that fails, on the spare disk.
SMALL_SECTORS = 256 << 11  # 256 MiB, half of which ZFS keeps for itself
MAKE_SMALL = f"""modprobe dm_mod
dmsetup create small --table "0 {SMALL_SECTORS} linear /dev/vdc1 0"
dmsetup mknodes
zpool create -f -o ashift=12 -O compression=off -O atime=off small /dev/mapper/small"""
REMOVE_SMALL = """n=0; while zpool list -H small >/dev/null 2>&1 && [ $n -lt 20 ]; do zpool destroy -f small || sleep 0.5; n=$((n+1)); done
dmsetup remove small"""
BREAK_SMALL = f'dmsetup suspend --noflush --nolockfs small; dmsetup load small --table "0 {SMALL_SECTORS} error"; dmsetup resume small'
MEND_SMALL = f"""dmsetup suspend --noflush --nolockfs small
dmsetup load small --table "0 {SMALL_SECTORS} linear /dev/vdc1 0"; dmsetup resume small; zpool clear small"""
IMPORT = "zpool import -d /dev/vda1 -d /dev/vdb1 tank; [ ! -S /run/udev/control ] || udevadm settle -t 30"


def small_pool(t):
    t.vm.sh(MAKE_SMALL)
    t.cleanup(lambda: t.vm.run("kill -9 $(cat /run/zvoltd.pid); sleep 1;" + REMOVE_SMALL))


def fill_until_refused(host, lun, limit_mib):
    """1 MiB at a time; (MiB written, the first answer that is not GOOD)."""
    for n in range(limit_mib):
        result = host.write(n * MIB, bytes([n % 255 + 1]) * MIB, lun)
        if not result.good:
            return n, result
    return limit_mib, result


@scenario()
def full(t):
    """A pool without space: 07/27/07, reads good, other LUNs and the session untouched; after UNMAP writes work again."""
    small_pool(t)
    t.create("small/z", "2G")
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: small/z }"])
    with t.daemon.login(luns=(0, 1)) as host:
        written, refused = fill_until_refused(host, 1, 300)
        t.note(f"{written} MiB went into the pool of 256 MiB")
        t.check("some MiB fit", written > 50, written)
        t.sense("the first write without space", refused, "7/27/07")
        t.sense("and one after it", past_attentions(host, lambda: host.write((written + 1) * MIB, bytes(MIB), 1)), "7/27/07")
        t.check("what was written is there", host.read(10 * MIB, MIB, 1).data == bytes([11]) * MIB)
        t.sense("other LUN", host.write(0, bytes(65536), 0), "GOOD")
        t.check("nothing that was taken is lost", all(host.read(n * MIB, 4096, 1).data == bytes([n % 255 + 1]) * 4096
                                                      for n in range(0, written, 7)))
        t.sense("UNMAP on the full pool", host.unmap([(512, 64 * MIB)], 1), "GOOD")
        seconds = t.eventually("writes again after UNMAP", lambda: host.write(200 * MIB, b"\x77" * 65536, 1).good, 60, 1)
        t.note(f"writes work again {seconds or -1:.0f} s after UNMAP")
        t.check("the block before it is kept", host.read(0, 512, 1).data == b"\x01" * 512)


@scenario()
def quota(t):
    """A quota that is used up (EIO from the device) says 07/27/07 too, and not a medium error."""
    t.vm.sh("zfs create -o quota=64M tank/q")
    t.create("tank/q/z", "1G")
    t.daemon.start_with(["{ lun: 0, zvol: tank/q/z }"])
    with t.daemon.login() as host:
        written, refused = fill_until_refused(host, 0, 200)
        t.check("some MiB fit", written > 10, written)
        # What was taken before the quota was noticed may be refused by the flush; hosts then see the same.
        t.sense("the first write over the quota", refused, "7/27/07")
        t.check("what was written is there", host.read(5 * MIB, MIB).data == bytes([6]) * MIB)
        t.vm.sh("zfs set quota=512M tank/q")
        t.eventually("writes again with a larger quota", lambda: host.write(150 * MIB, b"\x01" * 65536).good, 30, 1)


@scenario()
def export_idle(t):
    """`zpool export` under an idle session finishes by itself; 02/04/01 until the import, then served in the same session."""
    export_and_import(t, load=False)


@scenario()
def export_busy(t):
    """`zpool export` under writes: the same, and nothing that was acknowledged and flushed is lost."""
    export_and_import(t, load=True)


def export_and_import(t, load):
    t.create("tank/a", "256M")
    t.create("tank/b", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a, sync: always }", "{ lun: 1, zvol: tank/b }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.sense("write", host.write(0, b"\x11" * 65536), "GOOD")
        export = t.vm.start("cut -d' ' -f1 /proc/uptime; zpool export tank; s=$?; cut -d' ' -f1 /proc/uptime; exit $s", 90)
        written = write_until_refused(t, host) if load else []
        reply = t.vm.finish(export)
        t.check("zpool export finished", reply.ok, reply.output)
        times = [float(word) for word in reply.output.split() if word.replace(".", "").isdigit()]
        t.note(f"zpool export took {times[-1] - times[0]:.1f} s of the guest's time")
        t.check("within 10 s (2 s and what emulation takes)", times[-1] - times[0] < 10, times)
        for lun in (0, 1):
            becomes(t, f"LUN {lun} is not ready", host, lun, "2/04/01")
            t.check(f"INQUIRY of LUN {lun} is answered", host.inquiry(lun).good)
            t.sense(f"read of LUN {lun}", host.read(0, 4096, lun), "2/04/01")
        t.check("REPORT LUNS lists both", host.report_luns() == [0, 1])
        t.check("the session answers a ping", host.nop() < 10)
        t.check("zvoltctl answers", t.daemon.ctl("luns").ok)
        t.vm.sh(IMPORT)
        for lun in (0, 1):
            attentions = becomes(t, f"LUN {lun} is served again", host, lun, "GOOD", 30)
            t.note(f"LUN {lun} on return: {attentions}")
        t.check("data", host.read(0, 65536).data == b"\x11" * 65536)
        for offset, fill in written:
            t.check(f"acknowledged write at {offset}", host.read(offset, 65536).data == fill * 65536)
        t.sense("write after the import", host.write(MIB, b"\x22" * 4096), "GOOD")
        t.check("export again, by -f", t.vm.run("zpool export -f tank", 90).ok)
        becomes(t, "not ready again", host, 0, "2/04/01")
        t.vm.sh(IMPORT)
        becomes(t, "served again", host, 0, "GOOD", 30)


def write_until_refused(t, host):
    """Durable writes while the pool goes; [(offset, byte)] of the acknowledged ones."""
    done = []
    for n in range(3000):
        offset, byte = (1 + n % 200) * MIB, bytes([n % 250 + 2])
        result = host.write(offset, byte * 65536)
        if not result.good:
            t.sense("the first write that failed", result, "2/04/01")
            break
        done = [entry for entry in done if entry[0] != offset] + [(offset, byte)]
    return done


@scenario()
def late(t):
    """A zvol that is late at start: 02/04/01, other LUNs served; up by itself. One never seen before is announced when it comes."""
    t.create("tank/there", "64M")
    t.create("tank/late", "128M")
    luns = ["{ lun: 0, zvol: tank/there }", "{ lun: 1, zvol: tank/late }", "{ lun: 2, zvol: tank/new }"]
    t.daemon.start_with(luns[:2])
    with t.daemon.login(luns=(0, 1)) as host:
        identity = host.identity(1)
        t.sense("write", host.write(0, b"\x11" * 4096, 1), "GOOD")
    t.check("stop", t.daemon.stop())
    t.vm.sh("zfs set volmode=none tank/late")
    t.daemon.start_with(luns)
    with t.daemon.login(luns=(0,)) as host:
        t.sense("the LUN that is there", host.read(0, 4096, 0), "GOOD")
        becomes(t, "the late one is not ready", host, 1, "2/04/01", 5)
        inquiry = host.inquiry(1)
        t.check("its INQUIRY is answered as a disk's", inquiry.good and inquiry.data[0] == 0, f"{inquiry} {inquiry.data[:1].hex()}")
        t.equal("its identity is known", host.identity(1), identity)
        t.vm.sh("zfs set volmode=dev tank/late")
        becomes(t, "it comes up", host, 1, "GOOD", 30)
        t.check("with its data", host.read(0, 4096, 1).data == b"\x11" * 4096)

        # No identity could be told for this one: a host must not see a disk that becomes another.
        t.equal("one that never was is not announced", host.report_luns(), [0, 1])
        t.create("tank/new", "64M")
        # By TEST UNIT READY: REPORT LUNS takes that attention away (SPC-5).
        t.eventually("when it comes the host is told", lambda: "6/3f/0e" in host.settle(0)[0], 30)
        t.equal("and sees it", host.report_luns(), [0, 1, 2])
        becomes(t, "it is ready", host, 2, "GOOD", 30)
        t.equal("with its capacity", (host.read_capacity(2) or {}).get("blocks"), 64 * MIB // 512)
        t.sense("and writes", host.write(63 * MIB, b"\x11" * 4096, 2), "GOOD")


@scenario(udev=False)
def without_udev(t):
    """No udev, no /dev/zvol: zvols are found all the same, also one that is created later, and a pool imported later."""
    t.create("tank/a", "64M")
    t.check("there is no link", t.vm.run("ls /dev/zvol").ok is False)
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/late }"])
    with t.daemon.login(luns=(0,)) as host:
        t.sense("write", host.write(0, b"\x11" * 4096), "GOOD")
        t.create("tank/late", "64M")
        becomes(t, "a late zvol comes up", host, 1, "GOOD", 30)
        t.vm.sh("zfs rename tank/a tank/x; zfs rename tank/late tank/a")  # a name that now means another zvol
        t.vm.wait_for("false", 4)
        t.check("the open zvol stays the one that it was", past_attentions(host, lambda: host.read(0, 4096)).data == b"\x11" * 4096)


@scenario()
def pool_imported_late(t):
    """The whole pool is imported after zvoltd started again: 02/04/01, then all LUNs come up by themselves."""
    t.create("tank/a", "64M")
    t.create("tank/b", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/b }"])
    t.check("stop", t.daemon.stop())
    t.vm.sh("zpool export tank")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/b }"])
    with t.daemon.login(luns=()) as host:
        for lun in (0, 1):
            becomes(t, f"LUN {lun} is not ready", host, lun, "2/04/01")
        t.vm.sh(IMPORT)
        for lun in (0, 1):
            becomes(t, f"LUN {lun} comes up", host, lun, "GOOD", 30)
            t.equal(f"capacity of LUN {lun}", (host.read_capacity(lun) or {}).get("blocks"), 64 * MIB // 512)


@scenario(taints=True)
def suspended(t):
    """A pool that loses its disk is suspended: its LUN hangs alone; after `zpool clear` every write ends well."""
    small_pool(t)
    t.create("small/z", "256M")
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: small/z, sync: always }"])
    with t.daemon.login(luns=(0, 1)) as host, t.daemon.login(luns=(0, 1), isid=2) as other:
        t.sense("write before", host.write(0, b"\x10" * 4096, 1), "GOOD")
        t.vm.sh(BREAK_SMALL)
        hanging = [host.submit(1, host.write_cdb(n * 65536, 65536), bytes([n + 1]) * 65536) for n in range(1, 41)]
        t.check("the pool is suspended", t.vm.wait_for("zpool list -H -o health small | grep -q SUSPENDED", 60))
        t.note(f"pool: {t.vm.run('zpool list -H -o name,health small', 20).output.strip()}")
        for number, session in enumerate((host, other)):
            t.check(f"ping of session {number}", session.nop(15) < 15)
            t.check(f"INQUIRY of the suspended LUN, session {number}", session.inquiry(1).good)
            t.sense(f"write to the other LUN, session {number}", session.write(number * 65536, b"\x20" * 4096, 0), "GOOD")
            t.sense(f"read from the other LUN, session {number}", session.read(number * 65536, 4096, 0), "GOOD")
        with t.daemon.login(luns=(0,), isid=3) as third:
            t.sense("a new session reads", third.read(0, 4096, 0), "GOOD")
        t.check("zvoltctl answers", t.daemon.ctl("status", 20).ok and t.daemon.ctl("luns", 20).ok)
        host.poll(0)
        t.vm.sh(MEND_SMALL, 60)
        t.check("the pool is back", t.vm.wait_for("zpool list -H -o health small | grep -q ONLINE", 60))
        results = [str(host.wait(tag, 120)) for tag in hanging]
        t.check("every hanging write ends well", all(r == "GOOD" for r in results), sorted(set(results)))
        for n in range(1, 41):
            t.check(f"write {n} is there", past_attentions(other, lambda at=n: other.read(at * 65536, 65536, 1)).data == bytes([n + 1]) * 65536)
        t.sense("and new writes", host.write(0, b"\x30" * 4096, 1), "GOOD")
    t.check("zvoltd ends by itself", t.daemon.stop(), t.daemon.log())


@scenario(taints=True)
def suspended_stop(t):
    """SIGTERM with a suspended pool: zvoltd ends within its limits, although the device cannot be closed."""
    small_pool(t)
    t.create("small/z", "64M")
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: small/z, sync: always }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.vm.sh(BREAK_SMALL)
        host.submit(1, host.write_cdb(0, 4096), bytes(4096))
        t.check("the pool is suspended", t.vm.wait_for("zpool list -H -o health small | grep -q SUSPENDED", 60))
        t.sense("other LUN", host.write(0, b"\x44" * 4096, 0), "GOOD")
        t.sense("its flush", host.synchronize_cache(0), "GOOD")
        began = time.monotonic()
        t.vm.run("kill $(cat /run/zvoltd.pid)")
        # What the kernel holds keeps the process from going away whole; that it has said its last word is what counts.
        said = t.vm.wait_for("! kill -0 $(cat /run/zvoltd.pid) || grep -qiE 'lost|not flushed|deadline|gave up' /var/log/zvoltd.log", 60)
        t.check("it ends, or says what it could not do", said, t.daemon.log())
        t.note(f"after {time.monotonic() - began:.0f} s")
