"""The kernel's iSCSI initiator (open-iscsi) in the guest, driven by iscsiadm. Its portal may be zvoltd in the guest or on this
machine (machine.HOST)."""

from .machine import VmError

LOGIN_LIMIT_S = 90


class KernelInitiator:
    """One node record. login() returns its disks by LUN."""

    def __init__(self, machine, target, portal="127.0.0.1:3260"):
        self.vm, self.target, self.portal = machine, target, portal

    def login(self, luns=(0,)):
        self.vm.sh("modprobe iscsi_tcp; modprobe sd_mod; pidof iscsid >/dev/null || iscsid")
        # Through the emulated network a target announces an address that the guest cannot reach: the record is made by hand.
        node = f"iscsiadm -m node -T {self.target} -p {self.portal}"
        self.vm.sh(f"iscsiadm -m node -o new -T {self.target} -p {self.portal},1 >/dev/null; {node} --login", LOGIN_LIMIT_S)
        return {lun: self.disk(lun) for lun in luns}

    def disk(self, lun, limit=30):
        """/dev/sdX of a LUN, waiting for it."""
        find = f"for d in /sys/class/scsi_disk/*:{lun}/device/block/*; do [ -b /dev/${{d##*/}} ] && echo /dev/${{d##*/}}; done | grep ."
        if not self.vm.wait_for(find, limit):
            raise VmError(f"no disk for LUN {lun}: {self.vm.run('dmesg | tail -n 20').output}")
        return self.vm.sh(find).splitlines()[0]

    def rescan(self):
        self.vm.sh(f"iscsiadm -m node -T {self.target} -p {self.portal} --rescan", LOGIN_LIMIT_S)

    def state(self):
        """LOGGED_IN, FAILED ..., and how often the session was recovered."""
        return self.vm.run("cat /sys/class/iscsi_session/session*/state").output.strip()

    def logout(self):
        node = f"iscsiadm -m node -T {self.target} -p {self.portal}"
        return self.vm.run(f"{node} --logout; {node} -o delete", LOGIN_LIMIT_S)
