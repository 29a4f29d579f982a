"""Serving zvols to real initiators: libiscsi from this machine, the kernel's in the guest, and the guest's kernel to a zvoltd
on this machine."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from vmlib import machine
from vmlib.scenario import scenario
from vmlib.zvoltd import TARGET, Zvoltd

FILE_SYSTEM_CYCLE = """set -e
mkfs.ext4 -q -F {disk}
mount -t ext4 {disk} /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=24 2>/dev/null
cp /tmp/data /mnt/data
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 {disk} /mnt
cmp /tmp/data /mnt/data
umount /mnt
e2fsck -fn {disk}"""


@scenario()
def serve(t):
    """libiscsi from outside: discovery, inquiry, capacity, and mixed I/O with every byte compared on 16K and 64K volblocks."""
    t.create("tank/a", "512M")
    t.create("tank/b", "512M", "-s -o volblocksize=64K")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }", "{ lun: 1, zvol: tank/b, sync: always }"])
    status, output = t.tool("iscsi-inq", t.daemon.url())
    t.check("iscsi-inq", status == 0 and "zvolt" in output.lower(), output)
    status, output = t.tool("iscsi-readcapacity16", t.daemon.url())
    t.check("iscsi-readcapacity16", status == 0 and str((512 << 20) // 512 - 1) in output, output)
    for lun in (0, 1):
        status, output = t.verify_loop(6, lun=lun)
        t.check(f"verify loop on LUN {lun}", status == 0, output)
        t.note(output.strip().splitlines()[-1] if output.strip() else "verify loop said nothing")
    t.check("zvoltd ends by itself", t.daemon.stop(), t.daemon.log())
    t.check("the zvols are free then", t.vm.run("zfs destroy tank/a && zfs destroy tank/b").ok)


@scenario()
def kernel_initiator(t):
    """The guest's kernel initiator: ext4 made, written, read back, checked; fstrim gives the space back; size grows online."""
    t.create("tank/a", "256M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a }"])
    initiator = t.kernel_initiator()
    disk = initiator.login()[0]
    name = disk.split("/")[-1]
    queue = dict(zip(("logical", "physical", "granularity"), t.vm.sh(
        f"cd /sys/block/{name}/queue; cat logical_block_size physical_block_size discard_granularity").split()))
    t.equal("the kernel's logical block", queue["logical"], "512")
    t.equal("the kernel's physical block", queue["physical"], "4096")
    t.equal("the kernel's discard granularity", queue["granularity"], "16384")
    t.equal("the kernel unmaps by UNMAP", t.vm.sh("cat /sys/class/scsi_disk/*/provisioning_mode"), "unmap")
    t.equal("the kernel sees a write cache", t.vm.sh("cat /sys/class/scsi_disk/*/cache_type"), "write back")
    t.vm.sh(FILE_SYSTEM_CYCLE.format(disk=disk), 240)
    t.check("ext4 cycle", True)

    t.vm.sh("zpool sync tank")
    used = t.number("tank/a", "referenced")
    t.vm.sh(f"mount -t ext4 {disk} /mnt; rm /mnt/data; sync; fstrim /mnt; umount /mnt; zpool sync tank; sleep 1; zpool sync tank", 120)
    left = t.number("tank/a", "referenced")
    t.check("fstrim gives 24 MiB back", used - left > 23 << 20, f"referenced {used} before, {left} after")

    t.vm.sh("zfs set volsize=384M tank/a")

    def grown():
        initiator.rescan()
        return t.vm.sh(f"/sbin/blockdev --getsize64 {disk}") == str(384 << 20)

    t.eventually("the kernel sees the new size", grown, 20, 1)
    t.vm.sh(f"e2fsck -fp {disk} >/dev/null; resize2fs {disk} && e2fsck -fn {disk}", 180)
    t.check("resize2fs and e2fsck", True)
    t.check("logout", initiator.logout().ok)


class HostZvoltd:
    """zvoltd on this machine, on a file, for the other direction."""

    def __init__(self, bin_dir):
        self.folder = tempfile.mkdtemp(prefix="zvolt-vm-host-")
        self.port = machine.free_port()
        text = Zvoltd.yaml([f"{{ lun: 0, name: file, file: {self.folder}/disk.img, provision: {{ size: 256MiB }} }}"])
        text = text.replace("0.0.0.0:3260", f"127.0.0.1:{self.port}").replace("/var/lib/zvolt", self.folder)
        text = text.replace("/run/zvolt/admin.sock", self.folder + "/admin.sock")
        config = os.path.join(self.folder, "zvolt.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen([os.path.join(bin_dir, "zvoltd"), "-c", config], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=machine.die_with_parent)

    def ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@scenario(pool=False)
def host_target(t):
    """The guest's kernel initiator logs in to a zvoltd on this machine."""
    host = HostZvoltd(t.bin_dir)
    t.cleanup(host.close)
    t.eventually("zvoltd listens", host.ready, 30)
    initiator = t.kernel_initiator(portal=f"{machine.HOST}:{host.port}")
    disk = initiator.login()[0]
    t.vm.sh(FILE_SYSTEM_CYCLE.format(disk=disk), 240)
    t.check("ext4 cycle", True)
    t.check("logout", initiator.logout().ok)
    t.equal("zvoltd's exit status", host.close(), 0)


@scenario()
def daemon_restart(t):
    """The kernel's session outlives kill -9 of zvoltd and a start again: no error reaches the file system."""
    t.create("tank/a", "256M")
    t.daemon.start_with(["{ lun: 0, zvol: tank/a, sync: always }"])
    disk = t.kernel_initiator().login()[0]
    t.vm.sh(f"mkfs.ext4 -q -F {disk}; mount -t ext4 {disk} /mnt")
    writer = t.vm.start("cd /mnt; for n in $(seq 40); do dd if=/dev/urandom of=f$n bs=256K count=2 conv=fsync 2>/dev/null || exit 1; "
                        "md5sum f$n >>/tmp/sums || exit 1; done", 180)
    time.sleep(1)  # in the middle of its writes; any moment is right
    t.daemon.kill()
    t.daemon.start()
    t.check("the writer saw no error", t.vm.finish(writer).ok)
    t.vm.sh("umount /mnt; echo 3 > /proc/sys/vm/drop_caches")
    t.check("every file is as written", t.vm.run(f"mount -t ext4 {disk} /mnt && cd /mnt && md5sum -c /tmp/sums >/dev/null").ok)
    t.vm.sh(f"cd /; umount /mnt; e2fsck -fn {disk}")
    t.check("e2fsck finds nothing", True)
