"""What a scenario is and what it is given. A scenario is a function of scenarios/*.py with @scenario above it; it gets a Test:
the machine (t.vm), zvoltd in it (t.daemon), a fresh pool `tank` with a log device, and check(), which records and goes on.
Its first line of documentation is shown in the summary."""

import os
import subprocess
import time

from .initiators import KernelInitiator
from .zvoltd import TARGET, Zvoltd

TOOL_LIMIT_S = 120
VERIFIED_BYTES = 16 << 20  # read whole at the end, through an emulated network
REGISTRY = {}


def scenario(pool=True, udev=True, taints=False, optional=False):
    """pool: make `tank` before it; udev: udevd runs; taints: the machine is not used again; optional: only when named."""

    def register(function):
        name = function.__name__.replace("_", "-")
        REGISTRY[name] = {"run": function, "pool": pool, "udev": udev, "taints": taints, "optional": optional,
                          "text": (function.__doc__ or "").strip().splitlines()[0]}
        return function

    return register


class Test:
    """One run of a scenario."""

    def __init__(self, machine, bin_dir, log):
        self.vm, self.bin_dir, self.log = machine, bin_dir, log
        self.daemon = Zvoltd(machine)
        self.passed, self.failures, self.notes = 0, [], []
        self.cleanups = []

    # --- checks -----------------------------------------------------------------------------------------------------

    def check(self, what, condition, detail=""):
        """A fact that must hold."""
        if condition:
            self.passed += 1
        else:
            self.failures.append(f"{what}{': ' + str(detail) if detail != '' else ''}")
            self.log(f"  FAILED {self.failures[-1]}")
        return bool(condition)

    def equal(self, what, got, wanted):
        return self.check(what, got == wanted, f"{got!r}, expected {wanted!r}")

    def sense(self, what, result, wanted):
        """wanted: "GOOD" or "key/asc/ascq" in hexadecimal."""
        return self.equal(what, str(result), wanted)

    def note(self, text):
        """A figure for the summary."""
        self.notes.append(text)
        self.log(f"  {text}")

    def cleanup(self, action):
        self.cleanups.append(action)

    def eventually(self, what, probe, limit=30, every=0.2, detail=lambda: ""):
        """Until probe() is true: the seconds it took, or None (a failed check, with what detail() says)."""
        began = time.monotonic()
        while True:
            got = probe()
            if got or time.monotonic() - began > limit:
                self.check(what, got, f"not within {limit} s {detail()}".strip())
                return time.monotonic() - began if got else None
            time.sleep(every)

    # --- ZFS --------------------------------------------------------------------------------------------------------

    def create(self, name, size="256M", options="-s"):
        """A zvol, with its /dev/zvol link when udev runs."""
        self.vm.sh(f"zfs create {options} -V {size} {name} 2>&1; [ ! -S /run/udev/control ] || udevadm settle -t 30")

    def zfs_get(self, name, *properties):
        """Values of one dataset, exact (-Hp); one value alone for one property."""
        values = self.vm.sh(f"zfs get -Hpo value {','.join(properties)} {name}").splitlines()
        return values[0] if len(properties) == 1 else values

    def number(self, name, *properties):
        values = self.zfs_get(name, *properties)
        return int(values) if isinstance(values, str) else [int(v) for v in values]

    def device(self, name):
        """/dev/zdN of a zvol, without udev."""
        return self.vm.sh(f"for d in /dev/zd*; do [ \"$(/lib/udev/zvol_id $d 2>/dev/null)\" = {name} ] && echo $d; done | head -n 1")

    # --- initiators -------------------------------------------------------------------------------------------------

    def kernel_initiator(self, target=TARGET, portal="127.0.0.1:3260"):
        initiator = KernelInitiator(self.vm, target, portal)
        self.cleanup(initiator.logout)
        return initiator

    def tool(self, *command, limit=TOOL_LIMIT_S):
        """A program on this machine; (status, output)."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                              check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def verify_loop(self, seconds, lun=0, sessions=2, extra=()):
        """zvolt-verify-loop (libiscsi) from this machine: mixed I/O, every byte compared, at the end all of the span."""
        return self.tool(os.path.join(self.bin_dir, "zvolt-verify-loop"), "--url", self.daemon.url(lun), "--sessions", str(sessions),
                         "--seconds", str(seconds), "--span", str(VERIFIED_BYTES), *extra, limit=seconds + 300)
