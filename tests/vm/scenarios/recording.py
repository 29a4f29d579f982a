"""Records what the real zfs and zpool print, for the unit tests of backing/zfs. Runs only when named."""

import base64
import os

from vmlib.scenario import scenario

PROPERTIES = ("name,guid,volsize,volblocksize,available,used,referenced,refreservation,sync,logbias,compression,volmode,snapdev,"
              "readonly,origin,type,org.zvolt:uuid")
UUID = "5c1f6bd2-7b66-4f5f-9d0c-3a8f3a1d2e44"

SETUP = f"""zfs create -s -V 64M -o volblocksize=16K tank/a
zfs create -V 64M -o volblocksize=64K tank/b
zfs create -o quota=8M tank/q; zfs create -s -V 64M tank/q/z
zfs create tank/dir; zfs set org.zvolt:uuid={UUID} tank/dir; zfs create -s -V 16M tank/dir/inherits
zfs create -s -V 16M 'tank/with space'; zfs create -s -V 16M tank/odd-name_1.2:3
zfs set org.zvolt:uuid={UUID} tank/a
zfs snapshot tank/a@s1; zfs clone tank/a@s1 tank/clone; zfs send -p tank/a@s1 | zfs receive tank/received
zfs set readonly=on tank/b; udevadm settle -t 30"""

# name, command. A file NAME.out, NAME.err and NAME.status each.
COMMANDS = [
    ("version", "zfs version"),
    ("get-one", f"zfs get -Hp {PROPERTIES} tank/a"),
    ("get-one-columns", f"zfs get -Hp -o name,property,value,source {PROPERTIES} tank/a"),
    ("get-many", f"zfs get -Hp -t volume {PROPERTIES} tank/a tank/b tank/q/z tank/dir/inherits tank/clone tank/received"),
    ("get-all", "zfs get -Hp all tank/a"),
    ("get-all-not-parsable", "zfs get -H all tank/a"),
    ("get-odd-names", f"zfs get -Hp {PROPERTIES} 'tank/with space' tank/odd-name_1.2:3"),
    ("get-missing", f"zfs get -Hp {PROPERTIES} tank/missing"),
    ("get-some-missing", f"zfs get -Hp {PROPERTIES} tank/a tank/missing tank/b"),
    ("get-missing-pool", f"zfs get -Hp {PROPERTIES} nopool/a"),
    ("get-filesystem", f"zfs get -Hp {PROPERTIES} tank/dir"),
    ("get-filesystem-as-volume", f"zfs get -Hp -t volume {PROPERTIES} tank/dir"),
    ("get-snapshot", f"zfs get -Hp {PROPERTIES} tank/a@s1"),
    ("get-bad-name", f"zfs get -Hp {PROPERTIES} 'tank/a b%c'"),
    ("get-bad-property", "zfs get -Hp nonsense tank/a"),
    ("list-volumes", "zfs list -Hp -t volume -o name,guid,volsize,volblocksize,available,used,referenced,refreservation"),
    ("list-recursive", "zfs list -Hp -r -t all -o name,type,used,avail tank"),
    ("list-missing", "zfs list -Hp tank/missing"),
    ("get-space", "zfs get -Hp available,used tank tank/q tank/q/z"),
    ("pool-list", "zpool list -Hp -o name,health,size,alloc,free,guid tank"),
    ("pool-get", "zpool get -Hp health,guid,size,free,failmode,readonly tank"),
    ("pool-missing", "zpool list -Hp -o name,health nopool"),
    ("pool-status", "zpool status tank"),
    ("create", "zfs create -s -V 8388608 -o volblocksize=8192 -o compression=zstd tank/new"),
    ("create-small-volblocksize", "zfs create -s -V 8M -o volblocksize=4K tank/new4k"),
    ("create-rounds-up", "zfs create -s -V 8390656 tank/odd; zfs get -Hpo value volsize tank/odd"),
    ("create-exists", "zfs create -s -V 8M tank/a"),
    ("create-no-parent", "zfs create -s -V 8M tank/no/parent"),
    ("create-with-parents", "zfs create -p -s -V 8M tank/yes/parent"),
    ("create-no-pool", "zfs create -s -V 8M nopool/a"),
    ("create-too-large", "zfs create -V 100T tank/huge"),
    ("create-over-quota", "zfs create -V 16M tank/q/more"),
    ("create-bad-volblocksize", "zfs create -s -V 8M -o volblocksize=3000 tank/bad"),
    ("create-volblocksize-too-large", "zfs create -s -V 8M -o volblocksize=32M tank/bad"),
    ("create-bad-property", "zfs create -s -V 8M -o nonsense=1 tank/bad"),
    ("create-bad-value", "zfs create -s -V 8M -o compression=nonsense tank/bad"),
    ("create-below-volume", "zfs create -s -V 8M tank/a/below"),
    ("clone", "zfs clone -o org.zvolt:uuid=none tank/a@s1 tank/clone2"),
    ("clone-missing-snapshot", "zfs clone tank/a@none tank/clone3"),
    ("clone-exists", "zfs clone tank/a@s1 tank/clone"),
    ("set-volsize", "zfs set volsize=134217728 tank/a"),
    ("set-volsize-not-multiple", "zfs set volsize=134218240 tank/a"),
    ("set-volsize-no-space", "zfs set volsize=100T tank/b"),
    ("set-volsize-zero", "zfs set volsize=0 tank/a"),
    ("set-readonly-dataset-volsize", "zfs set volsize=128M tank/b"),
    ("set-user-property", f"zfs set org.zvolt:uuid={UUID} tank/clone"),
    ("set-missing", "zfs set compression=on tank/missing"),
    ("set-volblocksize", "zfs set volblocksize=8K tank/a"),
    ("set-bad-value", "zfs set sync=sometimes tank/a"),
    ("inherit", "zfs inherit org.zvolt:uuid tank/clone"),
    ("destroy-with-snapshots", "zfs destroy tank/a"),
    ("destroy-busy", "exec 7<>/dev/zvol/tank/odd-name_1.2:3; zfs destroy tank/odd-name_1.2:3"),
    ("destroy-missing", "zfs destroy tank/missing"),
    ("rename-exists", "zfs rename tank/b tank/clone"),
    ("no-permission-get", "su -s /bin/sh nobody -c 'zfs get -Hp volsize tank/a'"),
    ("no-permission-set", "su -s /bin/sh nobody -c 'zfs set compression=off tank/a'"),
    ("no-permission-create", "su -s /bin/sh nobody -c 'zfs create -s -V 8M tank/mine'"),
    ("no-device-node", "mv /dev/zfs /dev/zfs.away; zfs get -Hp volsize tank/a; s=$?; mv /dev/zfs.away /dev/zfs; exit $s"),
    ("write-readonly", "dd if=/dev/zero of=/dev/zvol/tank/b bs=64K count=1 conv=notrunc"),
    ("write-over-quota", "dd if=/dev/urandom of=/dev/zvol/tank/q/z bs=1M count=32 oflag=direct conv=notrunc"),
]


