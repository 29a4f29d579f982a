"""A YAML line becomes a zvol and a LUN, and every later edit reaches the hosts without anybody being thrown out."""

import threading

from vmlib.scenario import scenario
from vmlib.zvoltd import CONFIG

from .administration import NOTICE_LIMIT_S, becomes, past_attentions

MIB = 1 << 20
ONE = "{ lun: 0, volume: one }"
TWO = "{ lun: 1, volume: two }"


def volume(name, size, more=""):
    return f"  {name}: {{ zvol: tank/{name}, provision: {{ size: {size}{', ' + more if more else ''} }} }}\n"


@scenario()
def provision(t):
    """provision: creates what is missing with its properties; an edit grows it; a shrink without allow_shrink is refused."""
    t.create("tank/origin", "64M")
    t.vm.sh("zfs snapshot tank/origin@s")
    volumes = (volume("one", "300MiB", "volblocksize: 64KiB, sparse: true, properties: { compression: zstd }") + volume("two", "64MiB")
               + "  three: { zvol: tank/three, provision: { clone_from: tank/origin@s } }\n")
    t.daemon.start_with([ONE, TWO, "{ lun: 2, volume: three }"], volumes)
    with t.daemon.login(luns=(0, 1, 2)) as host:
        t.equal("size and volblocksize", t.number("tank/one", "volsize", "volblocksize"), [300 * MIB, 65536])
        t.equal("property and no reservation", t.zfs_get("tank/one", "compression", "refreservation"), ["zstd", "0"])
        t.check("a reservation where it was not sparse", t.number("tank/two", "refreservation") >= 64 * MIB)
        t.equal("a clone", t.zfs_get("tank/three", "origin"), "tank/origin@s")
        t.equal("capacity", host.read_capacity(0)["blocks"], 300 * MIB // 512)
        t.sense("write", host.write(0, b"\x11" * 4096, 0), "GOOD")

        reply = t.daemon.apply([ONE, TWO], volume("one", "400MiB", "volblocksize: 64KiB, sparse: true") + volume("two", "64MiB"))
        t.check("apply of a larger size", reply.ok, reply.output)
        t.equal("the zvol grew", t.number("tank/one", "volsize"), 400 * MIB)
        attentions, _ = host.settle(0)
        t.check("the host is told", "6/2a/09" in attentions, attentions)
        t.check("the volume that was taken out is kept", t.vm.run("zfs list tank/three").ok)

        smaller = volume("one", "100MiB", "volblocksize: 64KiB") + volume("two", "64MiB")
        t.daemon.configure([ONE, TWO], smaller)
        reply = t.daemon.ctl(f"plan {CONFIG}")
        t.check("plan says that a shrink is refused", "shrink" in reply.output.lower(), reply.output)
        t.check("apply refuses it", not t.daemon.ctl(f"apply {CONFIG}").ok)
        t.equal("and the size is as it was", t.number("tank/one", "volsize"), 400 * MIB)
        t.check("data", past_attentions(host, lambda: host.read(0, 4096, 0)).data == b"\x11" * 4096)


@scenario()
def apply(t):
    """apply adds, removes and replaces LUNs under load: the kernel's file system and a verified load see no error."""
    volumes = volume("one", "256MiB", "sparse: true") + volume("two", "64MiB", "sparse: true")
    t.daemon.start_with([ONE], volumes)
    initiator = t.kernel_initiator()
    disk = initiator.login()[0]
    t.vm.sh(f"mkfs.ext4 -q -F {disk}; mount -t ext4 {disk} /mnt")
    writer = t.vm.start("cd /mnt; n=0; while [ ! -e /tmp/enough ]; do n=$((n+1)); dd if=/dev/urandom of=f$((n%20)) bs=128K count=4 conv=fsync "
                        "2>/dev/null || exit 1; done; echo $n", 180)
    with t.daemon.login(isid=5) as host:
        identity = host.identity()
        reply = t.daemon.apply([ONE, TWO], volumes)
        t.check("apply adds a LUN", reply.ok, reply.output)
        t.equal("reported LUNs data has changed", host.settle(0)[0], ["6/3f/0e"])
        t.equal("both are reported", host.report_luns(), [0, 1])
        host.settle(1)
        t.sense("the new LUN works", host.write(0, b"\x22" * 4096, 1), "GOOD")
        reply = t.daemon.apply([ONE, "{ lun: 1, name: new, memory: 32MiB }"], volumes)
        t.check("apply gives the number to another volume", reply.ok, reply.output)
        attentions, _ = host.settle(1)
        t.check("the host is told of it", bool(attentions), attentions)
        t.equal("other capacity", host.read_capacity(1)["blocks"], 32 * MIB // 512)
        t.check("other data", host.read(0, 4096, 1).data == bytes(4096))
        t.daemon.configure([ONE], volumes)
        t.vm.sh("kill -HUP $(cat /run/zvoltd.pid)")
        t.eventually("SIGHUP removes it", lambda: host.report_luns() == [0], NOTICE_LIMIT_S)
        t.sense("the number is empty", past_attentions(host, lambda: host.read(0, 4096, 1)), "5/25/00")
        t.equal("LUN 0 keeps its identity", host.identity(), identity)
        t.vm.write_file(CONFIG, "targets: 7\n")
        t.check("a file with an error changes nothing", not t.daemon.ctl(f"apply {CONFIG}").ok and host.report_luns() == [0])
    t.vm.sh("touch /tmp/enough")
    reply = t.vm.finish(writer)
    t.check("the file system saw no error", reply.ok, reply.output)
    t.note(f"{reply.output.strip()} files were written and synced meanwhile")
    t.equal("the kernel's session is logged in", initiator.state(), "LOGGED_IN")
    t.vm.sh(f"rm -f /tmp/enough; umount /mnt; e2fsck -fn {disk}")
    t.check("the first session was not recovered", "recovery" not in t.vm.sh("dmesg | grep -i iscsi || true").lower())


@scenario()
def apply_under_verified_load(t):
    """zvolt-verify-loop from this machine on one LUN while others are added: every byte right, no error but the attentions."""
    t.create("tank/a", "256M")
    base = "{ lun: 0, zvol: tank/a }"
    t.daemon.start_with([base])
    outcome = []
    load = threading.Thread(target=lambda: outcome.append(t.verify_loop(15, sessions=3, extra=["--patient"])))
    load.start()
    for n in range(4):
        more = [f"{{ lun: {m}, name: m{m}, memory: 16MiB }}" for m in range(1, 2 + n)]
        reply = t.daemon.apply([base, *more])
        t.check(f"apply {n}", reply.ok, reply.output)
    load.join()
    status, output = outcome[0]
    t.check("verify loop", status == 0, output)
    t.note(output.strip().splitlines()[-1])


@scenario()
def offline_online(t):
    """zvoltctl offline gives the zvol free (export works), hosts see 02/04/01; online serves it again in the same session."""
    t.create("tank/a", "64M")
    t.create("tank/b", "64M")
    t.daemon.start_with(["{ lun: 0, name: a, zvol: tank/a }", "{ lun: 1, name: b, zvol: tank/b }"])
    with t.daemon.login(luns=(0, 1)) as host:
        t.sense("write", host.write(0, b"\x11" * 4096), "GOOD")
        reply = t.daemon.ctl("offline a")
        t.check("zvoltctl offline", reply.ok, reply.output)
        becomes(t, "not ready", host, 0, "2/04/01")
        t.sense("the other LUN", host.write(0, b"\x22" * 4096, 1), "GOOD")
        t.check("the zvol is free", t.vm.wait_for("zfs rename tank/a tank/moved && zfs rename tank/moved tank/a && "
                                                  "e=$(ls -l /dev/zvol/tank/a) && zfs set volmode=none tank/a && zfs set volmode=dev tank/a", 20))
        t.vm.wait_for("false", 4)
        t.check("it stays offline", not past_attentions(host, host.test_unit_ready).good)
        reply = t.daemon.ctl("online a")
        t.check("zvoltctl online", reply.ok, reply.output)
        becomes(t, "served again", host, 0, "GOOD", 30)
        t.check("data", host.read(0, 4096).data == b"\x11" * 4096)


@scenario()
def refused_zvols(t):
    """A zvol that is mounted, or part of a pool, is not served and it is said why; when it is free it is served by itself."""
    for name in ("mounted", "member", "good"):
        t.create(f"tank/{name}", "128M")
    t.vm.sh("mkfs.ext4 -q -F /dev/zvol/tank/mounted; mount -t ext4 /dev/zvol/tank/mounted /mnt")
    t.vm.sh("zpool create -f -o ashift=12 inner /dev/zvol/tank/member")
    t.cleanup(lambda: t.vm.run("umount /mnt; zpool destroy -f inner"))
    t.daemon.start_with(["{ lun: 0, name: good, zvol: tank/good }", "{ lun: 1, name: mounted, zvol: tank/mounted }",
                         "{ lun: 2, name: member, zvol: tank/member }"])
    with t.daemon.login(luns=(0,)) as host:
        t.sense("the good one", host.write(0, bytes(4096), 0), "GOOD")
        for lun, name, word in ((1, "mounted", "mount"), (2, "member", "pool")):
            t.check(f"{name}: not served", not past_attentions(host, lambda at=lun: host.read(0, 4096, at)).good)
            text = t.daemon.ctl("luns").output + t.daemon.ctl("status").output + t.daemon.log()
            t.check(f"{name}: the reason is given", word in text.lower(), text)
        t.vm.sh("umount /mnt")
        becomes(t, "after umount it is served", host, 1, "GOOD", 30)
    t.vm.run("kill $(cat /run/zvoltd.pid); sleep 1; zpool destroy -f inner")


@scenario()
def many(t):
    """Forty zvols by one template: provisioned, served, and started again in seconds."""
    text = ("  \"vm-%03d\": { count: 40, zvol: \"tank/vm-%03d\", provision: { size: 16MiB, sparse: true } }\n")
    began = float(t.vm.sh("cut -d' ' -f1 /proc/uptime"))
    t.daemon.configure(["{ lun: 0, count: 40, volume: \"vm-%03d\" }"], text)
    t.daemon.start(limit=240)
    created = float(t.vm.sh("cut -d' ' -f1 /proc/uptime")) - began
    with t.daemon.login(luns=()) as host:
        t.equal("LUNs", host.report_luns(), list(range(40)))
        for lun in (0, 17, 39):
            becomes(t, f"LUN {lun}", host, lun, "GOOD", 60)
            t.sense(f"write to LUN {lun}", host.write(0, bytes(4096), lun), "GOOD")
    t.check("stop", t.daemon.stop())
    began = float(t.vm.sh("cut -d' ' -f1 /proc/uptime"))
    t.daemon.start()
    again = float(t.vm.sh("cut -d' ' -f1 /proc/uptime")) - began
    with t.daemon.login(luns=()) as host:
        becomes(t, "LUN 39 after a start again", host, 39, "GOOD", 60)
    t.note(f"40 zvols: {created:.1f} s with their creation, {again:.1f} s started again (guest time)")
    t.check("started again in 20 s", again < 20, again)
