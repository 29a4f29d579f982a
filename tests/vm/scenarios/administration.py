"""What an administrator does to a zvol while hosts use it: resize, rename, readonly, rollback, receive, destroy, volmode."""

from vmlib.scenario import scenario

MIB = 1 << 20
NOTICE_LIMIT_S = 15  # the daemon looks every second; emulation takes its time


def becomes(t, what, host, lun, wanted, limit=NOTICE_LIMIT_S):
    """Until TEST UNIT READY says that; returns every unit attention on the way."""
    seen, last = [], [""]

    def probe():
        last[0] = str(host.test_unit_ready(lun))
        if last[0].startswith("6/"):
            seen.append(last[0])
        return last[0] == wanted

    t.eventually(what, probe, limit, detail=lambda: f"but {last[0]}")
    return seen


@scenario()
def grow(t):
    """`zfs set volsize` under two sessions: 06/2a/09 once for each, new blocks writable, other LUNs silent; then a shrink."""
    t.create("tank/a", "128M")
    t.create("tank/other", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/other }", "{ lun: 3, zvol: tank/a }"])
    with t.daemon.login(luns=(0, 3)) as one, t.daemon.login(luns=(0, 3), isid=2) as two:
        t.sense("write before", one.write(127 * MIB, b"\x11" * 4096, 3), "GOOD")
        t.vm.sh("zfs set volsize=256M tank/a")
        t.eventually("capacity grows", lambda: one.read_capacity(3) and one.read_capacity(3)["blocks"] == 256 * MIB // 512, NOTICE_LIMIT_S)
        for number, host in enumerate((one, two)):
            t.check(f"INQUIRY does not take the attention, session {number}", host.inquiry(3).good)
            t.check(f"REPORT LUNS neither, session {number}", host.report_luns() == [0, 3])
            attentions, result = host.settle(3)
            t.check(f"capacity data has changed, session {number}", attentions in (["6/2a/09"], []) and result.good, attentions)
            t.equal(f"other LUN, session {number}", host.settle(0)[0], [])
        t.sense("write to the last new block", two.write(256 * MIB - 512, b"\x22" * 512, 3), "GOOD")
        t.check("old data", two.read(127 * MIB, 4096, 3).data == b"\x11" * 4096)

        t.vm.sh("zfs set volsize=96M tank/a")
        attentions = []
        t.eventually("a shrink is told", lambda: "6/2a/09" in note_attentions(one, 3, attentions), NOTICE_LIMIT_S)
        two.settle(3)
        t.sense("read past the new end", two.read(200 * MIB, 512, 3), "5/21/00")
        t.sense("write past the new end", two.write(96 * MIB, bytes(512), 3), "5/21/00")
        t.sense("read below it", two.read(96 * MIB - 4096, 4096, 3), "GOOD")


def note_attentions(host, lun, seen):
    seen += host.settle(lun)[0]
    return seen


@scenario()
def grow_attention(t):
    """A host that sends nothing but TEST UNIT READY learns of a grown zvol by 06/2a/09, once."""
    t.create("tank/a", "128M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    with t.daemon.login() as host:
        t.vm.sh("zfs set volsize=256M tank/a")
        seen = []
        t.eventually("unit attention", lambda: note_attentions(host, 0, seen), NOTICE_LIMIT_S)
        t.equal("which, and how often", seen, ["6/2a/09"])
        t.equal("new capacity", host.read_capacity()["blocks"], 256 * MIB // 512)


@scenario()
def rename(t):
    """`zfs rename` under a session: I/O goes on, identity and data stay; a restart under the new name keeps the identity."""
    t.create("tank/a", "128M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    with t.daemon.login() as host:
        identity = host.identity()
        t.check("there is an identity", len(identity[0]) > 8 and identity[1], identity)
        t.sense("write", host.write(MIB, b"\x33" * 4096), "GOOD")
        t.vm.sh("zfs rename tank/a tank/b")
        t.sense("write after the rename", host.write(2 * MIB, b"\x44" * 4096), "GOOD")
        t.check("data", host.read(MIB, 4096).data == b"\x33" * 4096)
        t.vm.wait_for("false", 4)  # two looks of the daemon at its device
        t.equal("no unit attention", host.settle()[0], [])
        t.sense("still served", host.read(2 * MIB, 4096), "GOOD")
    t.check("stop", t.daemon.stop())
    t.vm.sh("udevadm settle -t 30")
    t.daemon.start_with(["{ lun: 5, zvol: tank/b }"], target="iqn.2026-11.org.example:renamed")
    with t.daemon.login(target="iqn.2026-11.org.example:renamed", luns=(5,)) as host:
        t.equal("identity after rename, restart, another LUN number and target", host.identity(5), identity)
        t.check("data", host.read(2 * MIB, 4096, 5).data == b"\x44" * 4096)


@scenario()
def identity(t):
    """The UUID travels with the zvol: another state directory finds it; a received copy that has it too is refused."""
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    with t.daemon.login() as host:
        before = host.identity()
    t.check("the property is set", len(t.zfs_get("tank/a", "org.zvolt:uuid")) == 36, t.zfs_get("tank/a", "org.zvolt:uuid"))
    t.check("stop", t.daemon.stop())
    t.vm.sh("rm -rf /var/lib/zvolt/*; zfs set volsize=128M tank/a")
    t.daemon.start()
    with t.daemon.login() as host:
        t.equal("identity with a new state directory and size", host.identity(), before)
    t.check("stop", t.daemon.stop())
    t.vm.sh("zfs snapshot tank/a@1; zfs send -p tank/a@1 | zfs receive tank/copy; zfs clone tank/a@1 tank/clone; udevadm settle -t 30")
    t.equal("a received copy has the same property", t.zfs_get("tank/copy", "org.zvolt:uuid"), t.zfs_get("tank/a", "org.zvolt:uuid"))
    t.daemon.configure(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/clone }"])
    t.daemon.start()
    with t.daemon.login(luns=(0, 1)) as host:
        t.check("a clone has its own", host.identity(1) != host.identity(0))
        t.equal("the original keeps its", host.identity(0), before)
    t.check("stop", t.daemon.stop())
    t.daemon.configure(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/copy }"])
    t.vm.run("setsid zvoltd -c /etc/zvolt/zvolt.yaml >/var/log/zvoltd.log 2>&1 & echo $! >/run/zvoltd.pid; sleep 5")
    served = []
    if t.daemon.running():
        with t.daemon.login(luns=(0, 1)) as host:
            served = [lun for lun in (0, 1) if host.settle(lun)[1].good]
    t.check("two volumes of one UUID are never both served", len(served) < 2, served)
    t.check("and it is said", "uuid" in t.daemon.log().lower(), t.daemon.log())


@scenario()
def readonly(t):
    """readonly=on under a session: writes 07/27/00, reads and inquiry good, WP told; readonly=off: writes again, no restart."""
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    with t.daemon.login() as host:
        t.sense("write", host.write(0, b"\x55" * 4096), "GOOD")
        t.sense("flush", host.synchronize_cache(), "GOOD")
        t.vm.sh("zfs set readonly=on tank/a")
        t.sense("write while read-only", past_attentions(host, lambda: host.write(4096, b"\x66" * 4096)), "7/27/00")
        t.eventually("write protect bit", lambda: past_attentions(host, host.test_unit_ready).good and host.caching()[1] == 1,
                     NOTICE_LIMIT_S)
        t.sense("read", past_attentions(host, lambda: host.read(0, 4096)), "GOOD")
        t.sense("UNMAP", past_attentions(host, lambda: host.unmap([(0, 4096)])), "7/27/00")
        t.sense("SYNCHRONIZE CACHE", past_attentions(host, host.synchronize_cache), "GOOD")
        t.vm.sh("zfs set readonly=off tank/a")
        t.eventually("writes again", lambda: past_attentions(host, lambda: host.write(4096, b"\x77" * 4096)).good, NOTICE_LIMIT_S)
        t.sense("flush again", past_attentions(host, host.synchronize_cache), "GOOD")
        t.eventually("write protect bit off", lambda: past_attentions(host, host.test_unit_ready).good and host.caching()[1] == 0,
                     NOTICE_LIMIT_S)
        t.check("data", host.read(0, 8192).data == b"\x55" * 4096 + b"\x77" * 4096)


def past_attentions(host, command, attempts=5):
    """The first answer that is no unit attention."""
    for _ in range(attempts):
        result = command()
        if not result.sense or result.sense[0] != 6:
            break
    return result


@scenario()
def rollback(t):
    """`zfs rollback` and `zfs receive -F` under a session: reads see the new contents at once, never stale ones."""
    t.create("tank/a", "64M")
    t.create("tank/src", "64M")
    t.vm.sh("zfs snapshot tank/src@0; zfs send tank/src@0 | zfs receive tank/dst; udevadm settle -t 30")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/src }", "{ lun: 2, zvol: tank/dst, read_only: true }"])
    with t.daemon.login(luns=(0, 1, 2)) as host:
        old, new = b"\xA1" * 65536, b"\xB2" * 65536
        t.sense("old data", host.write(0, old), "GOOD")
        t.sense("flush", host.synchronize_cache(), "GOOD")
        t.vm.sh("zfs snapshot tank/a@s")
        t.sense("new data", host.write(0, new), "GOOD")
        t.check("new data is read", host.read(0, 65536).data == new)
        t.vm.sh("zfs rollback tank/a@s")
        t.check("after the rollback the old data is read", past_attentions(host, lambda: host.read(0, 65536)).data == old)
        t.sense("writes go on", past_attentions(host, lambda: host.write(65536, new)), "GOOD")
        t.check("and are read", host.read(65536, 65536).data == new)

        t.check("received copy is empty", host.read(MIB, 65536, 2).data == bytes(65536))
        t.sense("write to the source", host.write(MIB, old, 1), "GOOD")
        t.sense("flush", host.synchronize_cache(1), "GOOD")
        t.vm.sh("zfs snapshot tank/src@1; zfs send -i @0 tank/src@1 | zfs receive -F tank/dst")
        t.check("after receive -F the copy has it", past_attentions(host, lambda: host.read(MIB, 65536, 2)).data == old)


@scenario()
def destroy(t):
    """Destroying a zvol that is served is refused by ZFS and changes nothing; volmode=none takes it away and gives it back."""
    t.create("tank/a", "64M")
    t.create("tank/other", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/other }", "{ lun: 1, zvol: tank/a }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.sense("write", host.write(0, b"\x11" * 4096, 1), "GOOD")
        identity = host.identity(1)
        reply = t.vm.run("zfs destroy tank/a")
        t.check("zfs destroy is refused", not reply.ok and "busy" in reply.output, reply.output)
        t.check("and the zvol works", host.read(0, 4096, 1).data == b"\x11" * 4096)

        t.vm.sh("zfs set volmode=none tank/a")
        becomes(t, "a zvol that went away is not ready", host, 1, "2/04/01")
        t.check("INQUIRY is answered", host.inquiry(1).good)
        t.sense("the other LUN", host.read(0, 4096, 0), "GOOD")
        t.check("the kernel has no device of it", t.vm.wait_for("! ls /dev/zvol/tank/a", 15))
        t.vm.sh("zfs set volmode=dev tank/a")
        becomes(t, "it comes back", host, 1, "GOOD", 30)
        t.check("with its data", host.read(0, 4096, 1).data == b"\x11" * 4096)

        t.vm.sh("zfs set volmode=none tank/a")
        becomes(t, "away again", host, 1, "2/04/01")
        t.check("now it can be destroyed", t.vm.wait_for("zfs destroy tank/a", 15))
        t.sense("the other LUN", host.write(0, b"\x22" * 4096, 0), "GOOD")
        t.create("tank/a", "64M")
        t.check("a new zvol of that name is told from the old one", t.vm.wait_for("grep -q 'another dataset' /var/log/zvoltd.log", 30))
        t.sense("and not served as the old disk", past_attentions(host, lambda: host.read(0, 4096, 1)), "2/04/01")
    t.check("stop", t.daemon.stop())
    t.daemon.start()
    with t.daemon.login(luns=(0,)) as host:
        becomes(t, "after a restart the new one is served", host, 1, "GOOD", 30)
        t.check("as another disk", host.identity(1) != identity)
        t.check("that reads as new", host.read(0, 4096, 1).data == bytes(4096))


@scenario()
def snapshots(t):
    """Snapshots and promoted clones under a session change nothing; a clone is a LUN with the snapshot's contents."""
    t.create("tank/a", "64M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    with t.daemon.login() as host:
        t.sense("write", host.write(0, b"\x11" * 4096), "GOOD")
        t.sense("flush", host.synchronize_cache(), "GOOD")
        t.vm.sh("zfs snapshot tank/a@1; zfs set snapdev=visible tank; zfs clone tank/a@1 tank/c; udevadm settle -t 30")
        t.sense("write on", host.write(0, b"\x22" * 4096), "GOOD")
        t.vm.sh("zfs promote tank/c")
        t.check("data after promote", host.read(0, 4096).data == b"\x22" * 4096)
        t.sense("write after promote", host.write(4096, b"\x33" * 4096), "GOOD")
        t.equal("no unit attention", host.settle()[0], [])
    t.check("stop", t.daemon.stop())
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/c }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.check("the clone has the snapshot's data", host.read(0, 4096, 1).data == b"\x11" * 4096)
        t.check("the original its own", host.read(0, 4096, 0).data == b"\x22" * 4096)