@scenario(optional=True)
def record(t):
    """Writes the output of zfs and zpool for many commands to the folder ZVOLT_VM_RECORD."""
    folder = os.environ["ZVOLT_VM_RECORD"]
    os.makedirs(folder, exist_ok=True)
    t.vm.sh(SETUP)
    index = []
    for name, command in COMMANDS:
        reply = t.vm.run(f"( {command} ) >/tmp/out 2>/tmp/err; echo $? >/tmp/status; base64 -w 0 /tmp/out; echo; base64 -w 0 /tmp/err; echo; cat /tmp/status")
        keep(folder, name, reply.output.split("\n"))
        index.append(f"{name}\t{command}")
    with open(os.path.join(folder, "INDEX.tsv"), "w", encoding="utf-8") as file:
        file.write(f"# {t.vm.sh('zfs version | tail -n 1')}, Linux {t.vm.sh('uname -r')}: file name, command\n" + "\n".join(index) + "\n")
    t.check("everything is recorded", len(index) == len(COMMANDS))
    without_module(t, folder)


def keep(folder, name, lines):
    for suffix, data in (("out", base64.b64decode(lines[0])), ("err", base64.b64decode(lines[1])), ("status", lines[2].encode() + b"\n")):
        with open(os.path.join(folder, f"{name}.{suffix}"), "wb") as file:
            file.write(data)


def without_module(t, folder):
    t.vm.sh("zpool destroy -f tank; udevadm settle; udevadm control --exit; rm -f /run/udev/control; rmmod zfs; mv /lib/modules /lib/modules.away")
    reply = t.vm.run("zfs get -Hp volsize tank/a >/tmp/out 2>/tmp/err; echo $? >/tmp/status; base64 -w 0 /tmp/out; echo; base64 -w 0 /tmp/err; "
                     "echo; cat /tmp/status; mv /lib/modules.away /lib/modules; modprobe zfs")
    keep(folder, "no-module", reply.output.split("\n"))
