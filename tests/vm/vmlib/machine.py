"""The virtual machine: QEMU, its disks, its console and the agent in the guest (guest/init). Used by suite.py; scenarios see
it as `t.vm`. A reader thread takes the agent's replies, so several scripts may run in the guest at once. Every wait has a
limit; what exceeds it raises VmError, and the suite then kills the machine. Only processes started here are ever ended."""

import base64
import ctypes
import json
import os
import random
import re
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time

from . import kvm

GUEST_MEMORY = "3G"
DISKS = {"pool": 4 << 30, "slog": 512 << 20, "spare": 2 << 30}  # vda, vdb, vdc, each with one partition; sparse files
TARGET_PORT = 3260  # of zvoltd in the guest
HOST = "10.0.2.2"  # this machine's loopback address as the guest sees it
PORTS = range(20000, 32000)  # below the range of outgoing connections
BOOT_LIMIT_S = {"kvm": 60, "tcg": 180}
SCRIPT_LIMIT_S = 120
REPLY_GRACE_S = 15  # a killed script's reply must have come by then
ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host,-arch-capabilities"],
                "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"]}


class VmError(Exception):
    """The machine did not do what it was asked for in time."""


def free_port():
    """A port of the loopback address that nobody has now."""
    for port in random.sample(PORTS, 50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise VmError("no free port")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def accelerator():
    """kvm where it is faster than emulation, else tcg. ZVOLT_VM_ACCEL decides without a trial."""
    wanted = os.environ.get("ZVOLT_VM_ACCEL")
    if wanted:
        if wanted not in ACCELERATORS:
            raise VmError(f"ZVOLT_VM_ACCEL={wanted}: kvm or tcg")
        return wanted
    return "kvm" if kvm.useful(ACCELERATORS["kvm"]) else "tcg"


class Reply:
    """What a script in the guest printed, and its exit status."""

    def __init__(self, status, output):
        self.status = status
        self.output = output

    @property
    def ok(self):
        return self.status == 0


class Machine:
    """One machine of a folder; power_cut() and boot() again keep its disks."""

    boots = 0  # of the whole run

    def __init__(self, artefacts, overlay, folder, accel, log):
        self.artefacts = artefacts
        self.overlay = overlay
        self.folder = folder
        self.accel = accel
        self.log = log
        self.port = None
        self.process = None
        self.control = None
        self.pending = {}
        self.lock = threading.Lock()
        self.next_id = 1

    # --- life -------------------------------------------------------------------------------------------------------

    def boot(self, fresh_disks=True, parameters=""):
        """Starts QEMU and waits until the agent answers."""
        os.makedirs(self.folder, exist_ok=True)
        if fresh_disks:
            for name, size in DISKS.items():
                make_disk(self._disk(name), size)
        self.port = free_port()
        console = os.path.join(self.folder, "console.log")
        if os.path.exists(console):
            os.replace(console, console + ".before")
        began = time.monotonic()
        with open(os.path.join(self.folder, "qemu.log"), "wb") as errors:
            self.process = subprocess.Popen(self._command(console, parameters), stdin=subprocess.DEVNULL, stdout=errors,
                                            stderr=errors, start_new_session=True, preexec_fn=die_with_parent)
        Machine.boots += 1
        self._wait_for_agent(console, began + BOOT_LIMIT_S[self.accel])
        self._connect()
        self.sh("true", limit=30)
        self.log(f"booted in {time.monotonic() - began:.1f} s ({self.accel})")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def power_cut(self):
        """SIGKILL: all that only the guest's memory had is lost; the files of its disks keep what it wrote."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if self.control is not None:
            self.control.close()
            self.control = None

    def _command(self, console, parameters):
        initrd = os.path.join(self.folder, "initrd.img")
        with open(initrd, "wb") as out:
            for part in (os.path.join(self.artefacts, "initrd"), self.overlay):
                with open(part, "rb") as file:
                    out.write(file.read())
        command = ["qemu-system-x86_64", "-machine", "q35", *ACCELERATORS[self.accel], "-smp", "2", "-m", GUEST_MEMORY,
                   "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot",
                   "-kernel", os.path.join(self.artefacts, "vmlinuz"), "-initrd", initrd,
                   "-append", f"console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr tsc=reliable {parameters}",
                   "-serial", f"file:{console}",
                   "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:{TARGET_PORT}",
                   "-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
                   "-device", "virtio-serial-pci", "-chardev", f"socket,id=ctl,path={self._socket()},server=on,wait=off",
                   "-device", "virtserialport,chardev=ctl,name=ctl"]
        for name in DISKS:
            command += ["-drive", f"if=none,id={name},file={self._disk(name)},format=raw,cache=writeback,discard=unmap",
                        "-device", f"virtio-blk-pci,drive={name},serial={name}"]
        return command

    def _disk(self, name):
        return os.path.join(self.folder, name + ".img")

    def _socket(self):
        return os.path.join(self.folder, "ctl.sock")

    def _wait_for_agent(self, console, deadline):
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise VmError(f"QEMU ended with status {self.process.returncode}: {tail(os.path.join(self.folder, 'qemu.log'))}")
            if os.path.exists(console) and "@@ AGENT" in read_text(console):
                return
            time.sleep(0.1)  # a file that another program writes: nothing to wait on
        raise VmError(f"the guest's agent does not answer; its console ends with: {tail(console)}")

    # --- the agent --------------------------------------------------------------------------------------------------

    def _connect(self):
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(self._socket())
        threading.Thread(target=self._read_replies, args=(self.control,), daemon=True).start()

    def _read_replies(self, control):
        buffer = b""
        while True:
            try:
                data = control.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            buffer += data
            while b"\n" in buffer:
                line, buffer = buffer.split(b"\n", 1)
                self._take_reply(line.decode(errors="replace").split(" "))
        with self.lock:
            for waiter in self.pending.values():
                waiter["event"].set()

    def _take_reply(self, fields):
        if len(fields) != 4 or fields[0] != "@@":
            return
        with self.lock:
            waiter = self.pending.get(int(fields[1]))
        if waiter is not None:
            waiter["reply"] = Reply(int(fields[2]), base64.b64decode(fields[3]).decode(errors="replace"))
            waiter["event"].set()

    def start(self, script, limit=SCRIPT_LIMIT_S):
        """Starts a script; the result goes to finish()."""
        with self.lock:
            number = self.next_id
            self.next_id += 1
            waiter = {"event": threading.Event(), "reply": None, "script": script, "id": number,
                      "deadline": time.monotonic() + limit + REPLY_GRACE_S}
            self.pending[number] = waiter
        line = f"{number} {limit} {base64.b64encode(script.encode()).decode()}\n"
        try:
            self.control.sendall(line.encode())
        except (OSError, AttributeError) as error:
            raise VmError(f"the machine is gone: {error}") from error
        return waiter

    def finish(self, waiter):
        waiter["event"].wait(max(0, waiter["deadline"] - time.monotonic()))
        with self.lock:
            self.pending.pop(waiter["id"], None)
        if waiter["reply"] is None:
            raise VmError(f"no reply from the guest to: {waiter['script'][:200]}")
        return waiter["reply"]

    def done(self, waiter):
        return waiter["event"].is_set()

    def run(self, script, limit=SCRIPT_LIMIT_S):
        """Runs a shell script in the guest, whatever its status."""
        return self.finish(self.start(script, limit))

    def sh(self, script, limit=SCRIPT_LIMIT_S):
        """Runs a shell script that must end with status 0; its output without the last newline."""
        reply = self.run(script, limit)
        if not reply.ok:
            raise VmError(f"status {reply.status} in the guest: {script.strip()[:400]}\n{reply.output.strip()[-2000:]}")
        return reply.output.rstrip("\n")

    def write_file(self, path, text):
        self.sh(f"mkdir -p {shlex.quote(os.path.dirname(path))}; printf %s {shlex.quote(text)} > {shlex.quote(path)}")

    def json(self, script, limit=SCRIPT_LIMIT_S):
        return json.loads(self.sh(script, limit))

    def wait_for(self, script, limit=30, why=""):
        """Until the script's status is 0. True, or False when it did not happen in time."""
        loop = f"n=0; while ! ( {script} ) >/dev/null 2>&1; do n=$((n+1)); [ $n -lt {limit * 5} ] || exit 1; sleep 0.2; done"
        return self.run(loop, limit * 2 + 10).ok


def make_disk(path, size):
    """A sparse file with one MBR partition: without udev `zpool create` takes a partition but no whole disk."""
    first = 2048
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xBF, b"\xfe\xff\xff", first, size // 512 - first)
    with open(path, "wb") as file:
        file.truncate(size)
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


def read_text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def tail(path, lines=15):
    try:
        text = read_text(path)
    except OSError as error:
        return str(error)
    return "\n".join(re.sub(r"[^\x20-\x7e]", "", line) for line in text.splitlines()[-lines:])
